"""LALR(1) lookaheads by relations between nonterminal transitions (DeRemer and Pennello 1982)."""

from __future__ import annotations

from collections.abc import Sequence

from cdec.compilers.grammars.analysis.nullable import closed_nonterminals
from cdec.compilers.grammars.parser.lr0 import NO_SYMBOL, Automaton


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
    read = digraph(relations.reads, relations.directly_reads)
    follow = digraph(relations.includes, read)
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


def digraph(successors: Sequence[Sequence[int]], values: Sequence[int]) -> list[int]:
    """Return, per node, the union of its own value and those of all nodes it reaches.

    Tarjan's strongly connected components with the stack made explicit: a chain of 3,000 unit
    rules is a path of 3,000 nodes. The paper's algorithm ``Digraph``.

    Args:
        successors: Per node: nodes whose values it includes.
        values: Per node: a set as the bits of an integer.
    """
    count = len(values)
    result = list(values)
    index = [0] * count  # 0: not met; else order of meeting, from 1
    low = [0] * count
    done = [False] * count
    component: list[int] = []
    met = 0
    for root in range(count):
        if index[root] or not successors[root]:
            continue
        met += 1
        index[root] = low[root] = met
        component.append(root)
        path = [(root, iter(successors[root]))]
        while path:
            node, rest = path[-1]
            for child in rest:
                if not successors[child]:
                    pass  # its own value is all there is
                elif not index[child]:
                    met += 1
                    index[child] = low[child] = met
                    component.append(child)
                    path.append((child, iter(successors[child])))
                    break
                elif not done[child]:
                    low[node] = min(low[node], index[child])
                result[node] |= result[child]
            else:
                path.pop()
                if low[node] == index[node]:
                    _close(node, component, done, result)
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                    result[parent] |= result[node]
    return result


def _close(node: int, component: list[int], done: list[bool], result: list[int]) -> None:
    """Give all members of a component its root's result."""
    while True:
        member = component.pop()
        done[member] = True
        result[member] = result[node]
        if member == node:
            return
