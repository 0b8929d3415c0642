"""Parse tables whose states know what lies beneath them: shifts that nothing completes are gone.

A state of the new tables is a kind of stack (``beneath``) and, after a terminal, the matches that
are pending then. A terminal is shifted as one of its letters, and only
where some text completes the stack that this leads to.

An ignored terminal leaves the stack as it is, but not what is pending: so it is shifted as well, on
a *mark* above the state before it, and whatever comes next first reduces the two to that state, by
a rule of its own. At the bottom there is no symbol to reduce to; a nonterminal that stands for
ignored text takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cdec.compilers.grammars.definition import Rule
from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.soundness.adjacency import Letter
from cdec.compilers.grammars.soundness.beneath import StackKinds
from cdec.compilers.grammars.soundness.completions import Boundary
from cdec.compilers.grammars.soundness.pending import NOTHING_PENDING
from cdec.core.errors import LimitError

MAX_STATES = 20_000
"""States of the new tables before the question is left open."""
_MAX_ACTIONS = 2_000_000
_REDUCED = -1
"""In the place of pending matches: the state was reached by a reduction."""
_ENDED = -1
"""In the place of a kind: the text has ended."""
_NO_MARK, _FIRST_MARK, _MARK = range(3)
"""No mark; one on the bottom of the stack; one on any other state."""


class Place(NamedTuple):
    """A state of the new tables.

    Attributes:
        kind: Of stacks; -1 after the end of the text.
        pending: Set of pending matches, ``_REDUCED`` after a reduction.
        mark: Whether it is the mark above that state.
    """

    kind: int
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
        tables: LALR(1) tables.
        kinds: Of stacks.
        letters: By number.
        number_of: Per letter: the terminal that it is in the new tables.
        ahead: Per boundary: the letters that can follow, as bits, ignored ones among them.
        ignored: Ignored terminals.
        names: Of terminals.
    """

    def __init__(
        self,
        tables: ParseTables,
        kinds: StackKinds,
        letters: Sequence[Letter],
        number_of: Sequence[int],
        ahead: Mapping[Boundary, int],
        ignored: frozenset[int],
        names: Sequence[str],
    ) -> None:
        self._tables = tables
        self._kinds = kinds
        self._letters = letters
        self._number_of = number_of
        self._ahead = ahead
        self._ignored = ignored
        self._end = len(tables.contexts_after)
        self._numbers: dict[Place, int] = {}
        self._places: list[Place] = []
        self._rows: list[dict[int, int]] = []
        self._num_actions = 0
        self._read_tables()
        self._name_marks(names)

    def _read_tables(self) -> None:
        tables = self._tables
        by_terminal = [0] * (self._end + 1)
        for number, letter in enumerate(self._letters):
            by_terminal[letter.terminal] |= 1 << number
        self._skipped = sum(by_terminal[terminal] for terminal in sorted(self._ignored))
        self._actions: list[dict[int, int]] = []
        self._known: list[int] = []
        for state in range(tables.num_states):
            begin, stop = tables.action_offsets[state : state + 2].tolist()
            terminals = tables.action_terminals[begin:stop].tolist()
            values = tables.action_values[begin:stop].tolist()
            self._actions.append(dict(zip(terminals, values, strict=True)))
            self._known.append(sum(by_terminal[terminal] for terminal in terminals))

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

    def _number(self, place: Place) -> int:
        number = self._numbers.setdefault(place, len(self._places))
        if number == len(self._places):
            self._places.append(place)
        return number

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
            target = Place(place.kind, pending, _FIRST_MARK if is_bottom else _MARK)
        else:
            action = self._actions[state][terminal]
            if action < 0:
                return action
            kind = self._kinds.above[place.kind].get(terminal)
            if kind is None:
                return None
            target = Place(kind, pending)
        boundary = self._state_of(target), pending
        if boundary not in self._ahead or pending in self._kinds.dead[target.kind]:
            return None
        return self._number(target)

    def _state_of(self, place: Place) -> int:
        """Return the LR state of a place; the last one after the end of the text."""
        return (
            self._kinds.state[place.kind] if place.kind != _ENDED else self._tables.num_states - 1
        )

    def _gotos_of(self, place: Place) -> dict[int, int]:
        """Return where nonterminals lead, and terminals that ignored text follows."""
        if place.kind == _ENDED:
            return {}
        found = {}
        for symbol, kind in self._kinds.above[place.kind].items():
            if symbol < 0:
                found[~symbol] = self._number(Place(kind, _REDUCED))
            elif self._after:
                found[self._after[symbol]] = self._number(Place(kind, _REDUCED))
        if self._ignored and not place.kind and place.pending != _REDUCED:
            found[self._bottom] = self._number(Place(0, _REDUCED))
        return found

    def _finish(self, gotos: Sequence[Mapping[int, int]]) -> Split:
        tables = self._tables
        after: list[set[int]] = [set() for _ in range(self._new_end + 1)]
        for row in self._rows:
            for terminal, value in row.items():
                if value >= 0:
                    after[terminal].add(value)
        items = [
            range(*tables.item_offsets[state : state + 2].tolist())
            for state in map(self._state_of, self._places)
        ]
        flat_items = np.array([item for row in items for item in row], np.int64)
        actions = [sorted(row.items()) for row in self._rows]
        going = [sorted(row.items()) for row in gotos]
        return Split(
            replace(
                tables,
                num_states=len(self._places),
                action_offsets=_offsets(actions),
                action_terminals=_column(actions, 0),
                action_values=_column(actions, 1),
                goto_offsets=_offsets(going),
                goto_symbols=_column(going, 0),
                goto_states=_column(going, 1),
                rule_lhs=np.array([rule.lhs for rule in self._rules], np.int32),
                rule_length=np.array([len(rule.rhs) for rule in self._rules], np.int32),
                item_offsets=_offsets(items),
                item_rules=tables.item_rules[flat_items],
                item_dots=tables.item_dots[flat_items],
                rules=tuple(self._rules),
                nonterminals=tuple(self._names),
                contexts_after=[np.array(sorted(states), np.int32) for states in after[:-1]],
            ),
            [
                None if place.pending == _REDUCED else (self._state_of(place), place.pending)
                for place in self._places
            ],
        )


def _offsets(rows: Sequence[Sequence[object]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)


def _column(rows: Sequence[Sequence[tuple[int, int]]], column: int) -> np.ndarray:
    return np.array([pair[column] for row in rows for pair in row], np.int32)
