"""Arrivals: what an input gives, read ahead, so that whoever takes it can tell that it is idle.

Records that come over a pipe are worked on in batches, and whoever writes them may wait for an
answer before he writes the next. So a batch that is not full is worked on where no further record
has come for some time. Reading and parsing stand in a thread of their own; the order of what comes
out, and every error in its place, are those of the iterator itself.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


def never() -> bool:
    """Say that an input is not idle: reading it waits for nobody."""
    return False


class Arrivals(Generic[ItemT]):
    """Items of an iterator in their order, read ahead by a thread that starts with the first use.

    subtle: it is the record that counts, not the byte. A line that arrives in pieces, however
    slowly, is no reason to let the records before it wait, nor are bytes of a compressed stream.

    Args:
        items: Read in the thread alone, which may wait in it for as long as it likes.
        idle_s: Seconds without a further item after which the input is idle.
        ahead: Most items that are held, so that memory stays that of a batch or two.
    """

    def __init__(self, items: Iterator[ItemT], idle_s: float, ahead: int) -> None:
        self._items = items
        self._idle_s = idle_s
        self._ahead = ahead
        self._held: deque[ItemT] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None
        self._is_started = False

    def __iter__(self) -> Iterator[ItemT]:
        return self

    def __next__(self) -> ItemT:
        """Return the next item, however long that takes.

        Raises:
            StopIteration: There is none.
            Exception: What the iterator raised, in its place.
        """
        self._start()
        with self._changed:
            self._changed.wait_for(self._has_something)
            if self._held:
                item = self._held.popleft()
                self._changed.notify_all()
                return item
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raise StopIteration

    def is_idle(self) -> bool:
        """Say whether nothing comes: no item and no end, for as long as an input may take."""
        self._start()
        with self._changed:
            return not self._changed.wait_for(self._has_something, self._idle_s)

    def _has_something(self) -> bool:
        return bool(self._held) or self._is_over

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            # A daemon: nobody can end its wait for a writer but the process's own end.
            threading.Thread(target=self._read, name="arrivals", daemon=True).start()

    def _read(self) -> None:
        _leave_signals_to_others()
        failure: BaseException | None = None
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._held) < self._ahead)
                    self._held.append(item)
                    self._changed.notify_all()
        except BaseException as error:
            # Whoever takes the items meets it where it stands.
            failure = error
        with self._changed:
            self._failure, self._is_over = failure, True
            self._changed.notify_all()


def _leave_signals_to_others() -> None:
    """Let no signal come to this thread: a handler runs in the main one, which would sleep on."""
    block: Callable[..., object] = signal.pthread_sigmask
    block(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM})
