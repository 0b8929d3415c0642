"""The character grammar: a grammar's rules with every terminal written out over single characters.

Under ``dynamic`` a text is in the language if these rules derive it. They share nothing with the
byte automata, so a parser that reads them is an independent check (``core.grammars.validity``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from cdec.compilers.grammars.definition import Grammar, Terminal
from cdec.core.grammars.errors import RegexSyntaxError, RegexUnsupportedError

# The standard library's own reading of patterns; its names are private, its trees are not ours.
_constants: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")
_compiler: Any = import_module("re._compiler")

_CHARACTERS = (
    _constants.LITERAL,
    _constants.NOT_LITERAL,
    _constants.ANY,
    _constants.IN,
)
_FEATURES = {
    "AT": "anchor",
    "ASSERT": "look-around",
    "ASSERT_NOT": "look-around",
    "GROUPREF": "back-reference",
    "GROUPREF_EXISTS": "conditional",
    "ATOMIC_GROUP": "atomic group",
    "POSSESSIVE_REPEAT": "possessive quantifier",
}
_LONGEST = 8
"""Symbols of one rule; analyses of a rule cost the cube of its length."""
_LAST = sys.maxunicode
_SURROGATES = (0xD800, 0xDFFF)


def character_grammar(grammar: Grammar) -> str:
    """Return the character-level context-free grammar of ``grammar``'s dynamic reading as JSON.

    Args:
        grammar: Any; its terminals' priorities and order mean nothing here.

    Returns:
        An object with ``sets`` (each a flat list of first and last code points, ascending),
        ``rules`` (pairs of a nonterminal and its symbols: set s as s >= 0, nonterminal n as
        ~n < 0) and ``start``. Cost: linear in rules and patterns, counts by their logarithm; a
        case-insensitive or Unicode class one pass over all characters, some 10 ms.

    Raises:
        RegexUnsupportedError: A pattern that is not regular.
        RegexSyntaxError: A pattern that ``re`` refuses.
    """
    builder = _Builder()
    symbols = [builder.new() for _ in grammar.nonterminals]
    texts: dict[int, int] = {}

    def text_of(number: int) -> int:
        if number not in texts:
            texts[number] = builder.pattern(grammar.terminals[number])
        return texts[number]

    between: list[int] = []
    if grammar.ignored:
        alone = [text_of(number) for number in sorted(grammar.alone)]
        others = [text_of(number) for number in sorted(grammar.ignored - grammar.alone)]
        between = [builder.between(others, alone)]
    tokens: dict[int, int] = {}
    for rule in grammar.rules:
        row = []
        for symbol in rule.rhs:
            if symbol < 0:
                row.append(symbols[~symbol])
                continue
            if symbol not in tokens:
                tokens[symbol] = builder.new()
                builder.add(tokens[symbol], [text_of(symbol), *between])
            row.append(tokens[symbol])
        builder.add(symbols[rule.lhs], row)
    start = builder.new()
    builder.add(start, [*between, symbols[grammar.start]])
    return json.dumps(builder.result(start), separators=(",", ":"))


class _Builder:
    """Rules in the making; symbols are set s as s >= 0, nonterminal n as ~n."""

    def __init__(self) -> None:
        self._count = 0
        self._sets: dict[tuple[int, ...], int] = {}
        self._rules: dict[tuple[int, tuple[int, ...]], None] = {}
        self._powers: dict[int, list[int]] = {}
        self._below: dict[tuple[int, int], int] = {}

    def new(self) -> int:
        """Return the symbol of a nonterminal of its own."""
        self._count += 1
        return ~(self._count - 1)

    def add(self, lhs: int, symbols: Sequence[int]) -> None:
        """Add one rule, long ones in pieces."""
        row = list(symbols)
        while len(row) > _LONGEST:
            head = self.new()
            self._rules[~head, tuple(row[:_LONGEST])] = None
            row[:_LONGEST] = [head]
        self._rules[~lhs, tuple(row)] = None

    def star(self, choices: Sequence[int]) -> int:
        """Return a symbol for any number of ``choices``."""
        repeated = self.new()
        self.add(repeated, [])
        for choice in choices:
            # Left recursion: an Earley parser reads it in linear time.
            self.add(repeated, [repeated, choice])
        return repeated

    def between(self, choices: Sequence[int], alone: Sequence[int]) -> int:
        """Return a symbol for any number of ``choices`` and ``alone``, no two of these in a row."""
        if not alone:
            return self.star(choices)
        either, free, ended = self.new(), self.new(), self.new()
        self.add(either, [free])
        self.add(either, [ended])
        self.add(free, [])  # the last one, if any, is of ``choices``
        for choice in choices:
            self.add(free, [either, choice])
        for choice in alone:
            self.add(ended, [free, choice])
        return either

    def pattern(self, terminal: Terminal) -> int:
        """Return a symbol for the texts that a terminal matches."""
        try:
            parsed = _parser.parse(terminal.pattern)
        except _constants.error as error:
            raise RegexSyntaxError(
                f"terminal {terminal.name} is no regular expression: {error}",
                hint="Write it as Python's re module reads it.",
                line=terminal.line,
                name=terminal.name,
            ) from error
        root = self.new()
        todo = [(root, parsed, int(parsed.state.flags))]
        while todo:
            lhs, sequence, flags = todo.pop()
            row: list[int] = []
            for op, value in sequence:
                row += self._symbols(terminal, op, value, flags, todo)
            self.add(lhs, row)
        return root

    def _symbols(
        self, terminal: Terminal, op: Any, value: Any, flags: int, todo: list[Any]
    ) -> list[int]:
        """Return the symbols of one element of a pattern; what is inside goes on ``todo``."""
        if op in _CHARACTERS:
            return [self._set(op, value, flags)]
        if op is _constants.BRANCH:
            chosen = self.new()
            todo += [(chosen, part, flags) for part in value[1]]
            return [chosen]
        if op is _constants.SUBPATTERN:
            _, added, removed, part = value
            group = self.new()
            todo.append((group, part, (flags | added) & ~removed))
            return [group]
        if op in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            # Which repetition is tried first decides nothing about the language.
            low, high, part = value
            if len(part) == 1 and part[0][0] in _CHARACTERS:
                inner, inner_value = part[0]
                repeated = self._set(inner, inner_value, flags)
            else:
                repeated = self.new()
                todo.append((repeated, part, flags))
            rest = self.star([repeated]) if high is _constants.MAXREPEAT else None
            if rest is None and high > low:
                rest = self._at_most(repeated, int(high) - int(low))
            return self._exactly(repeated, int(low)) + ([] if rest is None else [rest])
        feature = _FEATURES.get(str(op), str(op).lower())
        raise RegexUnsupportedError(
            f"terminal {terminal.name} has a construct that is not regular: {feature}",
            hint="Write the terminal without it, or say it in rules.",
            feature=feature,
            line=terminal.line,
            name=terminal.name,
        )

    def _set(self, op: Any, value: Any, flags: int) -> int:
        ranges = _ranges(op, value, flags)
        return self._sets.setdefault(ranges, len(self._sets))

    def _power(self, symbol: int, exponent: int) -> int:
        """Return a symbol for ``2**exponent`` times ``symbol``."""
        powers = self._powers.setdefault(symbol, [symbol])
        while len(powers) <= exponent:
            doubled = self.new()
            self.add(doubled, [powers[-1], powers[-1]])
            powers.append(doubled)
        return powers[exponent]

    def _exactly(self, symbol: int, count: int) -> list[int]:
        bits = range(count.bit_length())
        return [self._power(symbol, bit) for bit in reversed(bits) if count >> bit & 1]

    def _at_most(self, symbol: int, count: int) -> int:
        """Return a symbol for 0 to ``count`` times ``symbol``, each count derived in one way."""
        bit = (count + 1).bit_length() - 1
        result = self.new()
        self.add(result, [self._fewer(symbol, bit)])
        rest = count - (1 << bit)
        if rest >= 0:
            more = [] if rest == 0 else [self._at_most(symbol, rest)]
            self.add(result, [self._power(symbol, bit), *more])
        return result

    def _fewer(self, symbol: int, bit: int) -> int:
        """Return a symbol for fewer than ``2**bit`` times ``symbol``."""
        for level in range(bit + 1):
            if (symbol, level) not in self._below:
                self._below[symbol, level] = below = self.new()
                lower = [] if level == 0 else [self._below[symbol, level - 1]]
                self.add(below, lower)
                if level:
                    self.add(below, [self._power(symbol, level - 1), *lower])
        return self._below[symbol, bit]

    def result(self, start: int) -> dict[str, object]:
        """Return the JSON-ready grammar."""
        return {
            "sets": [list(ranges) for ranges in self._sets],
            "rules": [[lhs, list(row)] for lhs, row in self._rules],
            "start": ~start,
        }


def _ranges(op: Any, value: Any, flags: int) -> tuple[int, ...]:
    """Return the characters that an element matches: first and last code points, ascending."""
    if op is _constants.ANY:
        return (0, _LAST) if flags & _constants.SRE_FLAG_DOTALL else (0, 9, 11, _LAST)
    folds = flags & _constants.SRE_FLAG_IGNORECASE
    if op is _constants.LITERAL and not folds:
        return (value, value)
    parts = value if op is _constants.IN else ()
    plain = (_constants.LITERAL, _constants.RANGE, _constants.NEGATE)
    if folds or not parts or any(part not in plain for part, _ in parts):
        return _tried(op, tuple(value) if op is _constants.IN else value, flags)
    spans = sorted(
        (v, v) if part is _constants.LITERAL else v for part, v in parts if v is not None
    )
    return _complement(spans) if parts[0][0] is _constants.NEGATE else _merged(spans)


def _merged(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    flat: list[int] = []
    for first, last in spans:
        if flat and first <= flat[-1] + 1:
            flat[-1] = max(flat[-1], last)
        else:
            flat += [first, last]
    return tuple(flat)


def _complement(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    flat: list[int] = []
    edge = 0
    for first, last in spans:
        if first > edge:
            flat += [edge, first - 1]
        edge = max(edge, last + 1)
    return (*flat, edge, _LAST) if edge <= _LAST else tuple(flat)


@lru_cache(maxsize=1024)
def _tried(op: Any, value: Any, flags: int) -> tuple[int, ...]:
    """Find the characters that an element matches by matching it against all there are."""
    state = _parser.State()
    state.flags = flags
    listed = list(value) if op is _constants.IN else value
    one = _parser.SubPattern(state, [(op, listed)])
    several = _parser.SubPattern(state, [(_constants.MAX_REPEAT, (1, _constants.MAXREPEAT, one))])
    low, high = _SURROGATES
    spans = []
    for first, stop in ((0, low), (high + 1, _LAST + 1)):
        found = _compiler.compile(several, flags).finditer(_characters(first, stop))
        spans += [(first + match.start(), first + match.end() - 1) for match in found]
    return _merged(spans)


@lru_cache(maxsize=2)
def _characters(first: int, stop: int) -> str:
    return "".join(map(chr, range(first, stop)))
