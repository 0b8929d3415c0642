"""Membership of finished texts in a grammar's language, decided by lark's parsers and ``re`` alone.

Nothing here looks at compiled tables. ``contextual`` and ``basic``: lark's LALR parser with that
lexer on the stored source. ``dynamic``: lark's Earley parser on the stored character grammar
(``compilers.grammars.characters``), whose language does not depend on how a text is cut in tokens.
A regular expression: ``re.fullmatch``.

A regular expression may look at a text for years, and lark at a grammar: what is here runs in the
process of ``cdec.core.child.readers`` alone.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cdec.core.child.readers import Language, OutOfTime, Parse
from cdec.core.grammars.blanks import BlankRuns
from cdec.core.grammars.indenter import Indenter
from cdec.core.grammars.special import KEY, MOST, is_stand_in, stand_in

_MOST_RULES = 20_000
"""Rules of a character grammar beyond which building its parser would cost more than a check."""


def stored_language(metadata: Mapping[str, str]) -> Language:
    """Return the language of a grammar artifact's metadata."""
    options = metadata["cdec.options"]
    asked = json.loads(options)
    if KEY in metadata:
        options = json.dumps(asked | {"special": True})
    if asked["lexer"] == "dynamic" and asked.get("dialect") != "regex":
        return grammar_language(options, characters=metadata.get("cdec.characters", ""))
    return grammar_language(options, metadata.get("cdec.plain", metadata["cdec.grammar"]))


def grammar_language(options: str, source: str = "", characters: str = "") -> Language:
    """Return what ``parser_of`` reads, for the process that judges."""
    return Language(__name__, (options, source, characters))


def load() -> None:
    """Build a first parser of each kind, so that what all of them need is there."""
    parser_of('{"lexer": "contextual", "start": "start"}', 'start: "a"\n')
    rules = '"sets": [[97, 98]], "rules": [[0, [0]]], "start": 0'
    for patterns in ("[]", '["a"]'):
        parser_of('{"lexer": "dynamic"}', characters=f'{{"patterns": {patterns}, {rules}}}')


def parser_of(options: str, source: str = "", characters: str = "") -> Parse | None:
    """Build the parser of a grammar; None where lark cannot read what is stored.

    Args:
        options: JSON: ``lexer``, ``start``, ``blanks``, ``max_whitespace``, ``indenter``,
            ``dialect``, ``conjoined``, ``deny_regex``, and ``special`` where characters stand for
            special tokens, which nothing but their own literals matches.
        source: The grammar's text, or the same grammar in rules that lark can write out; "" under
            ``dynamic``. Of the dialect ``regex`` always the regular expression.
        characters: Under ``dynamic`` the character grammar, JSON; "" where there is none.

    Returns:
        A function that raises ``OutOfTime`` where it looks at the time. Cost: of building, up to
        quadratic in the rules (11 seconds for 1,000); of a text, linear for ``contextual`` and
        ``basic``, up to cubic for ``dynamic``, and without any bound where regular expressions of
        terminals go back.
    """
    from lark.exceptions import LarkError

    read = json.loads(options)
    if read.get("dialect") == "regex":
        return _whole(source, read.get("conjoined", ()), read.get("deny_regex", ()))
    if read["lexer"] == "dynamic":
        grammar = json.loads(characters) if characters else None
        if grammar is None or len(grammar["rules"]) > _MOST_RULES:
            return None
        return _earley(grammar, apart=bool(read.get("special")))
    try:
        return _lalr(source, read)
    except (LarkError, RecursionError):
        # A source with imports from the user's own folder, or in another dialect.
        return None


def _whole(pattern: str, conjoined: Sequence[str], denied: Sequence[str]) -> Parse | None:
    """Return ``re.fullmatch`` of all patterns; None where this version of ``re`` refuses one."""
    try:
        wanted = [re.compile(text) for text in (pattern, *conjoined)]
        unwanted = [re.compile(text) for text in denied]
    except (re.error, OverflowError, RecursionError):
        return None

    def parse(text: str, _deadline: float) -> bool:
        return all(one.fullmatch(text) for one in wanted) and not any(
            one.fullmatch(text) for one in unwanted
        )

    return parse


