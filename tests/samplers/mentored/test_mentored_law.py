"""Mentored decoding draws from pi where it drafts and from the masked target where it does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.samplers.mentored_decoding import MentoredSampler, mentored_distribution
from cdec.samplers.speculative import SpeculativeSampler
from tests.samplers.drafts.draft_laws import (
    DRAWS,
    Rounds,
    divergence,
    drawn,
    hasten,
    mentored,
    p_value,
)
from tests.samplers.drafts.draft_toys import Pair, made_pair, pairs, warped
from tests.samplers.enumeration import mass
from tests.samplers.raw_means import watched

PAIRS = pairs()
WIDE = 1 << 17
INF = math.inf
FEWER = 25_000


def model_sampler(pair: Pair, **options: Any) -> MentoredSampler:
    return MentoredSampler(draft=pair.draft_model(), max_walks=WIDE, **options)


@pytest.mark.parametrize(
    ("name", "gamma", "nats", "n"),
    [
        ("set", 1, 0.1, DRAWS),
        ("set, dense", "auto", 0.05, FEWER),
        ("free", "auto", 0.1, DRAWS),
        ("set", 3, INF, FEWER),
        ("set that ends texts", 3, 0.3, FEWER),
        ("set, other support", 2, INF, FEWER),
        ("set, short limit", 3, 0.2, FEWER),
        ("free, no common event", 2, 1.0, FEWER),
    ],
)
def test_texts_weights_and_accounts_follow_the_enumerated_law(
    name: str, gamma: int | str, nats: float, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    hasten(monkeypatch, 7)
    draws = drawn(model_sampler(pair, gamma=gamma, divergence=nats), pair, n)
    # With each text, what was drafted on the way: it shows in the weight and in what was spent.
    law = Rounds(pair, pair.draft_law, gamma, nats).joint_law()
    assert p_value(draws.joint(), law) >= 1e-4
    if not name.endswith("no common event"):
        assert p_value(draws.outcomes, Rounds(pair, lambda prefix: None).law()) < 1e-4


@pytest.mark.parametrize("kind", ["model", "greedy model"])
def test_draws_with_a_seed_each_follow_the_law(kind: str) -> None:
    pair = PAIRS["set"]
    warm = 0.0 if kind == "greedy model" else None
    sampler = model_sampler(pair, gamma=2, divergence=0.3, draft_temperature=warm)
    propose = pair.greedy_law if kind == "greedy model" else pair.draft_law
    draws = drawn(sampler, pair, FEWER, seed=3)
    assert p_value(draws.joint(), Rounds(pair, propose, 2, 0.3).joint_law()) >= 1e-4


@pytest.mark.parametrize(
    ("draft_temperature", "top_k"), [(None, None), (2.0, None), (None, 3), (0.5, 3)]
)
def test_the_draft_is_warped_as_the_target_or_by_a_temperature_of_its_own(
    draft_temperature: float | None, top_k: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS["set"]
    hasten(monkeypatch, 10)
    target = warped(pair.toy.probabilities, 0.7, top_k)
    draft = warped(pair.draft, 0.7, top_k)
    if draft_temperature is not None:
        draft = warped(pair.draft, draft_temperature)
    expected = made_pair(target, draft)
    draws = drawn(
        model_sampler(pair, gamma=2, divergence=0.2, draft_temperature=draft_temperature),
        pair,
        25_000,
        model=pair.toy.model().with_warping(temperature=0.7, top_k=top_k),
    )
    law = Rounds(expected, expected.draft_law, 2, 0.2).joint_law()
    assert p_value(draws.joint(), law) >= 1e-4


@pytest.mark.parametrize("total", [0.15, 0.8])
@pytest.mark.parametrize("name", ["free", "set, other support"])
def test_a_budget_of_the_text_is_spent_position_by_position(
    name: str, total: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    hasten(monkeypatch, 8)
    draws = drawn(model_sampler(pair, gamma=2, divergence_total=total), pair, 30_000)
    rounds = Rounds(pair, pair.draft_law, 2, total=total)
    assert p_value(draws.joint(), rounds.joint_law()) >= 1e-4
    assert relative_entropy(pair, rounds) <= total + 1e-9


@pytest.mark.parametrize("name", PAIRS)
def test_no_divergence_draws_what_speculative_draws(name: str) -> None:
    pair = PAIRS[name]
    for options in ({"divergence": 0.0}, {"divergence_total": 0.0}):
        ours = drawn(model_sampler(pair, gamma=3, **options), pair, 500)
        lossless = SpeculativeSampler(draft=pair.draft_model(), gamma=3, max_walks=WIDE)
        plain = drawn(lossless, pair, 500)
        assert ours.outcomes == plain.outcomes
        assert np.array_equal(ours.log_weight, plain.log_weight, equal_nan=True)
        assert ours.fields["acceptance_rate"] == plain.fields["acceptance_rate"]
        assert set(ours.fields["kl_spent"]) == {0.0}


@pytest.mark.parametrize("options", [{"divergence": 0.0}, {"divergence_total": 0.0}])
@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup"])
def test_no_divergence_leaves_guesses_what_they_are(kind: str, options: dict[str, Any]) -> None:
    pair = PAIRS["set"]
    draft: dict[str, Any] = {"draft": kind}
    if kind == "greedy model":
        draft = {"draft": pair.draft_model(), "draft_temperature": 0.0}
    prompt = [0, 1, 0, 2, 0]
    ours = drawn(MentoredSampler(gamma=2, **draft, **options), pair, 500, prompt=prompt)
    plain = drawn(SpeculativeSampler(gamma=2, **draft), pair, 500, prompt=prompt)
    assert ours.outcomes == plain.outcomes


@pytest.mark.parametrize("name", [name for name in PAIRS if name.startswith("set")])
def test_no_limit_never_leaves_the_set_or_the_targets_support(name: str) -> None:
    pair = PAIRS[name]
    draws = drawn(model_sampler(pair, gamma=3, divergence=INF), pair, 5000)
    possible = Rounds(pair, lambda prefix: None).law()
    assert set(draws.outcomes) <= set(possible)
    assert {row for row, reason in draws.outcomes if reason == "complete"} <= set(pair.toy.members)


@pytest.mark.parametrize("nats", [0.05, 1.0])
def test_the_mean_weight_is_the_mass_of_the_set(
    nats: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS["set, dense"]
    hasten(monkeypatch, 9)
    with watched() as estimates:
        draws = drawn(model_sampler(pair, gamma=2, divergence=nats), pair, 20_000)
    weights = np.nan_to_num(np.exp(draws.log_weight))
    assert abs(weights.mean() - mass(pair.toy)) <= 4 * weights.std() / math.sqrt(len(weights))
    assert estimates[0].log_mean == pytest.approx(math.log(weights.mean()), abs=1e-12)


def relative_entropy(pair: Pair, rounds: Rounds) -> float:
    """Return KL of the masked target's texts to the law's."""
    return divergence(Rounds(pair, lambda prefix: None).law(), rounds.law())


@pytest.mark.parametrize("name", PAIRS)
def test_the_divergence_of_texts_is_at_most_what_positions_may_spend(name: str) -> None:
    pair = PAIRS[name]
    plain = Rounds(pair, lambda prefix: None).law()
    events = sum(p * (len(row) + (reason == "complete")) for (row, reason), p in plain.items())
    spent = []
    for nats in (0.01, 0.1, 0.5):
        spent.append(relative_entropy(pair, Rounds(pair, pair.draft_law, 2, nats)))
        assert spent[-1] <= events * nats + 1e-9
    assert spent == sorted(spent)


def test_the_reference_solver_agrees_with_the_public_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        p, q = rng.dirichlet(np.full(6, 0.5), 2)
        p[rng.random(6) < 0.2], q[rng.random(6) < 0.2] = 0.0, 0.0
        if p.sum() == 0 or q.sum() == 0:
            continue
        p, q = p / p.sum(), q / q.sum()
        nats = float(rng.choice([0.01, 0.1, 0.5, 2.0, INF]))
        draft, target = ({i: float(v) for i, v in enumerate(law) if v > 0} for law in (p, q))
        ours = mentored(draft, target, nats)
        found = mentored_distribution(p, q, nats)
        assert found == pytest.approx([ours.get(i, 0.0) for i in range(6)], abs=1e-7)
