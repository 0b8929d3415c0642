"""The LR(0) automaton of a grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cdec.compilers.grammars.definition import Rule
from cdec.core.errors import LimitError

NO_SYMBOL = -(1 << 31)
"""Stands after the last symbol of a rule, and before the first state."""


class Items:
    """Rules as one line of symbols; an *item*, a rule with a dot in it, is a place on the line.

    Attributes:
        symbols: The symbol after each item's dot; ``NO_SYMBOL`` where the rule is complete.
        first: Per rule: its item with the dot in front; dots follow each other.
        rule_of: Per item: its rule.
        by_lhs: Nonterminal -> its rules.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.symbols: list[int] = []
        self.first: list[int] = []
        self.rule_of: list[int] = []
        self.by_lhs: dict[int, list[int]] = {}
        for number, rule in enumerate(rules):
            self.first.append(len(self.symbols))
            self.symbols.extend(rule.rhs)
            self.symbols.append(NO_SYMBOL)
            self.rule_of.extend([number] * (len(rule.rhs) + 1))
            self.by_lhs.setdefault(rule.lhs, []).append(number)


@dataclass(slots=True)
class _Expansion:
    """What the nonterminals after the dots of a kernel add to its state.

    Attributes:
        advanced: Symbol -> the items that have just passed it.
        targets: Symbol -> the state it leads to where the kernel has no item on that symbol.
        pending: Symbols without target yet.
    """

    advanced: dict[int, list[int]]
    targets: dict[int, int] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)


class Automaton:
    """States are sets of items, known by their kernels; state 0 has the dot before the start.

    The last of ``rules`` is ``root -> start``, and only state 0's kernel begins with it.

    Attributes:
        items: The rules' items.
        kernels: Per state: kernel items, ascending.
        transitions: Per state: symbol -> next state.
        access: Per state: the symbol that leads into it.
    """

    def __init__(self, rules: Sequence[Rule], max_states: int) -> None:
        """Build the automaton.

        States whose kernels expand alike share the work: time is linear in the transitions, plus
        one expansion for each distinct set of nonterminals after the dots.

        Raises:
            LimitError: More than ``max_states`` states.
        """
        self.items = Items(rules)
        self.kernels: list[tuple[int, ...]] = []
        self.transitions: list[dict[int, int]] = []
        self.access: list[int] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._expansions: dict[frozenset[int], _Expansion] = {}
        self._max_states = max_states
        self._state((self.items.first[-1],), NO_SYMBOL)
        while len(self.transitions) < len(self.kernels):
            self.transitions.append(self._leave(self.kernels[len(self.transitions)]))

    def _state(self, kernel: tuple[int, ...], access: int) -> int:
        number = self._numbers.setdefault(kernel, len(self.kernels))
        if number == len(self.kernels):
            if number >= self._max_states:
                raise LimitError(
                    f"the parser of this grammar has more than {self._max_states} states",
                    hint="raise `max_states`, or make the grammar smaller",
                    limit="max_states",
                )
            self.kernels.append(kernel)
            self.access.append(access)
        return number

    def _leave(self, kernel: tuple[int, ...]) -> dict[int, int]:
        """Return the transitions of the state with this kernel."""
        own: dict[int, list[int]] = {}
        for item in kernel:
            symbol = self.items.symbols[item]
            if symbol != NO_SYMBOL:
                own.setdefault(symbol, []).append(item + 1)
        expansion = self._expansion(frozenset(symbol for symbol in own if symbol < 0))
        # subtle: a symbol's shared target is made only for a state that really goes there; where
        # the kernel has items on the symbol as well, the target is another one.
        for symbol in sorted(expansion.pending - own.keys()):
            expansion.pending.discard(symbol)
            expansion.targets[symbol] = self._state(tuple(expansion.advanced[symbol]), symbol)
        transitions = dict(expansion.targets)
        for symbol, items in own.items():
            merged = {*items, *expansion.advanced.get(symbol, ())}
            transitions[symbol] = self._state(tuple(sorted(merged)), symbol)
        return transitions

    def _expansion(self, seeds: frozenset[int]) -> _Expansion:
        known = self._expansions.get(seeds)
        if known is not None:
            return known
        items = self.items
        advanced: dict[int, list[int]] = {}
        reached = set(seeds)
        ready = list(seeds)
        while ready:
            for rule in items.by_lhs.get(~ready.pop(), ()):
                symbol = items.symbols[items.first[rule]]
                if symbol == NO_SYMBOL:
                    continue
                advanced.setdefault(symbol, []).append(items.first[rule] + 1)
                if symbol < 0 and symbol not in reached:
                    reached.add(symbol)
                    ready.append(symbol)
        for passed in advanced.values():
            passed.sort()
        made = _Expansion(advanced, pending=set(advanced))
        self._expansions[seeds] = made
        return made