def _lalr(source: str, options: Mapping[str, Any]) -> Parse:
    from lark import Lark
    from lark.exceptions import LarkError

    # subtle: an indenter asserts that brackets close what is open, and takes it for granted that a
    # line break has a line feed.
    refusals = (LarkError, AssertionError, IndexError)
    runs = BlankRuns(str(options.get("blanks", "")), options.get("max_whitespace"))
    indenter = options.get("indenter")
    parser: Any = Lark(
        source,
        parser="lalr",
        lexer=str(options["lexer"]),
        start=str(options["start"]),
        maybe_placeholders=False,
        import_paths=[_shipped],
        postlex=None if indenter is None else Indenter.parse(indenter).postlex(),
    )
    # subtle: lark takes the callbacks that are there when the first text is read.
    called = parser.lexer_conf.callbacks
    called.update(dict.fromkeys(map(str, parser.ignore_tokens), runs.note))

    literals = {terminal.pattern.value: terminal.name for terminal in parser.terminals}
    pieces_of = _pieces if options.get("special") else _whole_piece

    def parse(text: str, deadline: float) -> bool:
        runs.clear()
        state = parser.parse_interactive("").parser_state
        tables, stack = state.parse_conf.states, state.state_stack
        try:
            for piece, special in pieces_of(text):
                for token in parser.parse_interactive(piece).lexer_thread.lex(state):
                    if not _shift(tables, stack, token.type, deadline):
                        return False
                if special and not _shift(tables, stack, literals.get(special, ""), deadline):
                    return False
        except refusals:
            return False
        if not runs.are_bounded:
            return False
        return _shift(tables, stack, "$END", deadline, state.parse_conf.end_state)

    return parse


def _pieces(text: str) -> list[tuple[str, str]]:
    """Return a text cut at characters that stand for special tokens, each with that behind it."""
    parts = [*re.split(f"([{stand_in(0)}-{stand_in(MOST - 1)}])", text), ""]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _whole_piece(text: str) -> list[tuple[str, str]]:
    return [(text, "")]


def _shift(tables: Any, stack: list[Any], terminal: str, deadline: float, end: Any = None) -> bool:
    """Reduce and shift as lark's parser does; say whether the terminal is taken, or ``end`` met.

    subtle: lark's own loop does not end where a rule's priority prefers reducing an empty rule for
    ever, and its memory grows; this one ends with the time.
    """
    while time.process_time() <= deadline:
        if end is not None and stack[-1] == end:
            return True
        action, value = tables[stack[-1]].get(terminal, (None, None))
        if action is None:
            return False
        if action.name == "Shift":
            stack.append(value)
            return True
        del stack[len(stack) - len(value.expansion) :]
        stack.append(tables[stack[-1]][value.origin.name][1])
    raise OutOfTime


def _shipped(base: Any, path: str) -> tuple[Any, str]:
    """Give lark a file that is imported: one of its own, and no other is looked for.

    subtle: asked first, and what it raises ends the search; else lark would read any file that an
    artifact names, in the folder of the running program.
    """
    from lark.exceptions import GrammarError
    from lark.load_grammar import stdlib_loader

    if isinstance(base, str):
        raise GrammarError(f"{path} is imported from the folder of the grammar")
    try:
        found: tuple[Any, str] = stdlib_loader(base, path)
    except OSError as error:
        raise GrammarError(f"{path} is no grammar of lark's") from error
    return found


