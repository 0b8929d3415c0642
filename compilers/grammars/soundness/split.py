"""Parse tables whose states know what lies beneath them: shifts that nothing completes are gone.

Whether a stack has a completion depends on the states beneath its topmost one: the rules under way
must end (``completions``), each before a letter that the states beneath can go on with. So a stack
is described from the bottom upwards by a lookahead set for each kernel item ``A -> x . y`` of its
topmost state: the letters before which ``A`` may end. LR(1) keeps such sets with its items (Knuth
1965); here they hold the letters that a lexer lets pass and that lead to the end of the text. Most
of that decides nothing, so stacks that the same continuations complete are one class: a class is a
state of the smallest automaton that reads a stack from the bottom and knows its dead ends (Moore
1956).

A state of the new tables is such a class and, after a terminal, the matches that are pending then.
A terminal is shifted as one of its letters, and only where some text completes the stack that this
leads to. An ignored terminal leaves the stack as it is, but not what is pending: so it is shifted
as well, on a *mark* above the state before it, and whatever comes next first reduces the two to
that state, by a rule of its own. At the bottom there is no symbol to reduce to; a nonterminal that
stands for ignored text takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cdec.compilers.grammars.definition import Grammar, Rule
from cdec.compilers.grammars.parser.tables import (
    ParseTables,
    action_rows,
    bits,
    rows_of,
    terminal_name,
    with_rows,
)
from cdec.compilers.grammars.soundness.completions import ACCEPT, Boundary, Completions, Way, Ways
from cdec.compilers.grammars.soundness.lookahead import NOTHING_PENDING, TerminalInContext
from cdec.compilers.grammars.states import Numbering
from cdec.core.errors import LimitError

MAX_STACKS = 20_000
"""Stacks to tell apart before those of one class are merged, before the question is left open."""

_Open = tuple[int, ...]
"""Per kernel item of a state, in order: letters before which its rule may end, as bits."""
_Stack = tuple[int, _Open]
"""Topmost state, and what lies open beneath it."""
MAX_STATES = 20_000
"""States of the new tables before the question is left open."""
_MAX_ACTIONS = 2_000_000
_REDUCED = -1
"""In the place of pending matches: the state was reached by a reduction."""
_ENDED = -1
"""In the place of a class: the text has ended."""
_NO_MARK, _FIRST_MARK, _MARK = range(3)
"""No mark; one on the bottom of the stack; one on any other state."""


class StackClasses(NamedTuple):
    """Equivalence classes of stacks; class 0 is that of the empty one.

    Attributes:
        state: Per class: the topmost LR state.
        dead: Per class: sets of pending matches with which nothing completes it, after a terminal.
        above: Per class: terminal t as t, nonterminal n as ~n -> the class once it is read; without
            terminals after which everything is dead.
    """

    state: list[int]
    dead: list[frozenset[int]]
    above: list[dict[int, int]]


def find_stack_classes(
    tables: ParseTables, completions: Completions, ahead: Mapping[Boundary, int]
) -> StackClasses:
    """Return the classes of stacks that a parser's tables allow.

    Raises:
        LimitError: More than ``MAX_STACKS`` stacks to tell apart.
    """
    return _merged(_StackSearch(tables, completions, ahead).run())


class _StackSearch:
    """All pairs of a state and what lies open beneath it."""

    def __init__(
        self, tables: ParseTables, completions: Completions, ahead: Mapping[Boundary, int]
    ) -> None:
        self._completions = completions
        self._lhs = tables.rule_lhs.tolist()
        self._items = rows_of(tables.item_offsets, tables.item_rules, tables.item_dots)
        self._pending: list[list[int]] = [[] for _ in self._items]
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
        self._found = StackClasses([0], [frozenset()], [])

    def run(self) -> StackClasses:
        """Return one class for each stack that is told apart."""
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


def _merged(found: StackClasses) -> StackClasses:
    """Merge stacks that the same continuations complete."""
    first: dict[object, int] = {}
    classes = [
        first.setdefault(key, len(first)) for key in zip(found.state, found.dead, strict=True)
    ]
    count = 0
    while count < len(first):
        count, first = len(first), {}
        classes = [
            first.setdefault(
                (number, *((s, classes[above]) for s, above in row.items())), len(first)
            )
            for number, row in zip(classes, found.above, strict=True)
        ]
    chosen = dict.fromkeys(classes)
    places = {number: place for place, number in reversed([*enumerate(classes)])}
    return StackClasses(
        [found.state[places[number]] for number in chosen],
        [found.dead[places[number]] for number in chosen],
        [
            {symbol: classes[above] for symbol, above in found.above[places[number]].items()}
            for number in chosen
        ],
    )


class Place(NamedTuple):
    """A state of the new tables.

    Attributes:
        stacks: A class of stacks; -1 after the end of the text.
        pending: Set of pending matches, ``_REDUCED`` after a reduction.
        mark: Whether it is the mark above that state.
    """

    stacks: int
    pending: int
    mark: int = _NO_MARK


class Split(NamedTuple):
    """Parse tables by letters, and where their states begin terminals.

    Attributes:
        tables: Their terminals are letters.
        boundaries: Per state: LR state and pending matches; None where no terminal begins.
    """

    tables: ParseTables
    boundaries: list[Boundary | None]


class Splitter:
    """Makes the tables.

    Args:
        classes: Of stacks.
        letters: By number.
        number_of: Per letter: the terminal that it is in the new tables.
        ahead: Per boundary: the letters that can follow, as bits, ignored ones among them.
        grammar: Of the tables; which terminals it ignores, and their names.
    """

    def __init__(
        self,
        tables: ParseTables,
        classes: StackClasses,
        letters: Sequence[TerminalInContext],
        number_of: Sequence[int],
        ahead: Mapping[Boundary, int],
        grammar: Grammar,
    ) -> None:
        self._tables = tables
        self._classes = classes
        self._letters = letters
        self._number_of = number_of
        self._ahead = ahead
        self._ignored = grammar.ignored
        self._end = len(tables.contexts_after)
        self._number = Numbering[Place]()
        self._places = self._number.keys
        self._rows: list[dict[int, int]] = []
        self._num_actions = 0
        self._read_tables()
        self._name_marks([terminal_name(grammar, n) for n in range(len(grammar.terminals))])

    def _read_tables(self) -> None:
        tables = self._tables
        by_terminal = [0] * (self._end + 1)
        for number, letter in enumerate(self._letters):
            by_terminal[letter.terminal] |= 1 << number
        self._skipped = sum(by_terminal[terminal] for terminal in sorted(self._ignored))
        self._actions = action_rows(tables)
        self._known = [sum(by_terminal[terminal] for terminal in row) for row in self._actions]

    def _name_marks(self, names: Sequence[str]) -> None:
        """Add the rules by which marks go: one a terminal, and two for the bottom of the stack."""
        self._rules = list(self._tables.rules)
        self._names = list(self._tables.nonterminals)
        self._after: dict[int, int] = {}
        self._mark_rules: dict[int, int] = {}
        if not self._ignored:
            return
        skipped = min(self._ignored)
        self._bottom = len(self._names)
        self._names.append("ignored text")
        self._first_rule = len(self._rules)
        self._rules.append(Rule(self._bottom, (skipped,)))
        self._mark_rules[0] = len(self._rules)
        self._rules.append(Rule(self._bottom, (~self._bottom, skipped)))
        shifted = sorted({t for row in self._actions for t, value in row.items() if value >= 0})
        for terminal in shifted:
            if terminal != self._end:
                self._after[terminal] = len(self._names)
                self._names.append(names[terminal])
                rule = Rule(self._after[terminal], (terminal, skipped))
                for state in self._tables.contexts_after[terminal].tolist():
                    self._mark_rules[state] = len(self._rules)
                self._rules.append(rule)

    def run(self, end: int) -> Split:
        """Return the tables; ``end`` is the number of the end of the text.

        Raises:
            LimitError: More than ``MAX_STATES`` of them.
        """
        self._new_end = end
        self._number(Place(0, NOTHING_PENDING))
        gotos: list[dict[int, int]] = []
        while len(self._rows) < len(self._places):
            place = self._places[len(self._rows)]
            self._rows.append(self._row(place))
            gotos.append({} if place.mark else self._gotos_of(place))
            self._num_actions += len(self._rows[-1])
            if len(self._places) > MAX_STATES or self._num_actions > _MAX_ACTIONS:
                raise LimitError(f"more than {MAX_STATES} states to tell apart", limit="max_states")
        return self._finish(gotos)

    def _row(self, place: Place) -> dict[int, int]:
        """Return a place's actions: letter, or the end -> place to shift to or ~rule."""
        state = self._state_of(place)
        known = self._known[state] | self._skipped
        letters = known if place.pending == _REDUCED else known & self._ahead[state, place.pending]
        if place.mark:
            rule = self._first_rule if place.mark == _FIRST_MARK else self._mark_rules[state]
            row = {self._number_of[letter]: ~rule for letter in bits(letters)}
            if self._end in self._actions[state]:
                row[self._new_end] = ~rule
            return row
        row = {}
        for letter in bits(letters):
            action = self._action(place, letter)
            if action is not None:
                row[self._number_of[letter]] = action
        last = self._actions[state].get(self._end)
        if last is not None:
            row[self._new_end] = last if last < 0 else self._number(Place(_ENDED, _REDUCED))
        return row

    def _action(self, place: Place, letter: int) -> int | None:
        """Return what a place does before a letter; None where nothing completes that."""
        terminal, pending = self._letters[letter]
        state = self._state_of(place)
        if terminal in self._ignored:
            if state and state not in self._mark_rules:
                return None  # reached by a nonterminal: the mark below it was reduced already
            is_bottom = not state and place.pending != _REDUCED
            target = Place(place.stacks, pending, _FIRST_MARK if is_bottom else _MARK)
        else:
            action = self._actions[state][terminal]
            if action < 0:
                return action
            number = self._classes.above[place.stacks].get(terminal)
            if number is None:
                return None
            target = Place(number, pending)
        boundary = self._state_of(target), pending
        if boundary not in self._ahead or pending in self._classes.dead[target.stacks]:
            return None
        return self._number(target)

    def _state_of(self, place: Place) -> int:
        """Return the LR state of a place; the last one after the end of the text."""
        return (
            self._classes.state[place.stacks]
            if place.stacks != _ENDED
            else self._tables.num_states - 1
        )

    def _gotos_of(self, place: Place) -> dict[int, int]:
        """Return where nonterminals lead, and terminals that ignored text follows."""
        if place.stacks == _ENDED:
            return {}
        found = {}
        for symbol, number in self._classes.above[place.stacks].items():
            if symbol < 0:
                found[~symbol] = self._number(Place(number, _REDUCED))
            elif self._after:
                found[self._after[symbol]] = self._number(Place(number, _REDUCED))
        if self._ignored and not place.stacks and place.pending != _REDUCED:
            found[self._bottom] = self._number(Place(0, _REDUCED))
        return found

    def _finish(self, gotos: Sequence[Mapping[int, int]]) -> Split:
        tables = self._tables
        after: list[set[int]] = [set() for _ in range(self._new_end + 1)]
        for row in self._rows:
            for terminal, value in row.items():
                if value >= 0:
                    after[terminal].add(value)
        known = rows_of(tables.item_offsets, tables.item_rules, tables.item_dots)
        laid = with_rows(
            tables,
            [sorted(row.items()) for row in self._rows],
            [sorted(row.items()) for row in gotos],
            [known[self._state_of(place)] for place in self._places],
            self._rules,
        )
        return Split(
            replace(
                laid,
                nonterminals=tuple(self._names),
                contexts_after=[np.array(sorted(states), np.int32) for states in after[:-1]],
            ),
            [
                None if place.pending == _REDUCED else (self._state_of(place), place.pending)
                for place in self._places
            ],
        )
