"""Mentored decoding at the edges of its budget: infinite ones, drafts with zeros, length limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.request import Request
from tests.samplers.device_tables import table
from tests.samplers.drafts.draft_toys import MEMBERS, WIDTH, Pair, made_pair, random_law

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
    for divergence in (0.1, 0.5, 2.0):
        found = records(pair, 1, device, divergence=divergence, gamma=1)
        # KL(target || draft) is infinite: the position spends all that it may.
        assert found[0]["kl_spent"] == pytest.approx(divergence, rel=1e-9)


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
