"""The method smc: its law and its runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from cdec.core.errors import CdecError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.integrations.findings.enumeration import Law, log_prob, mass, target, total_variation
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.request import Request
from cdec.samplers.smc import SmcSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b, toy_set
from tests.samplers.smc_laws import Run, branching_toy, dead_end_toy, draw, evidence, outcome, smc

# --- Sequential Monte Carlo: its law by enumeration, its evidence.

DRAWS = heavy_or(4_000, 20_000)


TOYS = {
    "branching": branching_toy(),
    "a": toy_a(),
    "b": toy_b(),
    "dead ends": dead_end_toy(),
    "ends itself": random_toy(4, ends_itself=True),
}


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


@pytest.mark.share(1)
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


# --- Runs of sequential Monte Carlo: batches, devices, dead ends, limits, costs, options.


def records(results: Sequence[list[Sample] | CdecError]) -> list[list[dict[str, object]]]:
    """Return samples as JSON objects; an error fails the test."""
    return [[sample.to_json() for sample in samples] for samples in results]


def test_nothing_depends_on_the_batch_or_on_chunks() -> None:
    toy = random_toy(8)
    others = [
        Toy(toy.vocabulary, toy.probabilities, rows)
        for rows in ([(0,), (1, 2)], [(3, 3, 3), (2,), (2, 0)])
    ]
    constraints = [toy.constraint, None, others[0].constraint, others[1].constraint, None]
    requests = [
        Request([i] * i, constraint, range(10 * i, 10 * i + 7), id=i, max_new_tokens=3 + i % 2)
        for i, constraint in enumerate(constraints)
    ]
    sampler = SmcSampler(particles=5, resample_below=0.9)
    together = records(sampler.draw_batch(toy.model(), requests))
    assert any(record["resamplings"] for group in together for record in group)
    alone = [records(sampler.draw_batch(toy.model(), [request]))[0] for request in requests]
    assert together == alone
    for max_walks in (1, 12):
        chunked = SmcSampler(particles=5, resample_below=0.9, max_walks=max_walks)
        assert records(chunked.draw_batch(toy.model(), requests)) == together


def test_a_seed_gives_the_same_run_whatever_the_other_draws() -> None:
    toy = toy_b()
    requests = [Request("", toy.constraint, range(20)), Request("", toy.constraint, [13, 7])]
    sampler = SmcSampler(particles=4, resample_below=0.95)
    many, few = sampler.draw_batch(toy.model(), requests)
    for ours, theirs in zip(few, (many[13], many[7]), strict=True):
        assert ours.token_ids == theirs.token_ids
        assert ours.log_candidate_weight == theirs.log_candidate_weight
        for name in ("resamplings", "ess"):
            assert ours.diagnostics[name] == theirs.diagnostics[name]
    again = sampler.draw_batch(toy.model(), requests)
    assert records(again) == records([many, few])


def test_a_device_gives_the_runs_of_the_host() -> None:
    import torch

    class OnDevice(TabularModel):
        def _forward(self, nodes: np.ndarray) -> torch.Tensor:
            return torch.tensor(super()._forward(nodes))

    toy = toy_b()
    model = OnDevice(toy.probabilities, toy.vocabulary)
    model.device = "torch:cpu"
    request = Request("", toy.constraint, range(40))
    sampler = SmcSampler(particles=4, resample_below=0.95)
    there = sampler.draw_batch(model, [request])[0]
    here = sampler.draw_batch(toy.model(), [request])[0]
    assert [s.token_ids for s in there] == [s.token_ids for s in here]
    weights = [s.log_candidate_weight for s in here]
    assert [s.log_candidate_weight for s in there] == pytest.approx(weights, abs=1e-6)


def test_zero_mass_is_a_dead_end_without_weight() -> None:
    toy = dead_end_toy()
    nothing = toy_set([(0, 1)], toy.vocabulary)
    sample = SmcSampler(particles=3).draw(toy.model(), nothing, "", rng=np.random.default_rng(1))[0]
    assert (sample.finish_reason, sample.text, sample.valid) == ("dead_end", "a", False)
    assert (sample.logprob, sample.log_weight, sample.log_candidate_weight) == (None, None, None)
    fields = sample.diagnostics
    assert (fields["ess"], fields["resamplings"], fields["log_mass"]) == (None, 0, None)
    assert fields["log_mass_lower"] is None
    # What a difference of sums may have lost to rounding is never denied.
    assert fields["log_mass_upper"] < math.log(1e-12)


def test_cut_particles_have_weight_zero() -> None:
    toy = toy_b()
    only_long = toy_set([(0, 1, 2)], toy.vocabulary)
    sample = SmcSampler(particles=4).draw(
        toy.model(), only_long, "", rng=np.random.default_rng(1), max_new_tokens=2
    )[0]
    assert (sample.finish_reason, sample.text, sample.log_candidate_weight) == (
        "length",
        "ab",
        None,
    )


def test_the_share_beyond_the_limit_is_estimated_under_resampling() -> None:
    toy = toy_b()
    inside = sum(math.exp(log_prob(toy, row)) for row in toy.members if len(row) <= 2)
    # ab and cb may go on, to c and to b; ba cannot end, so all its mass lies beyond.
    given = toy.probabilities
    outside = given(())[0] * given((0,))[1] * given((0, 1))[2]
    outside += given(())[2] * given((2,))[1] * given((2, 1))[1]
    outside += given(())[1] * given((1,))[0]
    sampler = SmcSampler(particles=6, resample_below=0.97)
    found = []
    for group in range(10):
        seeds = range(1000 * group, 1000 * group + 800)
        request = Request("", toy.constraint, seeds, max_new_tokens=2)
        samples = sampler.draw_batch(toy.model(), [request])[0]
        assert any(s.diagnostics["resamplings"] for s in samples)
        found.append(samples[0].diagnostics["length_mass_upper"])
    # Ten independent estimates: their mean is off by 5 standard errors once in 1,400 (Student's t).
    error = 5 * np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found) - outside / (inside + outside)) <= error


def test_without_a_constraint_the_model_itself_is_sampled() -> None:
    toy = toy_b()
    requests = [Request("", None, range(50), max_new_tokens=3)]
    ours = SmcSampler(particles=4).draw_batch(toy.model(), requests)[0]
    theirs = MaskedSampler().draw_batch(toy.model(), requests)[0]
    for a, b in zip(ours, theirs, strict=True):
        assert (a.token_ids, a.finish_reason, a.valid) == (b.token_ids, b.finish_reason, None)
        assert (a.log_weight, a.log_candidate_weight) == (b.log_weight, b.log_candidate_weight)
        assert (a.diagnostics["particles"], a.diagnostics["resamplings"]) == (1, 0)
        assert "log_mass" not in a.diagnostics
        assert a.diagnostics["ess"] == (1.0 if a.finish_reason == "complete" else None)


def test_equal_prefixes_of_all_particles_are_evaluated_once() -> None:
    toy = toy_b()
    asked: list[Row] = []

    def probabilities(prefix: Row) -> np.ndarray:
        asked.append(prefix)
        return toy.probabilities(prefix)

    model = TabularModel(probabilities, toy.vocabulary)
    samples = SmcSampler(particles=8, resample_below=0.95).draw(
        model, toy.constraint, [1, 2], n=5, rng=np.random.default_rng(0)
    )
    assert len(asked) == len(set(asked))
    for name in ("distinct_evaluations", "target_calls"):
        assert sum(s.diagnostics[name] for s in samples) == len(asked)
    assert model._tree.live == 0


@pytest.mark.parametrize(
    "options",
    [
        {"particles": 0},
        {"particles": 2.5},
        {"resample_below": -0.1},
        {"resample_below": 1.5},
        {"resample_below": float("nan")},
        {"resample_below": "half"},
        {"resample_below": True},
        {"max_walks": 0},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        SmcSampler(**options)
    assert next(iter(options)) in caught.value.message
