"""Terminals of a Lark grammar: regular expressions of trees, checks, the order of competition.

Lark takes 0.2 ms a literal, and the parse tables of a rule with n literals that repeats have n * n
actions. Literals that occur once in a grammar, as alternatives side by side, are alike to its
rules; so long lists of them are cut out of the grammar, and Lark is shown one terminal in their
place. What they are to the lexer is decided where the terminals are put in order.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from lark import Tree
from lark.lexer import PatternRE, PatternStr, TerminalDef
from lark.load_grammar import PrepareLiterals, TerminalTreeToPattern

from cdec.compilers.grammars.automata.pattern_checks import check_depth, examine, width_of
from cdec.compilers.grammars.definition import NOTHING, GrammarLimits, Terminal
from cdec.compilers.grammars.lark.outline import (
    Outline,
    Statement,
    Token,
    imports_of,
    read_literal,
    too_deep,
    too_many,
)
from cdec.core.grammars.columns import stand_in
from cdec.core.grammars.errors import (
    EmptyTerminalError,
    GrammarError,
    RegexSyntaxError,
    RegexUnsupportedError,
)
from cdec.core.grammars.special import is_stand_in

_LEAST = 100
"""Literals of a list that is cut out; a shorter one is left to Lark."""

Order: TypeAlias = tuple[int, int, int, str]
"""Key by which Lark orders terminals: less priority, width and length come later; then the name."""


@dataclass(frozen=True, slots=True)
class WordList:
    """A list of literals.

    Attributes:
        name: Of the terminal that Lark is shown in their place.
        words: The literals, none twice.
        is_terminal: They are a terminal's whole definition; else alternatives of a rule.
        position: Of the first one in the source.
    """

    name: str
    words: tuple[str, ...]
    is_terminal: bool
    position: int


class MixedListError(Exception):
    """A list cannot be set apart from the other terminals; Lark has to read the whole text."""


def find_word_lists(outline: Outline) -> tuple[str, dict[str, WordList]]:
    """Cut long lists of literals out of a grammar.

    Args:
        outline: A well-formed grammar whose literals have been checked.

    Returns:
        The text for Lark, in which all that is left stands where it stood, and the lists by name.
        Cost: linear.
    """
    runs = long_runs(outline)
    if not runs:
        return outline.text, {}
    tokens = [token for statement in outline.statements for token in statement.body]
    used = Counter(token.text for token in tokens if token.kind == "STRING")
    # What is written with escapes may be one of the words in other letters.
    used.update(
        f'"{read_literal(t).value}"' for t in tokens if t.kind == "STRING" and "\\" in t.text
    )
    within = {
        token.text
        for statement in outline.statements
        if statement.is_terminal
        for token in statement.body
        if token.kind == "TERMINAL"
    }
    names = {token.text for token in outline.tokens}
    pieces: list[str] = []
    lists: dict[str, WordList] = {}
    done = 0
    for statement, run in runs:
        chosen = _chosen(statement, run, used, within)
        if len(chosen) < _LEAST:
            continue
        name = _fresh(statement, names)
        first, last = run[0].position, run[-1].position + len(run[-1].text)
        shown = run[0].text
        if not statement.is_terminal:
            shown = " | ".join([name, *(token.text for token in run if token not in chosen)])
        instead = _in_place(shown, outline.text[first:last])
        if instead is None:
            continue
        words = tuple(dict.fromkeys(token.text[1:-1] for token in run if token in chosen))
        lists[name] = WordList(name, words, statement.is_terminal, first)
        pieces += [outline.text[done:first], instead]
        done = last
    pieces.append(outline.text[done:])
    pieces += [f'\n{w.name}: "{w.words[0]}"\n' for w in lists.values() if not w.is_terminal]
    return "".join(pieces), lists


def long_runs(outline: Outline) -> list[tuple[Statement, list[Token]]]:
    """Return the long runs of alternatives that are one literal each, with their definitions."""
    return [
        (statement, run)
        for statement in outline.definitions()
        if not statement.directive and len(statement.body) > _LEAST
        for run in _runs(statement)
    ]


def pattern_of(words: Sequence[str]) -> str:
    """Return the regular expression that Lark makes of a list of literals."""
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"


def _runs(statement: Statement) -> Iterator[list[Token]]:
    body = statement.body
    run: list[Token] = []
    before = "|"
    for i, token in enumerate(body):
        after = body[i + 1].text if i + 1 < len(body) else "|"
        if token.kind == "STRING" and before in ("|", "(", "[") and after in ("|", ")", "]"):
            run.append(token)
        elif token.text != "|":
            if len(run) >= _LEAST:
                yield run
            run = []
        before = token.text
    if len(run) >= _LEAST:
        yield run


def _chosen(
    statement: Statement, run: list[Token], used: Mapping[str, int], within: Collection[str]
) -> frozenset[Token]:
    """Return the literals of a run that can be cut out."""
    plain = [t for t in run if "\\" not in t.text and not t.text.endswith("i")]
    plain = [t for t in plain if not is_stand_in(t.text[1:-1])]
    if not statement.is_terminal:
        return frozenset(token for token in plain if used[token.text] == 1)
    is_whole = 2 * len(run) - 1 == len(statement.body) and len(plain) == len(run)
    is_inner = statement.name is None or statement.name.text in within
    return frozenset() if is_inner or not is_whole else frozenset(plain)


def _fresh(statement: Statement, names: set[str]) -> str:
    """Return the name of a list: the terminal's own, or one that the grammar does not use."""
    if statement.is_terminal and statement.name is not None:
        return statement.name.text
    number = 0
    while f"_WORDS_{number}" in names:
        number += 1
    names.add(f"_WORDS_{number}")
    return f"_WORDS_{number}"


