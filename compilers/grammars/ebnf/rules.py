"""Plain BNF under construction: terminals without duplicates, helper rules for repetitions."""

from __future__ import annotations

import json

from cdec.compilers.grammars.definition import GrammarLimits, Rule, Terminal
from cdec.compilers.grammars.ebnf.lex import Source
from cdec.compilers.grammars.ebnf.regular import Regular
from cdec.core.errors import LimitError

Symbols = tuple[int, ...]
_LONG_NAME = 60


class RuleBuilder:
    """Collects terminals, nonterminals and rules; symbols are numbered as in ``Rule.rhs``."""

    def __init__(self, source: Source, limits: GrammarLimits) -> None:
        self.source = source
        self.limits = limits
        self.terminals: list[Terminal] = []
        self.nonterminals: list[str] = []
        self.rules: list[Rule] = []
        self._terminal_of: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._helpers: dict[tuple[str, int, int], int] = {}

    def nonterminal(self, name: str) -> int:
        """Return the symbol of a new nonterminal."""
        self.nonterminals.append(name)
        return ~(len(self.nonterminals) - 1)

    def add(self, lhs: int, rhs: Symbols) -> None:
        """Add the rule ``lhs -> rhs``.

        Raises:
            LimitError: More rules than the limit.
        """
        if len(self.rules) >= self.limits.max_rules:
            raise LimitError(
                f"the grammar expands to more than {self.limits.max_rules} rules",
                hint="raise `max_rules`, or split the grammar",
                limit="max_rules",
            )
        self.rules.append(Rule(~lhs, rhs))

    def terminal(self, regular: Regular, offset: int) -> int:
        """Return the terminal of a pattern, the empty text left out; equal patterns share one."""
        known = self._terminal_of.get(regular.pattern)
        if known is not None:
            return known
        number = len(self.terminals)
        line, column = self.source.position(offset)
        text = regular.literal
        self.terminals.append(
            Terminal(
                name=self._name_of(regular),
                pattern=regular.pattern,
                value=regular.pattern if text is None else text,
                is_string=text is not None,
                line=line,
                column=column,
            )
        )
        self._terminal_of[regular.pattern] = number
        return number

    def symbols(self, regular: Regular, offset: int) -> Symbols:
        """Return the symbols that read a regular language: a terminal, optional if nullable."""
        if not regular.pattern:
            return ()
        terminal = self.terminal(regular, offset)
        return self.between(terminal, 0, 1) if regular.nullable else (terminal,)

    def group(self, alternatives: list[Symbols]) -> int:
        """Return one symbol that stands for any of the alternatives."""
        if len(alternatives) == 1 and len(alternatives[0]) == 1:
            return alternatives[0][0]
        symbol = self.nonterminal(f"__group_{len(self.nonterminals)}")
        for alternative in dict.fromkeys(alternatives):
            self.add(symbol, alternative)
        return symbol

    def between(self, symbol: int, least: int, most: int | None) -> Symbols:
        """Return symbols that read ``symbol`` at least ``least`` and at most ``most`` times.

        Counts become doublings, so O(log of the count) rules; they follow the binary digits from
        the highest, so a parser that sees whether another one begins never has to guess.
        """
        if most is None:
            if least <= 1:
                return (self._unbounded(symbol, least),)
            return (*self._exactly(symbol, least - 1), self._unbounded(symbol, 1))
        return self._exactly(symbol, least) + self._up_to(symbol, most - least)

    def _unbounded(self, symbol: int, least: int) -> int:
        made, is_new = self._helper("many", symbol, least)
        if is_new:
            self.add(made, (symbol,) if least else ())
            self.add(made, (made, symbol))
        return made

    def _exactly(self, symbol: int, count: int) -> Symbols:
        digits = range(count.bit_length() - 1, -1, -1)
        return tuple(self._doubled(symbol, digit) for digit in digits if count >> digit & 1)

    def _doubled(self, symbol: int, times: int) -> int:
        """Return a symbol for exactly 2**times."""
        made = symbol
        for power in range(1, times + 1):
            half = made
            made, is_new = self._helper("twice", symbol, power)
            if is_new:
                self.add(made, (half, half))
        return made

    def _up_to(self, symbol: int, most: int) -> Symbols:
        """Return symbols for 0 to ``most``: below the highest power of 2, or it and the rest."""
        if most == 0:
            return ()
        digits = [d for d in range((most + 1).bit_length()) if (most + 1) >> d & 1]
        rest: Symbols = ()
        total = 0
        for index, digit in enumerate(digits):
            below = self._below(symbol, digit)
            total += 1 << digit
            if index == 0:
                rest = below
                continue
            made, is_new = self._helper("upto", symbol, total - 1)
            if is_new:
                self.add(made, below)
                self.add(made, (self._doubled(symbol, digit), *rest))
            rest = (made,)
        return rest

    def _below(self, symbol: int, power: int) -> Symbols:
        """Return symbols for 0 to 2**power - 1."""
        shorter: Symbols = ()
        for digit in range(1, power + 1):
            made, is_new = self._helper("upto", symbol, (1 << digit) - 1)
            if is_new:
                self.add(made, shorter)
                self.add(made, (self._doubled(symbol, digit - 1), *shorter))
            shorter = (made,)
        return shorter

    def _helper(self, kind: str, symbol: int, count: int) -> tuple[int, bool]:
        key = (kind, symbol, count)
        if key in self._helpers:
            return self._helpers[key], False
        of = self.terminals[symbol].name if symbol >= 0 else self.nonterminals[~symbol]
        made = self.nonterminal(f"__{kind}_{count}_{of}")
        self._helpers[key] = made
        return made, True

    def _name_of(self, regular: Regular) -> str:
        if regular.literal is not None:
            name = json.dumps(regular.literal, ensure_ascii=False)
        else:
            name = regular.name or f"/{regular.pattern}/"
        if len(name) > _LONG_NAME:
            name = f"{name[: _LONG_NAME - 2]}…{name[-1]}"
        seen = self._names.get(name, 0)
        self._names[name] = seen + 1
        return name if not seen else f"{name}#{seen + 1}"
