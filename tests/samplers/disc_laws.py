"""The checks that DISC's draws must pass on a toy, shared by the two toys' test files."""

from __future__ import annotations

import math

import numpy as np

from cdec.integrations.findings.enumeration import disc, expected_draws, target, total_variation
from cdec.samplers.disc import DiscSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Toy

DRAWS = heavy_or(10_000, 100_000)


def check_disc(toy: Toy, tries: int, *, recycle: bool) -> None:
    """Compare draws with the exact law, its distance to Q and the mean number of tries."""
    sampler = DiscSampler(K=tries, recycle=recycle, max_walks=1 << 15)
    rng = np.random.default_rng(100 * tries + recycle)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=DRAWS, rng=rng)
    rows = [tuple(sample.token_ids) for sample in samples]
    law = disc(toy, tries, recycle=recycle)
    assert g_test(rows, law) >= 1e-4
    drawn, counts = np.unique([toy.members.index(row) for row in rows], return_counts=True)
    empirical = {toy.members[i]: c / DRAWS for i, c in zip(drawn, counts, strict=True)}
    # The empirical total variation from the law is below sqrt(cells / draws) / 2 on average
    # (Cauchy-Schwarz) and exceeds its mean by t with probability exp(-2 draws t^2) (McDiarmid).
    slack = math.sqrt(len(law) / DRAWS) / 2 + math.sqrt(math.log(1e4) / (2 * DRAWS))
    q = target(toy)
    assert abs(total_variation(empirical, q) - total_variation(law, q)) <= slack
    tries_used = np.array([sample.diagnostics["draws"] for sample in samples], float)
    error = 4 * tries_used.std() / math.sqrt(DRAWS)
    assert abs(tries_used.mean() - expected_draws(toy, tries, recycle=recycle)) <= error + 1e-12
    for sample in samples[:200]:
        assert sample.log_weight == (0.0 if sample.diagnostics["accepted"] else None)
        assert sample.valid