def _in_place(shown: str, cut: str) -> str | None:
    """Return ``shown`` filled up to the length and the lines of what was cut; None: no room."""
    # subtle: Lark reads a backslash before a line's end as nothing at all.
    ends = "\\\n" * cut.count("\n")
    last = " " * (len(cut) - cut.rindex("\n") - 1) if ends else ""
    room = len(cut) - len(shown) - len(ends) - len(last)
    return None if room < 0 else shown + " " * room + ends + last


def grouped(
    lists: Sequence[WordList], others: Sequence[tuple[Order, Terminal]]
) -> list[tuple[int, str, tuple[str, ...]]]:
    """Divide the literals of lists among terminals, so that each competes as it would alone.

    Literals between which no other terminal stands in the order of competition can be one: the
    longest that matches wins, as it would among them. Where lists meet there, or a regular
    expression matches some of the literals, which makes keywords of these, literals of equal length
    are one: no two of them match at one place.

    Args:
        lists: Of literals that are alternatives of rules.
        others: The other terminals in order.

    Returns:
        Place among ``others``, list, and literals, in order. Cost: literals x regular expressions.

    Raises:
        MixedListError: The order depends on the names that Lark would give the literals.
    """
    regular = [
        re.compile(terminal.pattern)
        for order, terminal in others
        if lists and not terminal.is_string and order[0] == 0
    ]
    orders = [order[:3] for order, _ in others]
    unnamed = {
        order for order, (_, other) in zip(orders, others, strict=True) if not other.is_string
    }
    places: dict[int, dict[tuple[str, tuple[bool, ...]], list[str]]] = {}
    for words in lists:
        for word in words.words:
            order = (0, -len(word), -len(word))
            if order in unnamed:
                raise MixedListError
            matched = tuple(_is_whole(pattern, word) for pattern in regular)
            here = places.setdefault(bisect(orders, order), {})
            here.setdefault((words.name, matched), []).append(word)
    found = []
    for place, kinds in sorted(places.items()):
        parts: dict[tuple[int, int], list[str]] = {}
        for number, members in enumerate(kinds.values()):
            for word in members:
                parts.setdefault((-len(word) if len(kinds) > 1 else 0, number), []).append(word)
        named = [name for name, _ in kinds]
        found += [(place, named[number], tuple(own)) for (_, number), own in sorted(parts.items())]
    return found


def _is_whole(pattern: re.Pattern[str], word: str) -> bool:
    match = pattern.match(word)
    return match is not None and match.end() == len(word)