def _earley(grammar: Mapping[str, Any], *, apart: bool) -> Parse | None:
    """Return lark's Earley parser over characters, without the reading of a grammar's text.

    Where some terminals are regular expressions it is the one that lark calls ``dynamic_complete``:
    it tries them at every place, and what ``re.match`` finds in every shorter text. ``apart``:
    characters that stand for special tokens are matched by their own literals alone.
    """
    from lark.common import LexerConf, ParserConf
    from lark.exceptions import UnexpectedInput
    from lark.grammar import NonTerminal, Rule, Terminal
    from lark.lexer import PatternStr, TerminalDef
    from lark.parsers import earley, xearley

    try:
        patterns = [re.compile(pattern) for pattern in grammar["patterns"]]
    except (re.error, OverflowError, RecursionError):
        return None
    names = [f"n{number}" for number in range(1 + max(lhs for lhs, _ in grammar["rules"]))]
    nonterminals = [NonTerminal(name) for name in names]
    terminals = [Terminal(f"S{number}") for number in range(len(grammar["sets"]) + len(patterns))]
    rules = [
        Rule(nonterminals[lhs], [terminals[s] if s >= 0 else nonterminals[~s] for s in symbols])
        for lhs, symbols in grammar["rules"]
    ]
    start = names[grammar["start"]]
    leaves = _Leaves(grammar["sets"], patterns, apart=apart)
    parser: Any
    if patterns:
        # subtle: of a terminal's definition the parser asks for no more than that there is one.
        made = [TerminalDef(terminal.name, PatternStr("")) for terminal in terminals]
        parser = xearley.Parser(
            LexerConf(made, re),
            ParserConf(rules, {}, [start]),
            lambda terminal, text, at=0: leaves.match(int(terminal.name[1:]), text, at),
            resolve_ambiguity=False,
            complete_lex=True,
            tree_class=None,
        )
    else:
        parser = earley.Parser(
            LexerConf([], re),
            ParserConf(rules, {}, [start]),
            lambda terminal, character: leaves.holds(int(terminal.name[1:]), character),
            resolve_ambiguity=False,
            tree_class=None,
        )

    def parse(text: str, deadline: float) -> bool:
        try:
            parser.parse(_Characters(text).until(deadline), start)
        except UnexpectedInput:
            return False
        return True

    return parse


class _Characters(str):
    """A text whose characters are given out, to either parser, as long as there is time."""

    deadline: float

    def until(self, deadline: float) -> _Characters:
        """Set when to stop, in processor time; return the text itself."""
        self.deadline = deadline
        return self

    def lex(self, _expected: object) -> Iterator[str]:
        """Yield the characters, as ``iter`` does."""
        return iter(self)

    def __iter__(self) -> Iterator[str]:
        """Yield the characters.

        Raises:
            OutOfTime: The deadline passed before the next one.
        """
        for character in super().__iter__():
            if time.process_time() > self.deadline:
                raise OutOfTime
            yield character


class _One(NamedTuple):
    """The match of a single character, in the form of a ``re.Match``."""

    character: str
    place: int

    def group(self, _number: int) -> str:
        """Return the character."""
        return self.character

    def end(self) -> int:
        """Return the place behind it."""
        return self.place + 1


class _Leaves:
    """What the character grammar's symbols match: sets of characters, then regular expressions."""

    def __init__(
        self, sets: Sequence[Sequence[int]], patterns: Sequence[re.Pattern[str]], *, apart: bool
    ) -> None:
        self._apart = apart
        self._sets = sets
        self._patterns = patterns
        self._known: dict[tuple[int, str], bool] = {}

    def match(self, number: int, text: str, at: int) -> _One | re.Match[str] | None:
        """Match leaf ``number`` at a place of a text."""
        if number >= len(self._sets):
            found = self._patterns[number - len(self._sets)].match(text, at)
            is_within = not self._apart or found is None or len(_pieces(found.group(0))) == 1
            return found if is_within else None
        return _One(text[at], at) if self.holds(number, text[at]) else None

    def holds(self, number: int, character: str) -> bool:
        """Say whether set ``number`` holds ``character``; each pair is searched once."""
        key = (number, character)
        if key not in self._known:
            ranges, code = self._sets[number], ord(character)
            if self._apart and is_stand_in(character):
                return list(ranges) == [code, code]
            place = bisect_right(ranges, code)
            # subtle: at an odd place the code lies inside a range; a range may be one code point,
            # and then its two ends are equal and the place is behind both.
            self._known[key] = place % 2 == 1 or (place > 0 and ranges[place - 1] == code)
        return self._known[key]
