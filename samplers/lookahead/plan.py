"""Plans: the next events of some walks, decided ahead, and how the walks then take them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.lookahead.models import TargetEvents
from cdec.samplers.walks.candidates import LENGTH, Recorder
from cdec.samplers.walks.decoding import follow_events, note_step
from cdec.samplers.walks.events import NONE, SampledEvents
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.step import Step


@dataclass(slots=True)
class Plan:
    """The next events of W walks; grows as they are appended.

    Attributes:
        events: int64[W, L] tokens or END; NONE at a dead end. log_p: float64[W, L] log P of each
            under the target.
        lengths: int64[W] how many of them count, at least 1 once planned.
    """

    events: NDArray[np.int64]
    log_p: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> Plan:
        """Return n plans of no events yet."""
        return cls(np.full((n, 1), NONE), np.full((n, 1), -np.inf), np.zeros(n, np.int64))

    def append(
        self, rows: NDArray[np.int64], events: NDArray[np.int64], log_p: NDArray[np.float64]
    ) -> None:
        """Append an event (int64[n], with log P float64[n]) to the plans ``rows`` (int64[n])."""
        at = self.lengths[rows]
        room = self.events.shape[1]
        if int(at.max(initial=0)) >= room:
            more = ((0, 0), (0, room))
            self.events = np.pad(self.events, more, constant_values=NONE)
            self.log_p = np.pad(self.log_p, more, constant_values=-np.inf)
        self.events[rows, at], self.log_p[rows, at] = events, log_p
        self.lengths[rows] += 1


def follow(
    record: Recorder,
    alive: NDArray[np.int64],
    frontier: Frontier,
    plan: Plan,
    target: TargetEvents,
) -> tuple[NDArray[np.int64], Frontier]:
    """Let walks take the events planned; return those that go on, in the order of ``alive``.

    Args:
        record: Written.
        alive: int64[W] rows of ``record``, ascending. frontier: The W walks.
        plan: Theirs; the target knows every prefix that an event is taken at.
        target: Says what the masks left there.
    """
    everyone, stopped = alive, []
    for at in range(int(plan.lengths.max(initial=0))):
        walks = np.searchsorted(everyone, alive)
        goes_on = plan.lengths[walks] > at
        stops = np.flatnonzero(~goes_on)
        if stops.size:
            stopped.append((alive[stops], frontier.take(stops)))
            rows = np.flatnonzero(goes_on)
            alive, frontier, walks = alive[rows], frontier.take(rows), walks[rows]
        if not alive.size:
            break
        alive, frontier = _emit(
            record, alive, frontier, plan.events[walks, at], plan.log_p[walks, at], target
        )
        alive, frontier = without_overlong(record, alive, frontier)
    for rows, walks_there in stopped:
        alive, frontier = np.concatenate([alive, rows]), frontier.joined(walks_there)
    order = np.argsort(alive)
    return (alive[order], frontier.take(order)) if stopped else (alive, frontier)


def without_overlong(
    record: Recorder, alive: NDArray[np.int64], frontier: Frontier
) -> tuple[NDArray[np.int64], Frontier]:
    """Finish the walks that have all their tokens and are no members; return the others."""
    cut = frontier.is_cut()
    if not cut.any():
        return alive, frontier
    record.finish(alive[cut], LENGTH, frontier.context[cut])
    rows = np.flatnonzero(~cut)
    return alive[rows], frontier.take(rows)


def _emit(
    record: Recorder,
    alive: NDArray[np.int64],
    frontier: Frontier,
    chosen: NDArray[np.int64],
    log_p: NDArray[np.float64],
    target: TargetEvents,
) -> tuple[NDArray[np.int64], Frontier]:
    """Let each walk take an event, as ``decoding.step_on`` does once it is chosen."""
    n = len(alive)
    log_z, log_end = target.masses(frontier.context)
    # The ledger counts the calls, so the tree must not: as what a run covers.
    frontier = replace(frontier, in_run=np.ones(n, np.bool_))
    everyone = np.arange(n)
    step = Step(frontier, everyone, np.arange(n + 1), everyone, None, None, everyone)
    taken = SampledEvents(chosen, log_p, log_z, np.zeros(n), log_end, np.zeros(0))
    note_step(step, taken)
    alive, frontier = follow_events(record, alive, frontier, step, taken)
    # subtle: where none goes on, the frontier comes back as it was.
    return alive, frontier if alive.size else frontier.take(alive)
