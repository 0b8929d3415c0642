"""LR(0) automaton of a grammar and its LALR(1) lookaheads (DeRemer and Pennello 1982)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cdec.compilers.grammars.analysis import closed_nonterminals, union_reached
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
    """Items that the nonterminals after the dots of a kernel add to its state.

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


def lookaheads(automaton: Automaton, end: int, *, as_lark: bool) -> list[dict[int, int]]:
    """Return, per state, the rules that can be reduced there and before which terminals.

    The names are the paper's (section 4): a nonterminal transition ``(p, A)`` *reads* what can
    follow after empty symbols, *includes* the follow set of the transition whose rule it ends, and
    a reduction *looks back* to the transitions it leads to.

    Args:
        automaton: LR(0) automaton; its last rule is ``root -> start``.
        end: Number of the end of the text as a terminal.
        as_lark: Include what lark includes. Lark also takes rules that were begun in an earlier
            state for rules begun in ``p``, which makes some sets a little larger than the exact
            ones; lark's contextual lexer is defined by its sets.

    Returns:
        Per state: rule -> set of terminals as the bits of an integer.

    Cost: linear in transitions times rule length, plus unions of sets.
    """
    relations = _Relations(automaton, end)
    relations.begin_rules()
    if as_lark:
        for state, kernel in enumerate(automaton.kernels):
            relations.go_on_with_rules(state, kernel)
    read = union_reached(relations.reads, relations.directly_reads)
    follow = union_reached(relations.includes, read)
    return [
        {rule: _union(follow, numbers) for rule, numbers in reductions.items()}
        for reductions in relations.lookback
    ]


def _union(sets: Sequence[int], numbers: Sequence[int]) -> int:
    union = 0
    for number in numbers:
        union |= sets[number]
    return union


class _Relations:
    """The relations on nonterminal transitions, which are numbered."""

    def __init__(self, automaton: Automaton, end: int) -> None:
        self._automaton = automaton
        items = automaton.items
        rules = items.rules
        nullable = closed_nonterminals(rules, frozenset())
        self._tail = [_tail(rule.rhs, nullable) for rule in rules]
        self.transitions: list[tuple[int, int]] = []
        self._numbers: list[dict[int, int]] = []
        shifted = []
        for state, leaving in enumerate(automaton.transitions):
            numbers = {}
            for symbol in leaving:
                if symbol < 0:
                    numbers[symbol] = len(self.transitions)
                    self.transitions.append((state, symbol))
            self._numbers.append(numbers)
            shifted.append(sum(1 << symbol for symbol in leaving if symbol >= 0))
        empty = [
            [number for symbol, number in leaving.items() if ~symbol in nullable]
            for leaving in self._numbers
        ]
        targets = [automaton.transitions[state][symbol] for state, symbol in self.transitions]
        self.directly_reads = [shifted[target] for target in targets]
        self.reads = [empty[target] for target in targets]
        start = rules[-1].rhs[0]
        self.directly_reads[self._numbers[0][start]] |= 1 << end
        self.includes: list[list[int]] = [[] for _ in self.transitions]
        self.lookback: list[dict[int, list[int]]] = [{} for _ in automaton.kernels]

    def begin_rules(self) -> None:
        """Follow every rule of each transition's nonterminal from the transition's state."""
        transitions, numbers, includes = self._automaton.transitions, self._numbers, self.includes
        items = self._automaton.items
        cut = zip(items.rules, self._tail, strict=True)
        parts = [(rule.rhs[:place], rule.rhs[place:]) for rule, place in cut]
        for number, (begin, nonterminal) in enumerate(self.transitions):
            for rule in items.by_lhs.get(~nonterminal, ()):
                state, (head, tail) = begin, parts[rule]
                for symbol in head:
                    state = transitions[state][symbol]
                for symbol in tail:
                    if symbol < 0:
                        includes[numbers[state][symbol]].append(number)
                    state = transitions[state][symbol]
                self.lookback[state].setdefault(rule, []).append(number)

    def go_on_with_rules(self, state: int, kernel: Sequence[int]) -> None:
        """Follow the rules under way in ``state`` as if its own transitions had begun them."""
        items = self._automaton.items
        for item in kernel:
            if items.symbols[item] == NO_SYMBOL:
                continue
            rule = items.rule_of[item]
            number = self._numbers[state].get(~items.rules[rule].lhs)
            if number is not None:
                self._walk(number, state, rule, item - items.first[rule])

    def _walk(self, number: int, state: int, rule: int, dot: int) -> None:
        """Note that transitions on the rule's last symbols include ``number``."""
        tail = self._tail[rule]
        rhs = self._automaton.items.rules[rule].rhs
        transitions = self._automaton.transitions
        for place in range(dot, len(rhs)):
            symbol = rhs[place]
            if symbol < 0 and place >= tail:
                self.includes[self._numbers[state][symbol]].append(number)
            state = transitions[state][symbol]


def _tail(rhs: tuple[int, ...], nullable: frozenset[int]) -> int:
    """Return the first place after which nothing but nullable symbols follows."""
    place = len(rhs)
    while place and rhs[place - 1] < 0 and ~rhs[place - 1] in nullable:
        place -= 1
    return max(place - 1, 0)