def terminal_definitions(
    term_defs: Iterable[tuple[str, tuple[Any, int]]],
    refused: Callable[[str, Exception], GrammarError],
) -> list[Any]:
    """Return Lark's terminal definitions of the named terminals.

    Terminals within terminals are shared trees here, so every tree is turned into a pattern once.

    Args:
        term_defs: Names, trees and priorities, as Lark's ``Grammar`` keeps them.
        refused: Makes the error of a terminal whose pattern ``re`` refuses.

    Returns:
        ``TerminalDef`` objects, in order.

    Raises:
        EmptyTerminalError: A terminal without a body.
        lark.exceptions.GrammarError: As Lark raises it.
    """
    patterns: dict[int, Any] = {}
    definitions = []
    for name, (tree, priority) in term_defs:
        try:
            _convert(tree, patterns)
        except (re.error, OverflowError) as error:
            raise refused(name, error) from None
        pattern = patterns[id(tree)]
        if isinstance(pattern, PatternStr) and not pattern.value:
            raise EmptyTerminalError(
                f"terminal {name} matches only the empty text",
                hint="make it a rule, which may be empty",
                name=name,
            )
        definitions.append(TerminalDef(name, pattern, priority))
    return definitions


def declared_terminal(name: str) -> Terminal:
    """Return a terminal without a text, of which no lexer makes one."""
    return Terminal(name=name, pattern=NOTHING, value=NOTHING, is_string=False)


def set_terminal(name: str, number: int) -> Terminal:
    """Return the terminal of a set's members; ``number`` tells it from those of other sets."""
    stands_for = stand_in(number)
    return Terminal(name, stands_for, stands_for, is_string=True, is_set=True)


def _convert(tree: Any, patterns: dict[int, Any]) -> None:
    literals, converter = PrepareLiterals(), TerminalTreeToPattern()
    pending = [tree]
    while pending:
        node = pending[-1]
        inner = [c for c in node.children if isinstance(c, Tree) and id(c) not in patterns]
        if id(node) in patterns:
            pending.pop()
        elif inner:
            pending += inner
        else:
            if node.data in ("literal", "range"):
                pattern = literals.transform(node).children[0]
            else:
                parts = [patterns[id(c)] if isinstance(c, Tree) else c for c in node.children]
                if node.data == "expansions" and len(parts) > 1:
                    _measure(parts)
                pattern = getattr(converter, node.data)(parts)
            patterns[id(node)] = pattern
            pending.pop()


def _measure(alternatives: Iterable[Any]) -> None:
    """Give Lark the lengths that it sorts alternatives by: it trips over what is no pattern."""
    for pattern in alternatives:
        if isinstance(pattern, PatternRE):
            pattern._width = width_of(pattern.to_regexp())


