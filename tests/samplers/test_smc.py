"""Sequential Monte Carlo: its law by enumeration, its evidence, its bias."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.samplers.masked import MaskedSampler
from cdec.samplers.request import Request
from cdec.samplers.smc import SmcSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.toys import Row, Toy, random_toy, toy_a, toy_b
from tests.samplers.enumeration import Law, log_prob, mass, target, total_variation
from tests.samplers.raw_means import watched
from tests.samplers.smc_draws import branching_toy, dead_end_toy, draw, evidence, outcome
from tests.samplers.smc_laws import Run, smc

DRAWS = heavy_or(4_000, 20_000)


TOYS = {
    "branching": branching_toy(),
    "a": toy_a(),
    "b": toy_b(),
    "dead ends": dead_end_toy(),
    "ends itself": random_toy(4, ends_itself=True),
}


def shares(rows: Sequence[Row | None]) -> Law:
    """Return the empirical law."""
    return {row: count / len(rows) for row, count in Counter(rows).items()}


def slack(cells: int, n: int) -> float:
    """Return what the empirical total variation exceeds the true one by once in 10,000 times.

    Its distance from the law has a mean below sqrt(cells / n) / 2 (Cauchy-Schwarz), which it
    exceeds by t with probability exp(-2 n t^2) (McDiarmid).
    """
    return math.sqrt(cells / n) / 2 + math.sqrt(math.log(1e4) / (2 * n))


def outcomes_of(law: dict[Run, float]) -> Law:
    """Return the law of the chosen rows alone."""
    rows: Law = defaultdict(float)
    for (row, _, _), p in law.items():
        rows[row] += p
    return dict(rows)


def surplus(law: dict[Run, float], truth: float) -> float:
    """Return E|evidence / P(S) - 1| / 2, which bounds the total variation from Q.

    Because E[evidence * 1(chosen = w)] = P(w): the law with its evidence as weight is Q.
    """
    return sum(p * abs(z / truth - 1) for (_, z, _), p in law.items()) / 2


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_one_particle_is_masked_decoding(share: float) -> None:
    toy = toy_b()
    request = Request("", toy.constraint, seeds=range(50))
    ours = SmcSampler(particles=1, resample_below=share).draw_batch(toy.model(), [request])[0]
    theirs = MaskedSampler().draw_batch(toy.model(), [request])[0]
    for a, b in zip(ours, theirs, strict=True):
        assert (a.token_ids, a.logprob) == (b.token_ids, b.logprob)
        assert a.log_candidate_weight == pytest.approx(b.log_weight, abs=1e-12)
        assert (a.log_weight, a.method, a.exactness) == (b.log_weight, "smc", "asymptotic")
        assert [a.diagnostics[k] for k in ("particles", "resamplings", "ess")] == [1, 0, 1.0]
        for name in ("log_mass", "log_mass_se", "log_mass_lower", "log_mass_upper"):
            assert a.diagnostics[name] == pytest.approx(b.diagnostics[name], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "particles", "share", "limit"),
    [
        ("a", 2, 0.95, None),
        ("b", 2, 0.95, None),
        ("b", 3, 0.7, None),
        ("b", 3, 0.95, 2),
        ("b", 2, 0.0, None),
        ("branching", 2, 0.95, None),
        ("dead ends", 3, 0.95, None),
        ("ends itself", 2, 0.95, None),
    ],
)
def test_a_few_particles_follow_the_enumerated_law(
    name: str, particles: int, share: float, limit: int | None
) -> None:
    toy = TOYS[name]
    law = smc(toy, particles, share, limit)
    assert sum(law.values()) == pytest.approx(1)
    assert any(times for _, _, times in law) == (share > 0)
    samples = draw(toy, DRAWS, particles, share, limit)
    shown = [(outcome(s), round(evidence(s), 9), s.diagnostics["resamplings"]) for s in samples]
    assert g_test(shown, law) >= 1e-4


def test_enumerated_evidence_weighs_every_member_with_its_probability() -> None:
    for toy in TOYS.values():
        law = smc(toy, 2, 0.95)
        weighted: Law = defaultdict(float)
        for (row, z, _), p in law.items():
            weighted[row] += p * z
        for row in toy.members:
            # The evidence was rounded to 9 digits.
            assert weighted[row] == pytest.approx(math.exp(log_prob(toy, row)), abs=1e-9)
        assert total_variation(outcomes_of(law), target(toy)) <= surplus(law, mass(toy)) + 1e-8


@pytest.mark.parametrize("name", ["a", "b", "dead ends"])
def test_evidence_is_unbiased_while_resampling_is_active(name: str) -> None:
    toy = TOYS[name]
    with watched() as estimates:
        samples = draw(toy, DRAWS, 6, 0.95)
    assert np.mean([s.diagnostics["resamplings"] for s in samples]) > 0.5
    z = np.array([evidence(s) for s in samples])
    assert abs(z.mean() - mass(toy)) <= 4 * z.std() / math.sqrt(DRAWS)
    rows = [outcome(s) for s in samples]
    for row in toy.members:
        mine = z * np.array([other == row for other in rows])
        error = 4 * mine.std() / math.sqrt(DRAWS) + 1e-9
        assert abs(mine.mean() - math.exp(log_prob(toy, row))) <= error
    (found,) = estimates
    assert found.log_mean == pytest.approx(math.log(z.mean()))
    assert found.sampling_error == pytest.approx(z.std(ddof=1) / math.sqrt(DRAWS) / z.mean())
    # So many draws have met everything: the bracket knows P(S) better than their mean does.
    assert samples[0].log_mass == pytest.approx(math.log(mass(toy)))
    assert samples[0].log_mass_reliable


def test_the_law_tends_to_the_target() -> None:
    for toy in (toy_a(), toy_b()):
        q = target(toy)
        n = 8000
        margin = slack(len(q), n)
        exact = total_variation(outcomes_of(smc(toy, 1, 0.5)), q)
        previous = math.inf
        for particles in (1, 4, 16):
            samples = draw(toy, n, particles, 0.5)
            bias = total_variation(shares([outcome(s) for s in samples]), q)
            if particles == 1:
                assert abs(bias - exact) <= margin
            assert bias + margin < previous
            previous = bias


@settings(max_examples=15, deadline=None, derandomize=True)
@given(toy=st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans()))
def test_many_particles_stay_within_the_bound_that_their_evidence_gives(toy: Toy) -> None:
    truth, n = mass(toy), 600
    samples = draw(toy, n, 64, 0.6)
    fields = samples[0].diagnostics
    if truth == 0:
        assert all(s.finish_reason == "dead_end" for s in samples)
        return
    assert math.exp(fields["log_mass_upper"]) >= truth - 1e-12
    lower = fields["log_mass_lower"]
    assert lower is None or math.exp(lower) <= truth + 1e-12
    for sample in samples:
        if sample.finish_reason == "complete":
            assert sample.logprob == pytest.approx(log_prob(toy, tuple(sample.token_ids)), abs=1e-9)
            assert sample.valid
            assert 1 <= sample.diagnostics["ess"] <= 64 + 1e-9
    # Total variation from Q is at most E|evidence / P(S) - 1| / 2 (``surplus``), whose estimate
    # from the draws lies within 4 standard errors.
    distance = abs(np.array([evidence(s) for s in samples]) / truth - 1) / 2
    bound = distance.mean() + 4 * distance.std() / math.sqrt(n)
    bias = total_variation(shares([outcome(s) for s in samples]), target(toy))
    assert bias <= bound + slack(len(toy.members) + 1, n)
