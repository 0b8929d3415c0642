"""Character grammar: a grammar's rules with every terminal written out over single characters.

Under ``dynamic`` a text is in the language if these rules derive it. But for what a class of
characters holds they share nothing with the byte automata, so a parser that reads them is an
independent check (``core.grammars.validity``). A terminal with lazy quantifiers stays a regular
expression: where its texts end depends on the order in which ``re`` tries, which no rule says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any

from cdec.compilers.grammars.automata.characters import MAX_CODE_POINT, charset, intersection
from cdec.compilers.grammars.automata.determinise import LeftLinear, left_linear
from cdec.compilers.grammars.automata.pattern_checks import ends_early, looks_around, unsupported
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Terminal

_constants: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")


_CHARACTERS = (
    _constants.LITERAL,
    _constants.NOT_LITERAL,
    _constants.ANY,
    _constants.IN,
)
_PLAIN = (_constants.LITERAL, _constants.RANGE, _constants.NEGATE)
_NO_SURROGATES = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
_LONGEST = 8
"""Symbols of one rule; analyses of a rule cost the cube of its length."""


def character_grammar(grammar: Grammar) -> str:
    """Return the character-level context-free grammar of ``grammar``'s dynamic reading as JSON.

    Args:
        grammar: Any; its terminals' priorities and order mean nothing here.

    Returns:
        An object with ``sets`` (each a flat list of first and last code points, ascending),
        ``patterns`` (regular expressions, whose texts are those at whose end ``re.match`` ends),
        ``rules`` (pairs of a nonterminal and its symbols: set s as s >= 0, pattern p behind all
        sets, nonterminal n as ~n < 0) and ``start``. Cost: linear in rules and patterns, counts by
        their logarithm; a case-insensitive or Unicode class one pass over all characters, some 10
        ms.

    Raises:
        RegexUnsupportedError: A pattern that is not regular.
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
    """Rules in the making; symbols are leaf s as s >= 0, nonterminal n as ~n."""

    def __init__(self) -> None:
        self._count = 0
        self._leaves: dict[tuple[int, ...] | str, int] = {}
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
        parsed = _parser.parse(terminal.pattern)
        root = self.new()
        if ends_early(terminal):
            self.add(root, [self._leaf(terminal.pattern)])
            if re.match(terminal.pattern, ""):
                self.add(root, [])
            return root
        if looks_around(parsed):
            return self._left_linear(left_linear(terminal, GrammarLimits()))
        todo = [(root, parsed, int(parsed.state.flags))]
        while todo:
            lhs, sequence, flags = todo.pop()
            row: list[int] = []
            for op, value in sequence:
                row += self._symbols(terminal, op, value, flags, todo)
            self.add(lhs, row)
        return root

    def _left_linear(self, language: LeftLinear) -> int:
        """Return a symbol for a regular language.

        subtle: rules cannot look around, so here the reading of a pattern is the compiler's own.
        """
        states = [self.new() for _ in range(1 + max((r[2] for r in language.rules), default=0))]
        self.add(states[0], [])
        for before, characters, after in language.rules:
            self.add(states[after], [states[before], self._leaf(language.sets[characters])])
        root = self.new()
        for state in language.ends:
            self.add(root, [states[state]])
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
        if op not in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            raise unsupported(terminal, op)
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

    def _set(self, op: Any, value: Any, flags: int) -> int:
        """Return the symbol of the characters that an element matches."""
        items = tuple(value) if op is _constants.IN else ((op, value),)
        found = charset(items, flags & (re.I | re.S | re.A))
        if op is not _constants.ANY and (
            flags & re.I or not all(part in _PLAIN for part, _ in items)
        ):
            found = intersection(found, _NO_SURROGATES)
        return self._leaf(tuple(chain.from_iterable(found)))

    def _leaf(self, leaf: tuple[int, ...] | str) -> int:
        """Return the symbol of a set of characters or of a regular expression."""
        return self._leaves.setdefault(leaf, len(self._leaves))

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
        sets = [leaf for leaf in self._leaves if not isinstance(leaf, str)]
        patterns = [leaf for leaf in self._leaves if isinstance(leaf, str)]
        leaves: list[tuple[int, ...] | str] = [*sets, *patterns]
        number = {self._leaves[leaf]: place for place, leaf in enumerate(leaves)}
        return {
            "sets": [list(ranges) for ranges in sets],
            "patterns": patterns,
            "rules": [[lhs, [number.get(s, s) for s in row]] for lhs, row in self._rules],
            "start": ~start,
        }
