"""Weights of opportunistic masking: unbiased, by enumeration of all that chance decides."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cdec.core.sample import Sample
from cdec.integrations.findings.enumeration import log_prob, masked, mass
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.request import Request
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy, in_logits, random_toy, toy_a, toy_b
from tests.samplers.mcmc_laws import events
from tests.samplers.smc_laws import dead_end_toy

Weighed = dict[tuple[Row | None, float], float]
"""Of a row, None for no text, and its weight."""
TOYS = {
    "a": toy_a(),
    "b": toy_b(),
    "dead ends": dead_end_toy(),
    "ends itself": random_toy(4, ends_itself=True),
    **{f"random {seed}": random_toy(seed) for seed in (1, 3, 8)},
}
DRAWS = heavy_or(4_000, 20_000)


def steps(toy: Toy, prefix: Row, limit: int | None) -> Iterator[tuple[int, float, float]]:
    """Yield each event, the factor of the weight and the probability of both.

    The first draw is of the model. If it is refused, the masked law decides and the factor is Z;
    else one more event is drawn from the others, and the factor is 1 if that is allowed, and the
    first one's probability if not.
    """
    allowed = events(toy, prefix, limit)
    z = sum(allowed.values())
    for event, p in allowed.items():
        yield event, z, (1 - z) * p / z
        others = z - p
        yield event, 1.0, p * others / (1 - p) if p < 1 else p
        if p < 1:
            yield event, p, p * (1 - others / (1 - p))


def weighed(toy: Toy, limit: int | None = None) -> Weighed:
    """Return the law of a row and its weight, to 9 digits."""
    law: Weighed = defaultdict(float)
    walks: list[tuple[Row, float, float]] = [((), 1.0, 1.0)]
    while walks:
        prefix, weight, p = walks.pop()
        if toy.ends_itself and prefix in toy.members:
            law[prefix, round(weight, 9)] += p
        elif not events(toy, prefix, limit):
            law[None, 0.0] += p
        else:
            for event, factor, q in steps(toy, prefix, limit):
                if q > 0 and event < 0:
                    law[prefix, round(weight * factor, 9)] += p * q
                elif q > 0:
                    walks.append(((*prefix, event), weight * factor, p * q))
    return dict(law)


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("name", TOYS)
def test_enumerated_weights_have_the_mean_of_the_target(name: str, limit: int | None) -> None:
    """E[weight * f(text)] is the sum of P(w) f(w) over the members, for f the indicator of each."""
    toy = TOYS[name]
    law = weighed(toy, limit)
    assert math.fsum(law.values()) == pytest.approx(1.0)
    rows = {row for row, _ in law} - {None}
    drawn, x = masked(toy, limit).law, masked(toy, limit).x
    for row in rows:
        mine = {weight: p for (each, weight), p in law.items() if each == row}
        assert math.fsum(mine.values()) == pytest.approx(drawn[row], abs=1e-12)
        mean = math.fsum(weight * p for weight, p in mine.items())
        # Weights were rounded to 9 digits.
        assert mean == pytest.approx(math.exp(log_prob(toy, row)), abs=1e-9)
        assert mean / drawn[row] == pytest.approx(x[row], abs=1e-9 / drawn[row])


def drawn(toy: Toy, n: int, limit: int | None = None, **options: Any) -> list[Sample]:
    sampler = MaskedSampler(opportunistic=True, **options)
    rng = np.random.default_rng(n)
    return sampler.draw(toy.model(), toy.constraint, "", n=n, rng=rng, max_new_tokens=limit)


@pytest.mark.share(4)
@pytest.mark.parametrize("options", [{}, {"draft": "counts", "gamma": 3}])
@pytest.mark.parametrize(
    ("name", "limit"),
    [("a", None), ("b", None), ("b", 2), ("dead ends", None), ("ends itself", None)],
)
def test_texts_and_weights_have_the_enumerated_law(
    name: str, limit: int | None, options: dict[str, Any]
) -> None:
    shown = []
    for sample in drawn(TOYS[name], DRAWS, limit, **options):
        row = tuple(sample.token_ids) if sample.finish_reason == "complete" else None
        log = sample.log_weight
        assert (log is None) == (row is None) and log == sample.log_candidate_weight
        shown.append((row, 0.0 if log is None else round(math.exp(log), 9)))
    assert g_test(shown, weighed(TOYS[name], limit)) >= 1e-4


@pytest.mark.parametrize("name", ["a", "b", "random 8"])
def test_weighted_means_are_those_of_the_target(name: str) -> None:
    toy = TOYS[name]
    samples = drawn(toy, DRAWS)
    weights = np.exp([-np.inf if s.log_weight is None else s.log_weight for s in samples])
    lengths = np.array([len(sample.token_ids) for sample in samples])
    expected = sum(math.exp(log_prob(toy, row)) * len(row) for row in toy.members)
    for values, truth in ((weights, mass(toy)), (weights * lengths, expected)):
        # Four standard errors: once in 16,000 runs.
        assert abs(values.mean() - truth) <= 4 * values.std() / math.sqrt(len(values))
    estimate = samples[0].diagnostics["log_mass_unclipped"]
    assert math.exp(estimate) == pytest.approx(weights.mean())


def test_a_weight_does_not_depend_on_who_else_stands_there() -> None:
    toy = toy_b()
    requests = [Request.numbered("", toy.constraint, id=i, n=6) for i in range(3)]
    whole, parts = (
        MaskedSampler(opportunistic=True, max_walks=walks).draw_batch(toy.model(), requests)
        for walks in (2048, 1)
    )
    for together, one_by_one in zip(whole, parts, strict=True):
        weights = [[sample.log_weight for sample in each] for each in (together, one_by_one)]
        assert weights[0] == weights[1]


def test_a_device_weighs_as_the_host_does() -> None:
    world = in_logits(random_toy(8))
    weights = [
        [
            sample.log_weight
            for sample in MaskedSampler(opportunistic=True).draw(
                world.model(device), world.constraint, "", n=60, rng=np.random.default_rng(5)
            )
        ]
        for device in ("cpu", "torch:cpu")
    ]
    assert weights[0] == pytest.approx(weights[1])
