"""Run clock: the time of a run, divided among what it is doing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

ItemT = TypeVar("ItemT")


class Activity(AbstractContextManager[None]):
    """One thing that a run does; a context manager around it.

    Time within the context is its own, but for that of activities that begin and end in it.

    Attributes:
        nanoseconds: So far, up to the clock's last turn.
    """

    __slots__ = ("_clock", "_outer", "nanoseconds")

    def __init__(self, clock: RunClock) -> None:
        self._clock = clock
        self._outer: list[Activity] = []
        self.nanoseconds = 0

    def __enter__(self) -> None:
        self._outer.append(self._clock.turn_to(self))

    def __exit__(self, *_: object) -> None:
        self._clock.turn_to(self._outer.pop())


class RunClock:
    """Adds every moment of a run to one activity, so that they sum to the whole.

    It belongs to one thread. Cost: the system's clock is read twice a context, half a microsecond
    in all. On a device whose work is queued, time counts where its result is waited for.

    Args:
        now: Tells nanoseconds, never fewer than before.

    Attributes:
        loading: Models and constraints are opened; what a clock begins with.
        model: Passes of the model, and of a draft.
        masks: Constraints of records are compiled; sessions are asked.
        waiting: The input is read, the output is written.
        working: All else between ``begin`` and ``end``.
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self.loading, self.model, self.masks = Activity(self), Activity(self), Activity(self)
        self.waiting, self.working = Activity(self), Activity(self)
        self._at, self._since = self.loading, now()

    def begin(self) -> None:
        """End the loading: the work begins."""
        self.turn_to(self.working)

    def end(self) -> None:
        """End the work: what is left is to finish the output."""
        self.turn_to(self.waiting)

    def turn_to(self, activity: Activity) -> Activity:
        """Count time for another activity from now on; return the one until now."""
        now, before = self._now(), self._at
        before.nanoseconds += now - self._since
        self._at, self._since = activity, now
        return before

    def reading(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """Yield items of the input, which are waited for."""
        iterator = iter(items)
        while True:
            with self.waiting:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def seconds(self, work: str) -> dict[str, float]:
        """Return the seconds of each activity up to now.

        Args:
            work: What ``working`` is called, ``sampling`` say.
        """
        self.turn_to(self._at)
        named = {"loading": self.loading, "model": self.model, "masks": self.masks}
        named |= {work: self.working, "waiting": self.waiting}
        return {name: activity.nanoseconds / 1e9 for name, activity in named.items()}
