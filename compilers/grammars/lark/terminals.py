"""Terminals of a Lark grammar: regular expressions of trees, checks, the order of competition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from lark import Tree
from lark.lexer import PatternRE, PatternStr, TerminalDef
from lark.load_grammar import PrepareLiterals, TerminalTreeToPattern

from cdec.compilers.grammars.automata.pattern_checks import (
    check_depth,
    examine,
    width_of,
)
from cdec.compilers.grammars.definition import NOTHING, GrammarLimits, Terminal
from cdec.compilers.grammars.lark.checks import too_deep, too_many
from cdec.compilers.grammars.lark.outline import Outline, Token, imports_of, read_literal
from cdec.compilers.grammars.lark.word_lists import Order, WordList, grouped, pattern_of
from cdec.core.grammars.errors import (
    EmptyTerminalError,
    GrammarError,
    RegexSyntaxError,
    RegexUnsupportedError,
)


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
            is_string=is_string,
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
