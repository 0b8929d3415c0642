"""Pairs of a tabular target and a tabular draft over one vocabulary, with and without a set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.worlds import Probabilities
from tests.laws.worlds import Row, Toy

END = -1
"""The end of a text by any end id, as one event."""
ORDINARY, ENDS, PADDING = (0, 1, 2, 3), (4, 5), 6
WIDTH = 7
MEMBERS: list[Row] = [(0,), (0, 1), (0, 1, 2), (0, 3), (1, 0, 0), (1, 2), (2, 3, 1), (3, 0), (3, 3)]
FIXED: list[Row] = [(0, 3), (0, 1, 3), (0, 1, 2, 3), (1, 0, 0, 3), (1, 2, 3), (2, 1, 3), (2, 2, 3)]
LETTERS = [bytes([97 + t]) for t in ORDINARY] + [b"", b""]
Law = dict[int, float]


@dataclass(frozen=True)
class Pair:
    """A target, a set and a draft; what they allow and propose, by plain enumeration.

    Attributes:
        toy: The target and its set.
        draft: The draft's probabilities. is_masked: Whether the set binds.
        limit: Most tokens of a text; None where the set's longest member bounds it.
    """

    toy: Toy
    draft: Probabilities
    is_masked: bool = True
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is None and not self.is_masked:
            raise ValueError("free texts need a length limit")

    @property
    def constraint(self) -> Any:
        """Return the set, or None."""
        return self.toy.constraint if self.is_masked else None

    @property
    def longest(self) -> int:
        """Return the most tokens of a text."""
        if self.limit is not None:
            return self.limit
        return max(len(row) for row in self.toy.members)

    def draft_model(self, width: int = WIDTH) -> TabularModel:
        """Return a fresh draft; outputs past its width are cut off and the rest renormalised."""
        vocabulary = self.toy.vocabulary.with_width(width)
        return TabularModel(lambda prefix: resized(self.draft(prefix), width), vocabulary)

    def is_member(self, prefix: Row) -> bool:
        """Say whether a text may end here."""
        return not self.is_masked or prefix in self.toy.members

    def following(self, prefix: Row) -> list[int]:
        """Return the tokens that the set allows next, sorted; the length limit left aside."""
        vocabulary = self.toy.vocabulary
        if not self.is_masked:
            return [t for t in range(vocabulary.width) if t not in vocabulary.eos_token_ids]
        n = len(prefix)
        return sorted({row[n] for row in self.toy.members if row[:n] == prefix and len(row) > n})

    def forced(self, prefix: Row) -> int | None:
        """Return the token without which no member is reached, if it is the only event."""
        tokens = self.following(prefix)
        may_end = self.is_member(prefix)
        if len(tokens) != 1 or may_end or len(prefix) >= self.longest:
            return None
        return tokens[0]

    def masses(self, prefix: Row, probabilities: NDArray[np.float64]) -> Law:
        """Return the masses of the allowed events, not renormalised."""
        tokens = self.following(prefix)
        if self.is_masked and len(prefix) >= self.longest:
            tokens = []
        found = {token: float(probabilities[token]) for token in tokens}
        if self.is_member(prefix):
            found[END] = sum(float(probabilities[end]) for end in self.toy.vocabulary.eos_token_ids)
        return {event: p for event, p in found.items() if p > 0}

    def target_law(self, prefix: Row) -> tuple[Law, float]:
        """Return q after ``prefix`` and Z; no events and 0 at a dead end."""
        return normalised(self.masses(prefix, self.toy.probabilities(prefix)))

    def draft_law(self, prefix: Row) -> Law | None:
        """Return p after ``prefix``, masked and renormalised; None where it has nothing to say."""
        return normalised(self.masses(prefix, self.draft(prefix)))[0] or None

    def greedy_law(self, prefix: Row) -> Law | None:
        """Return the one-hot law of a greedy draft."""
        law = self.draft_law(prefix)
        if law is None:
            return None
        # Ties go to the lowest token, the end comes last.
        return {min(law, key=lambda event: (-law[event], event == END, event)): 1.0}


def normalised(masses: Law) -> tuple[Law, float]:
    """Return masses divided by their sum, and the sum."""
    total = math.fsum(masses.values())
    return {event: mass / total for event, mass in masses.items()}, total


def resized(probabilities: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return probabilities for another width: cut and renormalised, or with mass past the end."""
    if width <= len(probabilities):
        kept = probabilities[:width]
        return np.asarray(kept / kept.sum())
    more = width - len(probabilities)
    return np.append(0.7 * probabilities, np.full(more, 0.3 / more))


def warped(
    probabilities: Probabilities, temperature: float, top_k: int | None = None
) -> Probabilities:
    """Return probabilities at another temperature, of the k most probable ids alone."""

    def law(prefix: Row) -> NDArray[np.float64]:
        powers = probabilities(prefix) ** (1 / temperature)
        if top_k is not None:
            powers[powers < np.sort(powers)[-top_k]] = 0.0
        return np.asarray(powers / powers.sum())

    return law


def random_law(seed: int, zeros: float, allowed: tuple[int, ...] = tuple(range(WIDTH))) -> Any:
    """Return random probabilities by prefix, with zeros, over some of the ids."""

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, *prefix])
        weights = own.exponential(size=WIDTH) ** 2 + 0.02
        weights[own.random(WIDTH) < zeros] = 0.0
        weights[[t for t in range(WIDTH) if t not in allowed]] = 0.0
        weights[allowed[-1]] += 0.02
        return np.asarray(weights / weights.sum())

    return probabilities


def made_pair(
    target: Probabilities,
    draft: Probabilities,
    *,
    is_masked: bool = True,
    limit: int | None = None,
    ends_itself: bool = False,
) -> Pair:
    """Return a pair of given laws over the letters, the fixed set and both end ids."""
    vocabulary = Vocabulary(LETTERS, eos_token_ids=list(ENDS), width=WIDTH)
    members = FIXED if ends_itself else MEMBERS
    return Pair(Toy(vocabulary, target, members, ends_itself), draft, is_masked, limit)


def pairs() -> dict[str, Pair]:
    """Return pairs whose drafts differ from the target in every way that matters."""
    target, draft = random_law(1, 0.15), random_law(2, 0.25)
    low, high = random_law(1, 0.1, (0, 2, 4)), random_law(2, 0.1, (1, 3, 6))
    few = random_law(8, 0.0, (0, 1, 4))
    closed = {"ends_itself": True}
    free: dict[str, Any] = {"is_masked": False, "limit": 3}
    return {
        "set": made_pair(target, draft),
        "set, dense": made_pair(random_law(3, 0.0), random_law(4, 0.0)),
        "set that ends texts": made_pair(random_law(25, 0.1), random_law(26, 0.2), **closed),
        "set, short limit": made_pair(random_law(7, 0.0), draft, limit=2),
        "set, other support": made_pair(few, random_law(9, 0.3)),
        "free": made_pair(target, draft, **free),
        "free, draft is target": made_pair(target, target, **free),
        "free, no common event": made_pair(low, high, **free),
    }
