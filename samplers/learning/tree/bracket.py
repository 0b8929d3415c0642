"""Bracket: what visited prefixes certify of P(S), and so of the probability of a text under Q."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-9
"""Nats: logs nearer to each other are one number."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Bounds of P(S) of one record; natural logs, -inf for no mass.

    What a model says of a prefix differs a little from one batch, device or processor to the next,
    so what is certified is ``lowest`` and ``highest``: the bounds by the scores at hand, widened by
    the rounding of all events.

    Attributes:
        log_lower: The texts seen, by the scores at hand.
        log_upper: What is not excluded, by the same.
        log_most: No masked candidate weighs more than this: log Z at the prompt.
        noise: Nats by which log P of a text may be off: an event's rounding times the events.
    """

    log_lower: float = -math.inf
    log_upper: float = 0.0
    log_most: float = 0.0
    noise: float = 0.0

    @property
    def lowest(self) -> float:
        """Certified: log P(S) is not below this."""
        return self.log_lower - self.noise

    @property
    def highest(self) -> float:
        """Certified: log P(S) is not above this."""
        return min(0.0, self.log_upper + self.noise)

    @property
    def log_unseen(self) -> float:
        """Log of upper minus lower: the mass that may be there and was not seen."""
        if not self.width:
            return -math.inf
        return self.log_upper + math.log(-math.expm1(-self.width))

    @property
    def width(self) -> float:
        """How far the bounds are apart, in nats: 0 where there is no mass, inf for no lower one.

        What they are widened by does not count: nothing that was not seen is there.
        """
        return 0.0 if self.log_lower >= self.log_upper else self.log_upper - self.log_lower

    def fields(self) -> dict[str, float | None]:
        """Return ``log_mass_lower`` and ``log_mass_upper``; None stands for no mass."""
        bounds = {"log_mass_lower": self.lowest, "log_mass_upper": self.highest}
        if self.log_upper == -math.inf:
            return dict.fromkeys(bounds)
        return {name: log if log > -math.inf else None for name, log in bounds.items()}

    def probability_of(
        self, log_p: float | None, log_unseen: float = -math.inf
    ) -> dict[str, float | None]:
        """Return Q(w) = P(w) / P(S) of a member, as far as it is known, and what bounds it.

        Args:
            log_p: log P(w), natural; None where the text is no member, and nothing is returned of
                its probability.
            log_unseen: log of the mass that may belong to the member and was not seen: of a text,
                all that may be further tokenisations, which then count in P(S) as well.

        Returns:
            ``probability``, None unless its bounds by the scores at hand are one number
            (``ROUNDING``); ``probability_lower`` and ``probability_upper``, certified: P(w) and
            P(S) may both be off. All between 0 and 1; too small for a number is 0.
        """
        if log_p is None or self.log_upper == -math.inf:
            return dict.fromkeys(("probability", "probability_lower", "probability_upper"))
        # P(w) is part of P(S), so P(S) is no less.
        whole = float(np.logaddexp(max(log_p, self.log_lower), log_unseen))
        least = min(0.0, log_p - self.log_upper)
        most = max(least, min(0.0, float(np.logaddexp(log_p, log_unseen)) - whole))
        lower = log_p - self.noise - self.highest
        return {
            "probability": math.exp(most) if most - least <= ROUNDING else None,
            "probability_lower": math.exp(min(0.0, lower)),
            "probability_upper": math.exp(min(0.0, most + 2 * self.noise)),
        }
