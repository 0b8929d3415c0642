"""Warnings about many things of one kind, told once each: the first, and how many more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cdec.core.errors import Notice


class FirstOfEach:
    """Collects notices; of those with one code the first is kept and the others are counted.

    Args:
        things: What the notices are about, in the plural, such as ``grammars``.
    """

    def __init__(self, things: str) -> None:
        self._things = things
        self._first: dict[str, Notice] = {}
        self._counts: Counter[str] = Counter()

    def add(self, notice: Notice) -> None:
        """Note one."""
        self._first.setdefault(notice.code, notice)
        self._counts[notice.code] += 1

    def take(self) -> list[Notice]:
        """Return what was noted since the last call, with ``(and 2 more grammars)`` where due."""
        taken = []
        for code, first in self._first.items():
            more = self._counts[code] - 1
            message = f"{first.message} (and {more} more {self._things})" if more else first.message
            taken.append(replace(first, message=message))
        self._first.clear()
        self._counts.clear()
        return taken
