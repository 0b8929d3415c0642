"""One warning a run about masses that cannot be relied on, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from cdec.core.errors import Notice

BY_DRAWING = "draw more with -n, or take --method exact, or asap with --until-converged 0.1"
BY_TRYING = "draw more with -n or --mass-draws, or take --method exact"
BY_LEARNING = "draw more with -n, or bound the mass with cdec mass --until-converged 0.1"
BY_MEASURING = "raise --candidates, or bound it with --until-converged 0.1"


@dataclass
class Estimates:
    """Counts records with an estimate of their mass, and those that cannot be relied on.

    Attributes:
        remedy: What to do.
    """

    remedy: str
    estimated: int = 0
    unreliable: int = 0

    def note(self, is_reliable: object) -> None:
        """Count one record by its ``log_mass_reliable``; None is not an estimate."""
        if isinstance(is_reliable, bool):
            self.estimated += 1
            self.unreliable += not is_reliable

    def take_notices(self) -> list[Notice]:
        """Return the warning, if any record gives reason for it."""
        if not self.unreliable:
            return []
        counts: dict[str, object] = {"records": self.estimated, "unreliable": self.unreliable}
        message = (
            f"of {self.unreliable} of {self.estimated} prompts log_mass is not reliable: too much "
            "of the constraint's mass may be in texts not seen yet; trust log_mass_lower and "
            f"log_mass_upper, and {self.remedy}"
        )
        return [Notice("W_MASS_UNRELIABLE", message, counts)]