class TerminalReader:
    """Turns Lark's definitions of the terminals in use into ours.

    Args:
        outline: Where they are defined.
        lists: Lists of literals that Lark was shown as terminals, by name.

    Attributes:
        terminals_of: Of each list that ``read`` met: the names of its terminals.
    """

    def __init__(
        self,
        outline: Outline,
        limits: GrammarLimits,
        lists: Mapping[str, WordList] = MappingProxyType({}),
    ) -> None:
        self.outline = outline
        self.limits = limits
        self.lists = lists
        self.terminals_of: dict[str, list[str]] = {}
        self._literals: dict[str, Token] = {}
        self._definitions: dict[str, list[Token]] = {}
        for statement in outline.statements:
            for token in statement.body:
                if token.kind in ("STRING", "REGEXP"):
                    self._literals.setdefault(token.text, token)
            if statement.name is not None:
                tokens = self._definitions.setdefault(statement.name.text, [statement.name])
                tokens += statement.body
        for path, pairs in imports_of(outline):
            for _, name in pairs:
                self._definitions.setdefault(name, [path[0]])

    def read(self, definitions: Sequence[Any]) -> tuple[Terminal, ...]:
        """Return the terminals in Lark's order of competition.

        Returns:
            Terminals: higher priority first, then the wider, the longer, then by name.

        Raises:
            RegexSyntaxError: A pattern that ``re`` refuses.
            RegexUnsupportedError: A pattern that is not regular.
            LimitError: Brackets that nest too deep.
            MixedListError: A list of literals that cannot be set apart from the other terminals.
        """
        listed = [self.lists[d.name] for d in definitions if d.name in self.lists]
        in_rules = {words.name for words in listed if not words.is_terminal}
        alone = [self._ordered(d) for d in definitions if d.name not in in_rules]
        alone.sort(key=itemgetter(0))
        terminals = [terminal for _, terminal in alone]
        groups = grouped([w for w in listed if not w.is_terminal], alone)
        for place, name, words in reversed(groups):
            terminals.insert(place, self._list(name, words, 0, is_string=True))
        return tuple(terminals)

    def _ordered(self, definition: Any) -> tuple[Order, Terminal]:
        """Return a terminal, and what it is ordered by."""
        words = self.lists.get(str(definition.name))
        if words is None:
            terminal, width = self._read(definition), definition.pattern.max_width
        else:
            priority = definition.priority
            terminal = self._list(words.name, words.words, priority, is_string=False)
            width = max(map(len, words.words))
        return (-terminal.priority, -width, -len(terminal.value), terminal.name), terminal

    def _list(
        self, name: str, words: tuple[str, ...], priority: int, *, is_string: bool
    ) -> Terminal:
        """Return the terminal of a list of literals, or of a part of one."""
        place = self.outline.place(self.lists[name].position)
        parts = self.terminals_of.setdefault(name, [])
        parts.append(f"{name}_{len(parts)}" if parts else name)
        is_one = is_string and len(words) == 1
        pattern = re.escape(words[0]) if is_one else pattern_of(words)
        return Terminal(
            name=parts[-1],
            pattern=pattern,
            value=words[0] if is_one else pattern,
            is_string=is_string,
            priority=priority,
            line=place["line"],
            column=place["column"],
            words=() if is_one else words,
        )

    def _read(self, definition: Any) -> Terminal:
        pattern, name = definition.pattern, str(definition.name)
        place = self._place(name, pattern)
        is_string = isinstance(pattern, PatternStr)
        return Terminal(
            name=name,
            pattern=pattern.to_regexp() if is_string else self._checked(name, pattern, place),
            value=pattern.value,
            # No text of another terminal is that of a special token.
            is_string=is_string and not is_stand_in(pattern.value),
            flags=frozenset(pattern.flags),
            priority=definition.priority,
            line=place.get("line", 0),
            column=place.get("column", 0),
        )

    def _place(self, name: str, pattern: Any = None) -> dict[str, int]:
        raw = getattr(pattern, "raw", None) or ""
        token = self._definitions.get(name, [None])[0] or self._literals.get(raw)
        return {} if token is None else self.outline.place(token.position)

    def _checked(self, name: str, pattern: Any, place: dict[str, int]) -> str:
        """Return a pattern; refuse what is not regular."""
        text = str(pattern.to_regexp())
        if not check_depth(text, self.limits):
            raise too_deep(f"terminal {name}", self.limits, place)
        try:
            facts = examine(f"(?:{text})")
        except RecursionError:
            raise too_deep(f"terminal {name}", self.limits, place) from None
        except (re.error, OverflowError) as error:
            raise self.refused(name, error) from None
        if facts.largest_count > self.limits.max_repeat:
            raise too_many(f"terminal {name}", self.limits, place)
        if facts.features:
            raise self._unsupported(name, facts.features[0], place)
        return text

    def refused(self, name: str, error: Exception) -> GrammarError:
        """Return the error of a terminal that is no regular expression.

        It is at the first piece that is none, though with others it could be part of one.
        """
        broken = self.outline.broken
        own = (token.text for token in self._pieces(name))
        imported = (text for text, alone in broken.items() if "path" in alone.details)
        for text in (*own, *imported):
            if text in broken:
                return broken[text]
        place = self._place(name)
        return RegexSyntaxError(
            f"{_line(place)}terminal {name} is no regular expression: {error}",
            hint="write flags after the pattern: /abc/i",
            name=name,
            **place,
        )

    def _unsupported(self, name: str, feature: str, place: dict[str, int]) -> RegexUnsupportedError:
        token = next((t for t in self._pieces(name) if feature in self._features(t)), None)
        if token is not None:
            place = self.outline.place(token.position)
        return RegexUnsupportedError(
            f"{_line(place)}terminal {name} uses a construct that is not regular: {feature}",
            hint="rewrite the pattern without it; what follows a terminal is for the rules to say",
            feature=feature,
            name=name,
            **place,
        )

    def _pieces(self, name: str) -> Iterator[Token]:
        """Yield the regular expressions of a definition, and of what that is built of."""
        pending, seen = [name] if name in self._definitions else [], {name}
        while pending:
            for token in self._definitions[pending.pop()]:
                if token.kind == "REGEXP":
                    yield token
                elif token.text in self._definitions and token.text not in seen:
                    seen.add(token.text)
                    pending.append(token.text)

    def _features(self, token: Token) -> tuple[str, ...]:
        """Return what is not regular in a literal; nothing where it is a piece of a pattern."""
        if token.text in self.outline.broken:
            return ()
        return examine(read_literal(token).to_regexp()).features


def _line(place: dict[str, int]) -> str:
    return f"line {place['line']}, column {place['column']}: " if place else ""
