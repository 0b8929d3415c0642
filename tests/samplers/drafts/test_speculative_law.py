"""Speculative decoding draws from the masked target, whatever the draft; weights are exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.samplers.drafts.counts import Counts
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.speculative import SpeculativeSampler
from tests.samplers.drafts.draft_laws import DRAWS, Rounds, drawn, hasten, p_value
from tests.samplers.drafts.draft_toys import Pair, made_pair, pairs, random_law
from tests.samplers.enumeration import log_prob, masked, mass
from tests.samplers.keyed import keyed
from tests.samplers.raw_means import watched

PAIRS = pairs()
WIDE = 1 << 17
FEWER = 25_000
REAL_NUMBERS = ("set, dense",)
"""Pairs whose draws have a seed each, as all draws have; elsewhere that would take longest."""


def model_sampler(pair: Pair, **options: Any) -> SpeculativeSampler:
    return SpeculativeSampler(draft=pair.draft_model(), max_walks=WIDE, **options)


@pytest.mark.parametrize("name", PAIRS)
def test_both_enumerations_agree(name: str) -> None:
    pair = PAIRS[name]
    law = Rounds(pair, pair.draft_law, 2).law()
    plain = Rounds(pair, lambda prefix: None).law()
    assert law == pytest.approx(plain, abs=1e-12)
    if pair.is_masked:
        whole = masked(pair.toy, pair.limit)
        complete = {row: p for (row, reason), p in law.items() if reason == "complete"}
        assert complete == pytest.approx({r: p for r, p in whole.law.items() if r is not None})


@pytest.mark.parametrize(
    ("name", "n", "options"),
    [
        ("set", DRAWS, {"gamma": 1}),
        ("set, dense", DRAWS, {"gamma": "auto"}),
        ("free", DRAWS, {"gamma": 3}),
        ("free", DRAWS, {"gamma": "auto"}),
        ("set", FEWER, {"gamma": 3, "draft_temperature": 2.0}),
        ("set that ends texts", FEWER, {"gamma": 3}),
        ("set, other support", FEWER, {"gamma": 3}),
        ("set, short limit", FEWER, {"gamma": 3}),
        ("free, no common event", FEWER, {"gamma": 2}),
    ],
)
def test_draws_follow_the_masked_target(
    name: str, n: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    if name not in REAL_NUMBERS:
        hasten(monkeypatch, 5)
    draws = drawn(model_sampler(pair, **options), pair, n, seed=len(name))
    law = Rounds(pair, lambda prefix: None).law()
    assert p_value(draws.outcomes, law) >= 1e-4
    rates = [rate for rate in draws.fields["acceptance_rate"] if rate is not None]
    is_disjoint = name.endswith("no common event")
    assert (max(rates) == 0) if is_disjoint else (0 < np.mean(rates) < 1)


def test_a_draft_that_is_the_target_is_always_accepted() -> None:
    pair = PAIRS["free, draft is target"]
    draws = drawn(model_sampler(pair, gamma=2), pair, 20_000)
    assert p_value(draws.outcomes, Rounds(pair, lambda prefix: None).law()) >= 1e-4
    assert set(draws.fields["acceptance_rate"]) == {1.0}


@pytest.mark.parametrize("name", ["set", "free"])
@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup", "counts"])
def test_guesses_without_a_law_draw_what_masked_draws(name: str, kind: str) -> None:
    pair = PAIRS[name]
    prompt = [0, 1, 2, 0, 3, 1, 0, 0]
    options: dict[str, Any] = {"draft": kind, "counts": Counts(threshold=0.1), "max_walks": 50}
    if kind == "greedy model":
        options = {"draft": pair.draft_model(), "draft_temperature": 0}
    constraint = keyed(pair.toy, fold=2) if pair.is_masked else None
    samples = [
        sampler.draw(
            pair.toy.model(),
            constraint,
            prompt,
            n=2000,
            rng=np.random.default_rng(4),
            max_new_tokens=pair.limit,
        )
        for sampler in (SpeculativeSampler(gamma=3, **options), MaskedSampler())
    ]
    ours, plain = ([(s.token_ids, s.finish_reason, s.logprob) for s in part] for part in samples)
    assert ours == plain
    rates = [s.diagnostics["acceptance_rate"] for s in samples[0]]
    proposed = any(rate for rate in rates)
    assert proposed or (kind == "counts" and not pair.is_masked)


@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup"])
def test_long_texts_use_their_numbers_as_masked_does(kind: str) -> None:
    """Numbers come in blocks of 64 steps, and a draft reaches into the next one and back."""

    def target(prefix: Any) -> np.ndarray:
        law = random_law(prefix[-1] if prefix else 7, 0.2, (0, 1, 2, 3))(prefix[-2:])
        return np.asarray(law)

    def draft(prefix: Any) -> np.ndarray:
        return np.asarray(0.8 * target(prefix) + 0.2 * random_law(3, 0.0)(prefix[-1:]))

    pair = made_pair(target, draft, is_masked=False, limit=140)
    options: dict[str, Any] = {"draft": kind}
    if kind == "greedy model":
        options = {"draft": pair.draft_model(), "draft_temperature": 0}
    ours = drawn(SpeculativeSampler(gamma=5, **options), pair, 5)
    assert ours.outcomes == drawn(MaskedSampler(), pair, 5).outcomes
    assert max(len(row) for row, _ in ours.outcomes) == 140
    assert 0 < np.mean(ours.fields["acceptance_rate"]) < 1


@pytest.mark.parametrize("name", ["set", "set that ends texts", "set, short limit"])
def test_weights_and_probabilities_are_exact(name: str) -> None:
    pair = PAIRS[name]
    exact = masked(pair.toy, pair.limit)
    draws = drawn(model_sampler(pair, gamma=2), pair, 3000)
    seen = set()
    for (row, reason), weight, log_p in zip(
        draws.outcomes, draws.log_weight, draws.log_p, strict=True
    ):
        if reason != "complete":
            assert math.isnan(weight)
            continue
        seen.add(row)
        assert weight == pytest.approx(math.log(exact.x[row]), abs=1e-12)
        assert log_p == pytest.approx(log_prob(pair.toy, row), abs=1e-12)
    assert len(seen) >= 3


def test_the_mean_weight_is_the_mass_of_the_set() -> None:
    pair = PAIRS["set, dense"]
    with watched() as estimates:
        draws = drawn(model_sampler(pair, gamma=3), pair, 20_000)
    weights = np.nan_to_num(np.exp(draws.log_weight))
    assert abs(weights.mean() - mass(pair.toy)) <= 4 * weights.std() / math.sqrt(len(weights))
    assert estimates[0].log_mean == pytest.approx(math.log(weights.mean()), abs=1e-12)


@pytest.mark.parametrize("kind", ["model", "greedy model", "counts", "prompt-lookup"])
def test_greedy_with_a_draft_is_greedy(kind: str) -> None:
    compared = 0
    for seed in range(60):
        is_masked, ends = seed % 3 > 0, seed % 2 == 1
        pair = made_pair(
            random_law(2 * seed, 0.2),
            random_law(2 * seed + 1, 0.2) if seed % 5 else random_law(2 * seed, 0.2),
            is_masked=is_masked,
            limit=(3 + seed % 4) if not is_masked or seed % 4 == 0 else None,
            ends_itself=ends,
        )
        options: dict[str, Any] = {"draft": kind, "counts": Counts(threshold=0.0)}
        if kind.endswith("model"):
            warm = None if kind == "model" else 0.0
            options = {"draft": pair.draft_model(), "draft_temperature": warm}
        gamma = (1, 3, "auto")[seed % 3]
        found = [
            sampler.draw(
                pair.toy.model(),
                keyed(pair.toy, fold=2) if is_masked else None,
                [0, 1, 2, 0, 0],
                n=2,
                rng=np.random.default_rng(0),
                max_new_tokens=pair.limit,
            )
            for sampler in (
                SpeculativeSampler(greedy=True, gamma=gamma, **options),
                GreedySampler(),
            )
        ]
        ours, plain = (
            [(s.token_ids, s.finish_reason, s.logprob, s.log_weight) for s in part]
            for part in found
        )
        assert ours == plain
        compared += 1
    assert compared == 60
