"""Progress of long work and the warnings that come up in it, as data that others show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cdec.core.errors import Notice


@dataclass(frozen=True, slots=True)
class Stage:
    """Progress of a stage of long work.

    Attributes:
        name: What is being done, such as ``tokenize``.
        done: Units done so far.
        total: Units there are; None where that is not known.
        unit: What is counted, in the plural; empty where nothing is.
        note: What else there is to say; empty for nothing.
        notice: A warning to print while work goes on; None for none.
    """

    name: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    note: str = ""
    notice: Notice | None = None


Progress: TypeAlias = Callable[[Stage], None]
"""Called when a stage begins and as it goes on; a stage of another name ends the one before it."""


def silent(stage: Stage) -> None:
    """Tell nobody: the ``Progress`` of work that nobody watches."""


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
