"""What every kind of file under attack has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from tools.campaign.guard import Guard

Outcome = str
"""``refused``, or ``used``: opened, and nothing that uses it fell; ``uneven``: used, and of a kind
whose forged contents may disagree with each other, which ``inspect --verify`` finds."""


class TargetFile(ABC):
    """A kind of file under attack; made once a process, used for every mutant.

    Args:
        folder: Of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "mutant"
        self.guard = Guard()

    @abstractmethod
    def raw(self, rng: np.random.Generator) -> Outcome:
        """Open a mutant of the file's bytes."""

    @abstractmethod
    def sealed(self, rng: np.random.Generator) -> Outcome:
        """Open a mutant of the file's bytes whose digest is right, and use it."""

    @abstractmethod
    def columns(self, rng: np.random.Generator) -> Outcome:
        """Open a mutant of the file's contents, and use it."""

    def remembered(self, rng: np.random.Generator) -> Outcome:
        """Use a mutant that a forged memory calls good; no kind but artifacts has one."""
        return self.columns(rng)
