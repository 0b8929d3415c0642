"""Aligned samplers with a draft: the law of ``disc`` and ``exact`` is what it is without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.samplers.disc import DiscSampler
from cdec.samplers.exact import ExactSampler
from tests.samplers.drafts.draft_laws import drawn, hasten, p_value
from tests.samplers.drafts.draft_toys import Pair, pairs
from tests.samplers.enumeration import disc, target

PAIRS = pairs()
DRAWS = 25_000
CASES = ["set, dense", "set that ends texts", "set, short limit"]


def rows(outcomes: list[Any]) -> list[Any]:
    """Return the rows of complete texts, None for others."""
    return [row if reason == "complete" else None for row, reason in outcomes]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{"gamma": 2}, {"gamma": "auto", "draft_temperature": 2.0}])
def test_disc_with_a_draft_follows_its_law(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    hasten(monkeypatch, 21)
    sampler = DiscSampler(K=3, draft=pair.draft_model(), max_walks=1 << 17, **options)
    outcomes = rows(drawn(sampler, pair, DRAWS).outcomes)
    assert p_value(outcomes, disc(pair.toy, 3, limit=pair.limit)) >= 1e-4


@pytest.mark.parametrize("name", ["set, dense", "set that ends texts"])
def test_exact_with_a_draft_draws_from_the_target(name: str) -> None:
    pair = PAIRS[name]
    found = []
    for seed in range(40):
        sampler = ExactSampler(draft=pair.draft_model(), gamma=2)
        found += rows(drawn(sampler, pair, 25, seed=seed).outcomes)
    law = {row: q for row, q in target(pair.toy).items() if q > 0}
    assert p_value(found, law) >= 1e-4


@pytest.mark.parametrize("kind", ["greedy model", "prompt-lookup"])
def test_guesses_change_no_text_of_disc(kind: str) -> None:
    pair: Pair = PAIRS["set, dense"]
    options: dict[str, Any] = {"draft": kind}
    if kind == "greedy model":
        options = {"draft": pair.draft_model(), "draft_temperature": 0.0}
    ours = drawn(DiscSampler(K=3, gamma=2, **options), pair, 1000, prompt=[0, 1, 2, 0])
    plain = drawn(DiscSampler(K=3), pair, 1000, prompt=[0, 1, 2, 0])
    assert ours.outcomes == plain.outcomes
    assert np.array_equal(ours.log_weight, plain.log_weight, equal_nan=True)
