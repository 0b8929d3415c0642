"""Pending matches: longer matches that a deterministic lexer still waits for after a terminal ends.

After ``1`` in ``1..2`` the lexer waits: ``.5`` would make the number longer. The reading in which
NUMBER has ended holds only if the longer match fails. Seen from the terminals that follow, that
longer match is *pending*: a scanner state that moves along with them. If it completes a terminal,
their reading of the text is void; it is over when the scanner has no next state, or the text ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.scanner.reach import mark_ahead
from cdec.core.errors import LimitError

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner

NOTHING_PENDING = 0
"""The empty set of pending matches; also the class of those that can never complete anything."""
TAKEN = 1
"""A pending match completes: the reading that it moves along with is void."""

_MAX_ROUNDS = 100
_MAX_STEPS = 5_000_000
"""Pending matches times byte classes before the question is left open."""
_MAX_WORK = 500_000_000
"""Scanner transitions to follow in order to know which contexts lead where."""


class PendingMatches:
    """Classes of pending matches that behave alike, and numbered sets of these classes.

    A pending match is a scanner state in which more terminals can end, together with those of them
    that the parser would certainly take. Two are alike if the same bytes make them complete
    something, whatever that is.

    Attributes:
        viable: Per set: every match in it can still end as a terminal that the parser would
            certainly take there, so the text can go on with it.
    """

    def __init__(self, scanner: Scanner, ignored: frozenset[int], shiftable: Sequence[int]) -> None:
        """Find the pending matches of a scanner. Cost: at most 100 rounds of O(matches x classes).

        Args:
            scanner: Of a deterministic lexer.
            ignored: Ignored terminals, which are taken everywhere.
            shiftable: Per context: terminals that are shifted at once in every LR state with
                that context, as bits.
        """
        self._ignored = sum(1 << terminal for terminal in ignored)
        self._delta = scanner.delta
        self._completes = np.diff(scanner.match_offsets) > 0
        rows: list[int] = [
            sum(1 << terminal for terminal in scanner.live_terminals[begin:stop].tolist())
            for begin, stop in zip(
                scanner.live_offsets[:-1].tolist(), scanner.live_offsets[1:].tolist(), strict=True
            )
        ]
        self._live_rows = rows
        self._live_row = scanner.live_row
        self._lives = np.array([bool(row) for row in rows])[scanner.live_row]
        self._numbers: dict[tuple[int, int], int] = {}
        self._states: list[int] = []
        self._ends: list[int] = []
        self._taken = self._taken_everywhere(scanner, shiftable)
        self._find(scanner)
        self._class_steps = self._refine()
        self._sets: dict[frozenset[int], int] = {
            frozenset(): NOTHING_PENDING,
            frozenset({TAKEN}): TAKEN,
        }
        self._members: list[frozenset[int]] = list(self._sets)
        self._steps: dict[int, NDArray[np.int64]] = {}
        self.viable: list[bool] = [True, False]

    def step(self, pending: int) -> NDArray[np.int64]:
        """Return the set after each byte class: int64[K], ``TAKEN`` where a match completes.

        Rows are made when they are asked for: most are never needed.
        """
        if pending not in self._steps:
            rows = [self._class_steps[member] for member in self._members[pending]]
            if not rows:
                return self._class_steps[NOTHING_PENDING]
            row = np.empty(rows[0].size, dtype=np.int64)
            known: dict[tuple[int, ...], int] = {}
            for place, targets in enumerate(zip(*(row.tolist() for row in rows), strict=True)):
                if targets not in known:
                    alive = frozenset(target for target in targets if target != NOTHING_PENDING)
                    known[targets] = TAKEN if TAKEN in alive else self._intern(alive)
                row[place] = known[targets]
            self._steps[pending] = row
        return self._steps[pending]

    def live(self, state: int) -> int:
        """Return the terminals that can complete after more bytes, as bits."""
        return self._live_rows[int(self._live_row[state])]

    def after(self, pending: int, state: int, terminal: int) -> int:
        """Return ``pending`` and the match that a terminal ending in a scanner state leaves."""
        if not self._lives[state]:
            return pending
        number = self._numbers[state, self._ends_of(state, terminal)]
        return self._intern(self._members[pending] | {int(self._class_of[number])})

    def _ends_of(self, state: int, terminal: int) -> int:
        """Return as what a terminal that ended in a state may end again, as bits: itself, what is
        ignored, what is shifted at once wherever it may have begun."""
        everywhere = self._taken.get(state, 0) | self._ignored | 1 << terminal
        return self.live(state) & everywhere

    def _taken_everywhere(self, scanner: Scanner, shiftable: Sequence[int]) -> dict[int, int]:
        """Return, per state where matches become pending, what all contexts leading there shift."""
        origins = np.flatnonzero(self._completes & self._lives)
        if not origins.size or self._delta.size * len(shiftable) > _MAX_WORK:
            return {}
        place = np.full(len(self._delta), -1, dtype=np.int32)
        place[origins] = np.arange(origins.size)
        stamps = np.zeros(len(self._delta), dtype=np.int32)
        taken: dict[int, int] = {}
        starts = scanner.context_start.astype(np.int32)
        delta = np.ascontiguousarray(self._delta, dtype=np.int32)
        for context, terminals in enumerate(shiftable):
            met = np.zeros(origins.size, dtype=np.bool_)
            mark_ahead(delta, place, starts[context : context + 1], stamps, context + 1, met)
            for state in origins[met].tolist():
                taken[state] = taken.get(state, terminals) & terminals
        return taken

    def _intern(self, members: frozenset[int]) -> int:
        """Return the number of a set of classes."""
        number = self._sets.setdefault(members, len(self._members))
        if number == len(self._members):
            self._members.append(members)
            self.viable.append(all(self._class_viable[member] for member in members))
        return number

    def _find(self, scanner: Scanner) -> None:
        """Number all pending: where terminals end and may go on, and what that leads to."""
        for state in np.flatnonzero(self._completes & self._lives).tolist():
            terminal = int(scanner.match_terminals[scanner.match_offsets[state]])
            self._number(state, self._ends_of(state, terminal))
        place = 0
        while place < len(self._states):
            for target in self._plain_targets(self._states[place]):
                self._number(target, self._ends[place] & self.live(target))
            place += 1

    def _number(self, state: int, ends: int) -> None:
        key = (state, ends)
        if key not in self._numbers:
            self._numbers[key] = len(self._states)
            self._states.append(state)
            self._ends.append(ends)

    def _plain_targets(self, state: int) -> list[int]:
        """Return where a pending match can go without completing anything and without ending."""
        row = np.unique(self._delta[state])
        row = row[row >= 0]
        plain = row[~self._completes[row] & self._lives[row]]
        return [int(target) for target in plain]

    def _refine(self) -> list[NDArray[np.int64]]:
        """Find classes of matches that behave alike (Moore's partition); return their steps.

        Classes begin at 2. Where that takes too many rounds, every match is a class of its own.
        """
        states = np.array(self._states, dtype=np.int64)
        width = self._delta.shape[1]
        if states.size * width > _MAX_STEPS:
            reason = f"{states.size} pending matches, too many to compare"
            raise LimitError(reason, limit="max_states")
        targets = self._delta[states].astype(np.int64).reshape(-1, width)
        fixed = np.where(targets < 0, NOTHING_PENDING, -1)
        alive = targets >= 0
        fixed[alive & self._completes[targets]] = TAKEN
        fixed[alive & ~self._completes[targets] & ~self._lives[targets]] = NOTHING_PENDING
        follow = np.zeros_like(fixed)
        for row, place in zip(*np.nonzero(fixed < 0), strict=True):
            target = int(targets[row, place])
            follow[row, place] = self._numbers[target, self._ends[row] & self.live(target)]
        viable = np.array([bool(ends) for ends in self._ends], dtype=np.bool_)
        classes = viable.astype(np.int64)
        count = 0
        for round_number in range(_MAX_ROUNDS + 1):
            if round_number == _MAX_ROUNDS:
                classes = np.arange(states.size)
                break
            labels = np.where(fixed < 0, classes[follow] + 2, fixed) if states.size else fixed
            keys = np.concatenate([classes[:, None], labels], axis=1)
            _, classes = np.unique(keys, axis=0, return_inverse=True)
            classes = classes.reshape(-1).astype(np.int64)
            found = int(classes.max(initial=-1)) + 1
            if found == count:
                break
            count = found
        self._class_of = classes + 2
        labels = np.where(fixed < 0, self._class_of[follow], fixed) if states.size else fixed
        _, first = np.unique(classes, return_index=True)
        self._class_viable = [True, False, *viable[first].tolist()]
        nothing = np.zeros(width, dtype=np.int64)
        return [nothing, nothing + TAKEN, *labels[first]]
