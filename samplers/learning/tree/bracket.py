"""Bracket: what visited prefixes certify of P(S), and so of the probability of a text under Q."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

ROUNDING = 1e-9
"""Nats: logs nearer to each other are one number."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Certified bounds of P(S) of one record; natural logs, -inf for no mass.

    Attributes:
        log_lower: The texts seen.
        log_upper: What is not excluded.
        log_most: No masked candidate weighs more than this: log Z at the prompt.
        noise: Nats by which both bounds were widened, for what a model says of a prefix differs a
            little from one pass to the next.
    """

    log_lower: float = -math.inf
    log_upper: float = 0.0
    log_most: float = 0.0
    noise: float = 0.0

    @classmethod
    def of(cls, fields: Mapping[str, object], noise: float = 0.0) -> Bracket:
        """Read the bounds back from what a record shows of them."""
        lower, upper = fields["log_mass_lower"], fields["log_mass_upper"]
        return cls(
            lower if isinstance(lower, float) else -math.inf,
            upper if isinstance(upper, float) else -math.inf,
            noise=noise,
        )

    @property
    def log_unseen(self) -> float:
        """Log of upper minus lower: the mass that may be there and was not seen."""
        if not self.width:
            return -math.inf
        return self.log_upper + math.log(-math.expm1(-self.width))

    @property
    def width(self) -> float:
        """How far the bounds are apart, in nats: 0 where there is no mass, inf for no lower one.

        What they were widened by does not count: nothing that was not seen is there.
        """
        if self.log_lower >= self.log_upper:
            return 0.0
        return max(0.0, self.log_upper - self.log_lower - 2 * self.noise)

    def fields(self) -> dict[str, float | None]:
        """Return ``log_mass_lower`` and ``log_mass_upper``; None stands for no mass."""
        bounds = {"log_mass_lower": self.log_lower, "log_mass_upper": self.log_upper}
        return {name: log if log > -math.inf else None for name, log in bounds.items()}

    def probability_of(self, log_p: float | None) -> dict[str, float | None]:
        """Return Q(w) = P(w) / P(S) of a member, as far as it is known, and what bounds it.

        Args:
            log_p: log P(w), natural; None where the text is no member, and nothing is returned of
                its probability.

        Returns:
            ``probability``, None unless the bounds of P(S) are one number (``ROUNDING``);
            ``probability_lower`` = P(w) / upper and ``probability_upper`` = P(w) / lower, at most
            1. All between 0 and 1; too small for a number is 0.
        """
        if log_p is None or self.log_upper == -math.inf:
            return dict.fromkeys(("probability", "probability_lower", "probability_upper"))
        lower = math.exp(min(0.0, log_p - self.log_upper))
        # P(w) is part of P(S), so P(S) is no less.
        upper = max(lower, math.exp(log_p - max(log_p, self.log_lower)))
        return {
            "probability": min(lower * math.exp(self.noise), 1.0)
            if self.width <= ROUNDING
            else None,
            "probability_lower": lower,
            "probability_upper": upper,
        }
