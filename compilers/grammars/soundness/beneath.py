"""What lies under a state of the parser's stack, as far as it decides what can be completed.

The ways of a state (``completions``) say which rules must end for the text to be completed, and
before which letters. Whether that is possible is decided by the states beneath, and from the bottom
upwards a stack says it in little: for each kernel item ``A -> x . y`` of its topmost state the
letters before which ``A`` may end, so that what is left has a completion. It is what LR(1) keeps
with its items (Knuth 1965), but for letters that a lexer lets pass and that lead to the end. Most
of it decides nothing, so stacks are of one *kind* if the same continuations complete them: the
smallest automaton that reads a stack from the bottom and knows its dead ends (Moore 1956).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.soundness.completions import ACCEPT, Boundary, Completions, Way, Ways
from cdec.core.errors import LimitError

MAX_STACKS = 20_000
"""Stacks to tell apart before those of one kind are merged, before the question is left open."""

_Open = tuple[int, ...]
"""Per kernel item of a state, in order: letters before which its rule may end, as bits."""
_Stack = tuple[int, _Open]
"""Topmost state, and what lies open beneath it."""


class StackKinds(NamedTuple):
    """Kinds of stacks; kind 0 is the empty one.

    Attributes:
        state: Per kind: the topmost LR state.
        dead: Per kind: sets of pending matches with which nothing completes it, after a terminal.
        above: Per kind: terminal t as t, nonterminal n as ~n -> the kind once it is read. Terminals
            after which everything is dead are left out.
    """

    state: list[int]
    dead: list[frozenset[int]]
    above: list[dict[int, int]]


def find_kinds(
    tables: ParseTables, completions: Completions, ahead: Mapping[Boundary, int]
) -> StackKinds:
    """Return the kinds of stacks that a parser's tables allow.

    Args:
        tables: LALR(1) tables.
        completions: Of the same tables.
        ahead: Its boundaries.

    Raises:
        LimitError: More than ``MAX_STACKS`` stacks to tell apart.
    """
    return _merged(_Search(tables, completions, ahead).run())


class _Search:
    """All pairs of a state and what lies open beneath it."""

    def __init__(
        self, tables: ParseTables, completions: Completions, ahead: Mapping[Boundary, int]
    ) -> None:
        self._completions = completions
        self._lhs = tables.rule_lhs.tolist()
        bounds = tables.item_offsets.tolist()
        items = list(zip(tables.item_rules.tolist(), tables.item_dots.tolist(), strict=True))
        self._items: list[list[Way]] = [items[begin:stop] for begin, stop in pairwise(bounds)]
        self._pending: list[list[int]] = [[] for _ in bounds[1:]]
        for state, pending in ahead:
            self._pending[state].append(pending)
        self._ends = [0] * len(self._lhs)
        for reductions in completions.reductions:
            for rule, _, on in reductions:
                self._ends[rule] |= on & completions.following
        self._known_ways: dict[int, list[tuple[int, Ways]]] = {}
        self._known_dead: dict[_Stack, frozenset[int]] = {}
        self._numbers: dict[_Stack, int] = {(0, ()): 0}
        self._ready = list(self._numbers)
        self._found = StackKinds([0], [frozenset()], [])

    def run(self) -> StackKinds:
        """Return one kind for each stack that is told apart."""
        while len(self._found.above) < len(self._ready):
            state, beneath = self._ready[len(self._found.above)]
            known = dict(zip(self._items[state], beneath, strict=True))
            returned = self._returned(state, known)
            above = {}
            for nonterminal, target in self._completions.gotos[state].items():
                opened = self._opened(known, returned, target)
                above[~nonterminal] = self._push((target, opened), frozenset())
            for terminal, target in self._completions.shifts[state].items():
                if terminal != self._completions.end_terminal:
                    stack = target, self._opened(known, returned, target)
                    dead = self._dead(stack)
                    if len(dead) < len(self._pending[target]):
                        above[terminal] = self._push(stack, dead)
            self._found.above.append(above)
            if len(self._ready) > MAX_STACKS:
                reason = f"more than {MAX_STACKS} stacks to tell apart"
                raise LimitError(reason, limit="max_states")
        return self._found

    def _push(self, stack: _Stack, dead: frozenset[int]) -> int:
        number = self._numbers.setdefault(stack, len(self._ready))
        if number == len(self._ready):
            self._ready.append(stack)
            self._found.state.append(stack[0])
            self._found.dead.append(dead)
        return number

    def _opened(self, known: Ways, returned: Mapping[int, int], target: int) -> _Open:
        """Return what lies open beneath a state that is pushed."""
        return tuple(
            (returned[self._lhs[rule]] if dot == 1 else known[rule, dot - 1]) & self._ends[rule]
            for rule, dot in self._items[target]
        )

    def _dead(self, stack: _Stack) -> frozenset[int]:
        """Return the sets of pending matches with which nothing completes a stack."""
        if stack not in self._known_dead:
            state, beneath = stack
            known = dict(zip(self._items[state], beneath, strict=True))
            self._known_dead[stack] = frozenset(
                pending
                for pending in self._pending[state]
                if not any(
                    way == ACCEPT or letters & known.get(way, 0)
                    for way, letters in self._completions.of((state, pending)).items()
                )
            )
        return self._known_dead[stack]

    def _returned(self, state: int, known: Ways) -> dict[int, int]:
        """Return, per nonterminal, the letters before which it may have been read on a state."""
        gotos = self._completions.gotos[state]
        found = dict.fromkeys(gotos, 0)
        grows = True
        while grows:
            grows = False
            for nonterminal, target in gotos.items():
                letters = self._completing(target, found, known)
                grows |= letters != found[nonterminal]
                found[nonterminal] = letters
        return found

    def _completing(self, target: int, found: Mapping[int, int], known: Ways) -> int:
        """Return the letters that may come next on a state that a reduction led to."""
        letters = 0
        for rule, length, on in self._completions.reductions[target]:
            if length:
                letters |= on & self._source((rule, length), found, known)
        for some, ways in self._ways(target):
            if some & ~letters and any(
                way == ACCEPT or on & self._source(way, found, known) for way, on in ways.items()
            ):
                letters |= some
        return letters & self._completions.following

    def _ways(self, target: int) -> list[tuple[int, Ways]]:
        """Return the ways on from a state before each letter that it reads on; equal ones once."""
        if target not in self._known_ways:
            groups: dict[frozenset[tuple[Way, int]], int] = {}
            for letter in bits(self._completions.read_on(target)):
                ways = frozenset(self._completions.before(target, letter).items())
                groups[ways] = groups.get(ways, 0) | 1 << letter
            self._known_ways[target] = [(some, dict(ways)) for ways, some in groups.items()]
        return self._known_ways[target]

    def _source(self, way: Way, found: Mapping[int, int], known: Ways) -> int:
        """Return the letters before which a way from the state right above may be taken."""
        rule, symbols = way
        return found[self._lhs[rule]] if symbols == 1 else known.get((rule, symbols - 1), 0)


def _merged(found: StackKinds) -> StackKinds:
    """Merge stacks that the same continuations complete."""
    first: dict[object, int] = {}
    kinds = [first.setdefault(key, len(first)) for key in zip(found.state, found.dead, strict=True)]
    count = 0
    while count < len(first):
        count, first = len(first), {}
        kinds = [
            first.setdefault((kind, *((s, kinds[above]) for s, above in row.items())), len(first))
            for kind, row in zip(kinds, found.above, strict=True)
        ]
    chosen = dict.fromkeys(kinds)
    places = {kind: place for place, kind in reversed([*enumerate(kinds)])}
    return StackKinds(
        [found.state[places[kind]] for kind in chosen],
        [found.dead[places[kind]] for kind in chosen],
        [
            {symbol: kinds[above] for symbol, above in found.above[places[kind]].items()}
            for kind in chosen
        ],
    )
