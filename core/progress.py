"""How long work tells how far it is; nothing here shows anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from cdec.core.errors import Notice


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a stage of long work is.

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
