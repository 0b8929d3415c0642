"""Exact answers for best-first search by enumeration, and sets and models to search."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import log_prob
from cdec.samplers.topn import TopnSampler
from tests.laws.worlds import Row, Toy

ROUNDING = 1e-12


def search(toy: Toy, n: int, **options: object) -> list[Sample]:
    """Return the n best members of a toy, proved without a budget; ``limit``: most tokens."""
    limit = options.pop("limit", None)
    if "max_evaluations" not in options:
        options = {"proved": True, **options}
    sampler = TopnSampler(**options)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    return sampler.draw(toy.model(), toy.constraint, "", n=n, rng=rng, max_new_tokens=limit)  # type: ignore[arg-type]


def best_members(toy: Toy, limit: int | None = None) -> list[tuple[float, Row]]:
    """Return log P and row of the members that have any mass, best first, ties by tokens."""
    rows = [row for row in toy.members if limit is None or len(row) <= limit]
    pairs = [(log_prob(toy, row), row) for row in rows]
    return sorted((p for p in pairs if p[0] > -math.inf), key=lambda p: (-p[0], p[1]))


def field(samples: Sequence[Sample], name: str) -> list[object]:
    """Return a diagnostic of all samples."""
    return [sample.diagnostics[name] for sample in samples]


def evaluations(samples: Sequence[Sample]) -> int:
    """Return how many prefixes were evaluated for a record."""
    return sum(int(str(count)) for count in field(samples, "distinct_evaluations"))


def calls(samples: Sequence[Sample]) -> int:
    """Return how many sequences went through the model for a record."""
    return sum(int(str(count)) for count in field(samples, "target_calls"))


def assert_best(toy: Toy, n: int, limit: int | None = None, **options: object) -> None:
    """Check members, order, proofs and bounds of a finished search against enumeration."""
    truth = best_members(toy, limit)
    total = math.log(sum(math.exp(p) for p, _ in truth)) if truth else -math.inf
    samples = search(toy, n, limit=limit, **options)
    found = [sample for sample in samples if sample.logprob is not None]
    assert len(found) == min(n, len(truth))
    assert [s.logprob for s in found] == pytest.approx([p for p, _ in truth[: len(found)]])
    assert len({tuple(s.token_ids) for s in found}) == len(found)
    law = {row: p for p, row in truth}
    for sample in found:
        log_p = law[tuple(sample.token_ids)]
        assert sample.logprob == pytest.approx(log_p, abs=ROUNDING)
        lower, upper = (sample.diagnostics[f"probability_{side}"] for side in ("lower", "upper"))
        assert lower <= math.exp(log_p - total) + ROUNDING
        assert upper >= math.exp(log_p - total) - ROUNDING
        if n > len(truth):
            assert upper - lower <= ROUNDING
            assert lower <= sample.diagnostics["probability"] <= upper
    is_cut = limit is not None and limit < max(map(len, toy.members))
    is_exhausted = len(truth) < n and not is_cut
    ranks = list(range(1, (len(truth) if is_exhausted else n) + 1))
    assert field(samples, "rank") == (ranks or [None])
    assert field(samples, "proved") == ([True] * len(ranks) or [None])
    if is_exhausted:
        assert field(samples, "exhausted") == [False] * (len(samples) - 1) + [True]
    assert {s.exactness for s in samples} == {"exact"}
    assert {s.log_weight for s in samples} == {s.log_candidate_weight for s in samples} == {None}


def wide_toy(seed: int, *, width: int = 160, count: int = 150) -> Toy:
    """Rows over many tokens, so that prefixes have more children than are listed at once."""
    rng = np.random.default_rng(seed)
    vocabulary = Vocabulary([chr(48 + t).encode() for t in range(width)] + [b""], [width], [width])
    firsts = rng.choice(width, size=count, replace=False).tolist()
    rows = [(t,) for t in firsts[:140]]
    rows += [(firsts[0], t) for t in range(width)]
    rows += [(t, int(rng.integers(width)), 1) for t in firsts[130:]]

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        weights = np.random.default_rng([seed, *prefix]).exponential(size=width + 1) ** 3
        return weights / weights.sum()

    return Toy(vocabulary, probabilities, sorted(set(rows)))


def splits(text: bytes, vocabulary: Vocabulary) -> list[Row]:
    """Return all tokenisations of a text."""
    found: list[list[Row]] = [[()]]
    for end in range(1, len(text) + 1):
        found.append(
            [
                (*head, token)
                for token, token_bytes in enumerate(vocabulary.token_bytes)
                if token_bytes and text[:end].endswith(token_bytes)
                for head in found[end - len(token_bytes)]
            ]
        )
    return found[len(text)]


class Spellings:
    """A finite language under all tokenisations, with a random model.

    Attributes:
        vocabulary: ``a`` twice, ``b``, ``ab``, ``aa``, and an end id.
        log_p: By tokenisation. by_text: log of the sums, by text.
    """

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        tokens = [b"a", b"b", b"ab", b"aa", b"a", b""]
        self.vocabulary = Vocabulary(tokens, [5], [5], name="letters")
        self._seed = seed
        self.log_p: dict[Row, float] = {}
        sums: dict[str, float] = defaultdict(float)
        for text in texts:
            for row in splits(text.encode(), self.vocabulary):
                p = 1.0
                for depth, token in enumerate((*row, 5)):
                    p *= self.probabilities(row[:depth])[token]
                self.log_p[row] = math.log(p)
                sums[text] += p
        self.by_text = {text: math.log(p) for text, p in sums.items()}

    def probabilities(self, prefix: Row) -> NDArray[np.float64]:
        """Return the model's distribution after a prefix."""
        weights = np.random.default_rng([self._seed, *prefix]).exponential(size=6) + 0.05
        return np.asarray(weights / weights.sum())

    def model(self) -> TabularModel:
        """Return a fresh model."""
        return TabularModel(self.probabilities, self.vocabulary)

    @property
    def log_mass(self) -> float:
        """Log P(S)."""
        return math.log(sum(math.exp(p) for p in self.log_p.values()))
