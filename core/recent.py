"""The bounded cache of what was used most recently, by name; for several threads."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class Recent(Generic[ValueT]):
    """Values by name, the most recently used of them; nothing waits for what another thread makes.

    Args:
        count: Most values kept.
        size: Most bytes of them together; the newest is kept whatever its size.
    """

    def __init__(self, count: int, size: float = math.inf) -> None:
        self._count = count
        self._size = size
        self._values: OrderedDict[Hashable, tuple[ValueT, int]] = OrderedDict()
        self._total = 0
        self._lock = Lock()

    def find(self, name: Hashable) -> ValueT | None:
        """Return the value of a name; None where there is none."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name][0]

    def get(self, name: Hashable, make: Callable[[], ValueT]) -> ValueT:
        """Return the value of a name; ``make`` makes it where there is none."""
        found = self.find(name)
        if found is None:
            found = make()
            self.put(name, found)
        return found

    def put(self, name: Hashable, value: ValueT, size: int = 0) -> None:
        """Keep a value of so many bytes, and forget what was not used for longest."""
        with self._lock:
            self._total += size - self._values.pop(name, (value, 0))[1]
            self._values[name] = value, size
            while len(self._values) > 1 and (
                len(self._values) > self._count or self._total > self._size
            ):
                self._total -= self._values.popitem(last=False)[1][1]

    def drop(self, name: Hashable) -> None:
        """Forget the value of a name."""
        with self._lock:
            self._total -= self._values.pop(name, (None, 0))[1]

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
            self._total = 0
