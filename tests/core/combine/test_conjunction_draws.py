"""Draws from a conjunction: dead ends are reported by masked decoding and rejected by disc."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cdec.core.combine.conjunction import ConjunctionConstraint
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from tests.core.sets.set_cases import make_set
from tests.laws.gtest import g_test

FAR = (2,) + (1,) * 80
LETTER_ROWS = [
    [(0, 1), (0, 2), (1, 0, 2), (*FAR, 0), (1,)],
    [(0, 1), (0, 0), (1, 0, 2), (*FAR, 1), (1,)],
]
"""They have three rows in common, and begin another one alike for longer than is looked ahead."""
COMMON = {(0, 1), (1, 0, 2), (1,)}
THREE = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3])


def three_letters(prefix: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a law over a, b, c and the end that depends on the whole prefix."""
    weights = 1.0 + np.random.default_rng([5, *prefix]).random(4)
    return np.asarray(weights / weights.sum())


def masked_law() -> dict[tuple[int, ...] | None, float]:
    """Return the law of masked decoding by definition; None stands for what gets stuck."""
    begun = {row[:n] for row in (*COMMON, FAR) for n in range(len(row) + 1)}
    law: dict[tuple[int, ...] | None, float] = {None: 0.0}
    level = {(): 1.0}
    while level:
        following: dict[tuple[int, ...], float] = {}
        for prefix, mass in level.items():
            given = three_letters(prefix)
            allowed = [t for t in range(3) if (*prefix, t) in begun]
            ends = prefix in COMMON
            z = given[allowed].sum() + given[3] * ends
            if z == 0:
                law[None] += mass
            if ends:
                law[prefix] = mass * given[3] / z
            following |= {(*prefix, t): mass * given[t] / z for t in allowed}
        level = following
    return law


def drawn(method: str, n: int, **options: Any) -> list[tuple[int, ...] | None]:
    sides = [make_set(rows, THREE) for rows in LETTER_ROWS]
    samples = SAMPLERS[method](**options).draw(
        TabularModel(three_letters, THREE),
        ConjunctionConstraint(*sides),
        "",
        n=n,
        rng=np.random.default_rng(2),
    )
    assert {sample.finish_reason for sample in samples} <= {"complete", "dead_end"}
    for sample in samples:
        assert sample.valid == (sample.finish_reason == "complete")
    return [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]


def test_masked_draws_say_where_they_ran_into_a_dead_end() -> None:
    law = masked_law()
    assert law[None] > 0.1
    assert g_test(drawn("masked", 4000), law) >= 1e-4


def test_disc_draws_follow_the_model_given_both() -> None:
    probabilities = {
        row: math.prod(
            [*(three_letters(row[:i])[t] for i, t in enumerate(row)), three_letters(row)[3]]
        )
        for row in COMMON
    }
    total = sum(probabilities.values())
    # With 200 tries a draw that accepts none has probability below (1 - P(S))^200 < 1e-6.
    assert (1 - total) ** 200 < 1e-6
    target = {row: mass / total for row, mass in probabilities.items()}
    assert g_test(drawn("disc", 1500, K=200), target) >= 1e-4
