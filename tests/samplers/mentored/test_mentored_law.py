"""The law of mentored, its budgets and rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import UsageError
from cdec.samplers.mentored import solve_rows, values
from cdec.samplers.mentored_decoding import MentoredSampler, mentored_distribution
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from tests.samplers.device_tables import table
from tests.samplers.drafts.draft_laws import (
    DRAWS,
    Rounds,
    divergence,
    drawn,
    mentored,
    p_value,
)
from tests.samplers.drafts.draft_toys import (
    MEMBERS,
    WIDTH,
    Pair,
    made_pair,
    pairs,
    random_law,
    warped,
)
from tests.samplers.mentored.mentored_checks import DRAFT, LIMITS, TARGET, Law, kl, wide_pairs
from tests.samplers.mentored.mentored_checks import random_law as random_rows

# --- Mentored decoding draws from pi where it drafts and from the masked target where it does
# not.

PAIRS = pairs()
WIDE = 1 << 17
INF = math.inf
FEWER = 10_000


def model_sampler(pair: Pair, **options: Any) -> MentoredSampler:
    return MentoredSampler(draft=pair.draft_model(), max_walks=WIDE, **options)


@pytest.mark.share(3)
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
    name: str, gamma: int | str, nats: float, n: int
) -> None:
    pair = PAIRS[name]
    draws = drawn(model_sampler(pair, gamma=gamma, divergence=nats), pair, n)
    # With each text, what was drafted on the way: it shows in the weight and in what was spent.
    law = Rounds(pair, pair.draft_law, gamma, nats).joint_law()
    assert p_value(draws.joint(), law) >= 1e-4
    if not name.endswith("no common event"):
        assert p_value(draws.outcomes, Rounds(pair, lambda prefix: None).law()) < 1e-4


@pytest.mark.share(1)
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
    draft_temperature: float | None, top_k: int | None
) -> None:
    pair = PAIRS["set"]
    target = warped(pair.toy.probabilities, 0.7, top_k)
    draft = warped(pair.draft, 0.7, top_k)
    if draft_temperature is not None:
        draft = warped(pair.draft, draft_temperature)
    expected = made_pair(target, draft)
    draws = drawn(
        model_sampler(pair, gamma=2, divergence=0.2, draft_temperature=draft_temperature),
        pair,
        FEWER,
        model=pair.toy.model().with_warping(temperature=0.7, top_k=top_k),
    )
    law = Rounds(expected, expected.draft_law, 2, 0.2).joint_law()
    assert p_value(draws.joint(), law) >= 1e-4


@pytest.mark.share(1)
@pytest.mark.parametrize("total", [0.15, 0.8])
@pytest.mark.parametrize("name", ["free", "set, other support"])
def test_a_budget_of_the_text_is_spent_position_by_position(name: str, total: float) -> None:
    pair = PAIRS[name]
    draws = drawn(model_sampler(pair, gamma=2, divergence_total=total), pair, FEWER)
    rounds = Rounds(pair, pair.draft_law, 2, total=total)
    assert p_value(draws.joint(), rounds.joint_law()) >= 1e-4
    assert relative_entropy(pair, rounds) <= total + 1e-9


@pytest.mark.share(6)
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


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [name for name in PAIRS if name.startswith("set")])
def test_no_limit_never_leaves_the_set_or_the_targets_support(name: str) -> None:
    pair = PAIRS[name]
    draws = drawn(model_sampler(pair, gamma=3, divergence=INF), pair, 5000)
    possible = Rounds(pair, lambda prefix: None).law()
    assert set(draws.outcomes) <= set(possible)
    assert {row for row, reason in draws.outcomes if reason == "complete"} <= set(pair.toy.members)


def relative_entropy(pair: Pair, rounds: Rounds) -> float:
    """Return KL of the masked target's texts to the law's."""
    return divergence(Rounds(pair, lambda prefix: None).law(), rounds.law())


@pytest.mark.share(3)
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


# --- Mentored decoding at the edges of its budget: infinite ones, drafts with zeros, length
# limits.

DEVICES = ["cpu", "torch:cpu"]


def sparse_pair(**options: Any) -> Pair:
    """Return a pair whose draft has no mass for half of what the target may draw."""
    return made_pair(random_law(1, 0.0), random_law(2, 0.5), **options)


def records(pair: Pair, draws: int, device: str = "cpu", **options: Any) -> list[Any]:
    """Return the records of some draws from a pair."""
    target = table(pair.toy.probabilities, pair.toy.vocabulary, device)
    draft = table(pair.draft, pair.toy.vocabulary, device)
    request = Request([0], pair.constraint, range(draws), max_new_tokens=pair.limit)
    found = MentoredSampler(draft=draft, **options).draw_batch(target, [request])[0]
    assert isinstance(found, list)
    return [sample.to_json() for sample in found]


@pytest.mark.parametrize("device", DEVICES)
def test_an_infinite_budget_of_a_text_is_one_of_every_token(device: str) -> None:
    pair = sparse_pair(is_masked=False, limit=4)
    each, whole = (
        records(pair, 200, device, **{name: math.inf})
        for name in ("divergence", "divergence_total")
    )
    assert [r["token_ids"] for r in whole] == [r["token_ids"] for r in each]
    assert {r["acceptance_rate"] for r in whole} <= {1.0, None}


@pytest.mark.parametrize("name", ["divergence", "divergence_total"])
def test_a_law_that_leaves_texts_out_estimates_no_mass(name: str) -> None:
    pair = sparse_pair()
    assert records(pair, 3, **{name: math.inf})[0]["log_mass"] is None
    assert records(pair, 3, **{name: 0.5})[0]["log_mass"] is not None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("missing", [1e-3, 1e-5])
def test_what_is_spent_is_by_definition_where_the_draft_lacks_an_event(
    device: str, missing: float
) -> None:
    target, draft = np.zeros(WIDTH), np.zeros(WIDTH)
    target[[0, 1, 2]], draft[[0, 1]] = (0.6 - missing, 0.4, missing), 0.5
    pair = made_pair(lambda prefix: target, lambda prefix: draft, is_masked=False, limit=1)
    for budget in (0.1, 0.5, 2.0):
        found = records(pair, 1, device, divergence=budget, gamma=1)
        # KL(target || draft) is infinite: the position spends all that it may.
        assert found[0]["kl_spent"] == pytest.approx(budget, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"divergence": 0.5}, {"divergence_total": 0.5}])
def test_the_mass_beyond_the_limit_is_the_targets(options: dict[str, float]) -> None:
    pair = made_pair(random_law(11, 0.0), random_law(201, 0.0), limit=2)
    within, beyond = _masses(pair)
    found = records(pair, 20_000, **options)[0]
    assert math.exp(found["log_mass"]) == pytest.approx(within, rel=0.1)
    assert found["length_mass_upper"] == pytest.approx(beyond / (within + beyond), rel=0.2)


def _masses(pair: Pair) -> tuple[float, float]:
    """Return the probability of members within two tokens, and of going on from there."""

    def probability(tokens: tuple[int, ...]) -> float:
        steps = (pair.toy.probabilities(tokens[:i])[token] for i, token in enumerate(tokens))
        return math.prod(float(step) for step in steps)

    ends = list(pair.toy.vocabulary.eos_token_ids)
    within = sum(
        probability(m) * float(pair.toy.probabilities(m)[ends].sum())
        for m in pair.toy.members
        if len(m) <= 2
    )
    beyond = 0.0
    for head in {m[:2] for m in pair.toy.members if len(m) > 2}:
        law, following = (
            pair.toy.probabilities(head),
            {m[2] for m in MEMBERS if m[:2] == head and len(m) > 2},
        )
        share = sum(float(law[token]) for token in following) if head in pair.toy.members else 1.0
        beyond += probability(head) * share
    return within, beyond


# --- The mentored solver's public surface: rows, tensors, devices, and what is refused.


def test_rows_on_a_device_agree_with_the_kernel() -> None:
    generator = np.random.default_rng(3)
    for n in (1, 2, 6, 50, 1300):
        p = np.stack([random_rows(generator, n) for _ in LIMITS])
        q = np.stack([random_rows(generator, n) for _ in LIMITS])
        rows = torch.from_numpy(p), torch.from_numpy(q)
        alpha, beta, spent = solve_rows(*rows, torch.tensor(LIMITS, dtype=torch.float64))
        pi = values(*rows, alpha, beta).numpy()
        expected = mentored_distribution(p, q, np.array(LIMITS))
        assert pi == pytest.approx(expected, abs=1e-9)
        assert (spent.numpy() <= LIMITS).all()
        assert all(kl(q[row], pi[row]) <= limit for row, limit in enumerate(LIMITS))


@pytest.mark.share(1)
@pytest.mark.parametrize("name", list(wide_pairs()))
def test_wide_rows_on_a_device_agree_with_the_kernel(name: str) -> None:
    p, q = wide_pairs()[name]
    limits = np.array([1e-9, 1e-4, 0.1])
    rows = torch.from_numpy(np.stack([p] * 3)), torch.from_numpy(np.stack([q] * 3))
    alpha, beta, spent = solve_rows(*rows, torch.from_numpy(limits))
    expected = mentored_distribution(rows[0].numpy(), rows[1].numpy(), limits)
    assert values(*rows, alpha, beta).numpy() == pytest.approx(expected, abs=1e-9)
    assert (spent.numpy() <= limits).all()


def test_divergences_broadcast_over_positions() -> None:
    generator = np.random.default_rng(4)
    p, q = generator.dirichlet(np.ones(6), size=(2, 3)), generator.dirichlet(np.ones(6), (2, 3))
    limits = np.array([0.0, 0.05, math.inf])
    found = mentored_distribution(p, q, limits)
    assert found.shape == p.shape
    for i in range(2):
        for j in range(3):
            alone = mentored_distribution(p[i, j], q[i, j], limits[j])
            assert (found[i, j] == alone).all()
    assert (mentored_distribution(p, q, limits[:2, None]) >= 0).all()


def test_tensors_give_a_tensor_of_the_same_law() -> None:
    p, q = torch.tensor(DRAFT, dtype=torch.float32), torch.tensor(TARGET, dtype=torch.float32)
    pi = mentored_distribution(p, q, torch.tensor(0.1))
    assert isinstance(pi, torch.Tensor)
    assert pi.dtype == torch.float64
    assert pi.numpy() == pytest.approx(mentored_distribution(DRAFT, TARGET, 0.1), abs=1e-6)


def test_rows_of_single_precision_are_normalised() -> None:
    generator = np.random.default_rng(6)
    p, q = (generator.dirichlet(np.ones(5000)).astype(np.float32) for _ in range(2))
    pi = mentored_distribution(p, q, 0.01)
    exact = q.astype(np.float64) / q.sum(dtype=np.float64)
    assert pi.sum() == pytest.approx(1.0, abs=1e-12)
    assert kl(exact, pi) <= 0.01


@pytest.mark.parametrize("limit", [-0.1, math.nan, "much", np.zeros(3)])
def test_a_divergence_that_is_none_is_refused(limit: object) -> None:
    with pytest.raises(UsageError, match="divergence"):
        mentored_distribution(np.stack([DRAFT] * 2), np.stack([TARGET] * 2), limit)


@pytest.mark.parametrize(
    "draft",
    [
        DRAFT[:4],
        np.zeros(0),
        np.float64(1.0),
        DRAFT * 1.001,
        DRAFT - np.array([0.2, 0, -0.2, 0.15, -0.15]),
        np.array([np.nan, 0.5, 0.2, 0.2, 0.1]),
        np.log(DRAFT),
    ],
)
def test_a_draft_that_is_no_law_is_refused(draft: Law) -> None:
    with pytest.raises(UsageError):
        mentored_distribution(draft, TARGET, 0.1)
    with pytest.raises(UsageError):
        mentored_distribution(TARGET, draft, 0.1)


def test_an_array_beside_a_tensor_is_refused() -> None:
    with pytest.raises(UsageError, match="two kinds"):
        mentored_distribution(DRAFT, torch.from_numpy(TARGET), 0.1)
