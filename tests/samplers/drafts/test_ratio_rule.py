"""The printed ratio rule of speculative: its law by enumeration, and what it refuses."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import UsageError
from cdec.core.sample import Sample
from cdec.samplers.speculative import SpeculativeSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import random_toy, toy_b
from tests.samplers.drafts.draft_laws import RatioRounds, Rounds
from tests.samplers.drafts.draft_toys import Pair

DRAWS = heavy_or(4_000, 20_000)
PAIRS = {
    "b": Pair(toy_b(), lambda prefix: np.array([0.5, 0.3, 0.1, 0.1])),
    "random": Pair(random_toy(8), random_toy(3).probabilities),
    "ends itself": Pair(random_toy(4, ends_itself=True), random_toy(5).probabilities),
    "free": Pair(random_toy(8), random_toy(3).probabilities, is_masked=False, limit=2),
}


def draw(pair: Pair, gamma: int | str, n: int) -> list[Sample]:
    sampler = SpeculativeSampler(
        draft=pair.draft_model(pair.toy.vocabulary.width), gamma=gamma, ratio=True
    )
    rng = np.random.default_rng(n)
    limit = {} if pair.limit is None else {"max_new_tokens": pair.limit}
    return sampler.draw(pair.toy.model(), pair.constraint, "", n=n, rng=rng, **limit)


@pytest.mark.share(6)
@pytest.mark.parametrize("gamma", [1, 2, 4, "auto"])
@pytest.mark.parametrize("name", PAIRS)
def test_texts_have_the_enumerated_law(name: str, gamma: int | str) -> None:
    pair = PAIRS[name]
    law = RatioRounds(pair, pair.draft_law, gamma).law()
    assert math.fsum(law.values()) == pytest.approx(1.0)
    samples = draw(pair, gamma, DRAWS)
    assert g_test([(tuple(s.token_ids), s.finish_reason) for s in samples], law) >= 1e-4


def test_the_rule_is_not_lossless_and_the_plain_one_is() -> None:
    """A token that the draft finds likeliest is written min(1, q / p) of the time, for q."""
    pair = PAIRS["b"]
    masked = Rounds(pair, lambda prefix: None).law()
    plain, ratio = (kind(pair, pair.draft_law, 2).law() for kind in (Rounds, RatioRounds))
    first: dict[str, dict[int | None, float]] = {"q": {}, "ratio": {}}
    for title, law in (("q", masked), ("ratio", ratio)):
        shares: dict[int | None, float] = defaultdict(float)
        for (row, _), share in law.items():
            shares[row[0] if row else None] += share
        first[title] = shares
    q, p = pair.target_law(())[0], pair.draft_law(())
    assert p is not None and first["q"][0] == pytest.approx(q[0])
    assert first["ratio"][0] == pytest.approx(min(1.0, q[0] / p[0]))
    assert sum(abs(plain[k] - masked[k]) for k in masked) / 2 <= 1e-9
    assert sum(abs(ratio.get(k, 0.0) - masked[k]) for k in masked) / 2 > 0.1


def test_weights_and_estimates_are_null_and_bounds_hold() -> None:
    samples = draw(PAIRS["b"], 2, 50)
    for sample in samples:
        fields = sample.diagnostics
        assert (sample.log_weight, sample.log_candidate_weight) == (None, None)
        assert sample.exactness == "biased" and fields["acceptance_rate"] is not None
        assert fields["log_mass"] is fields["ess"] is fields["length_mass_upper"] is None
        assert fields["log_mass_lower"] <= fields["log_mass_upper"]


@pytest.mark.parametrize(
    "options",
    [
        {"draft": "counts"},
        {"draft": "prompt-lookup"},
        {"greedy": True},
        {"draft_temperature": 0.0},
    ],
)
def test_where_there_is_no_ratio_the_rule_is_refused(options: dict[str, Any]) -> None:
    pair = PAIRS["b"]
    with pytest.raises(UsageError, match="`ratio`") as caught:
        SpeculativeSampler(**{"draft": pair.draft_model(), "ratio": True, **options})
    assert caught.value.details["option"] == "ratio"
