"""Counts and a draft model together: the target's law, and who proposed what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core.errors import UsageError
from cdec.samplers import SAMPLERS
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.registry import METHODS
from tests.laws.gtest import g_test
from tests.samplers.drafts.draft_laws import Rounds
from tests.samplers.drafts.draft_toys import Pair, pairs
from tests.samplers.keyed import bare, keyed, learnt

PAIR = pairs()["set"]
JOINT = [name for name, method in METHODS.items() if method.option("counts") is not None]


def drawn(method: str, n: int, *, pair: Pair = PAIR, seed: int = 0, **options: Any) -> list[Any]:
    """Draw from a target whose states share keys by twos, so that counts are sure at some."""
    return SAMPLERS[method](**options).draw(
        pair.toy.model(), keyed(pair.toy, fold=2), "", n=n, rng=np.random.default_rng(seed)
    )


def total(samples: list[Any], name: str) -> int:
    return sum(sample.diagnostics[name] for sample in samples)


def joint(**more: Any) -> dict[str, Any]:
    return {"draft": PAIR.draft_model(), "counts": Counts(threshold=0.5), "gamma": 3} | more


@pytest.mark.share(1)
@pytest.mark.parametrize("gamma", [1, 3])
def test_draws_follow_the_masked_target_while_counts_learn(gamma: int) -> None:
    rows = []
    samples = drawn("speculative", 4000, max_walks=100, **joint(gamma=gamma))
    rows = [(tuple(sample.token_ids), sample.finish_reason) for sample in samples]
    assert g_test(rows, Rounds(PAIR, lambda prefix: None).law()) >= 1e-4
    assert total(samples, "counted_proposals") > 100
    # Draws share the calls of the model; there are few prefixes at which counts are not sure.
    assert total(samples, "draft_calls") > 2
    rates = [rate for s in samples if (rate := s.diagnostics["acceptance_rate"]) is not None]
    assert 0 < np.mean(rates) < 1


@pytest.mark.parametrize("more", [{"draft_temperature": 0.0}, {"gamma": "auto"}])
@pytest.mark.parametrize("name", JOINT)
def test_guesses_of_both_change_no_text(name: str, more: dict[str, Any]) -> None:
    """A greedy draft only guesses, as counts do: then texts are those without a draft."""
    options = joint(**more)
    # Draws of one batch that go together hear nothing of each other: the second batch does.
    samples = [sample for _ in range(2) for sample in drawn(name, 60, **options)]
    method, own = ("masked", {}) if name == "speculative" else (name, {})
    plain = 2 * drawn(method, 60, **own)
    ours, theirs = (
        [(s.token_ids, s.finish_reason, s.logprob, s.log_weight) for s in part]
        for part in (samples, plain)
    )
    assert ours == theirs
    # By the clock nothing may pay, and then nobody is asked.
    assert total(samples, "counted_proposals") > 0 or "gamma" in more


def test_where_counts_say_nothing_the_model_proposes_all() -> None:
    alone = drawn("speculative", 50, **joint(counts=None))
    silent = drawn("speculative", 50, **joint(counts=Counts(threshold=2.0), freeze_counts=True))
    assert total(silent, "counted_proposals") == 0
    assert all("counted_proposals" not in sample.diagnostics for sample in alone)
    assert [bare(sample) for sample in alone] == [
        {**bare(sample), "diagnostics": without_counted(sample)} for sample in silent
    ]
    assert total(alone, "draft_calls") == total(silent, "draft_calls") > 0


def without_counted(sample: Any) -> Any:
    found = bare(sample)["diagnostics"]
    del found["counted_proposals"]
    return found


def test_where_counts_are_always_sure_the_model_is_asked_for_ends_alone() -> None:
    """Counts guess no end."""
    counts = learnt(PAIR.toy, keyed(PAIR.toy, fold=2))
    options = joint(counts=counts, count_threshold=0.0, freeze_counts=True)
    samples = drawn("speculative", 50, **options)
    alone = drawn("speculative", 50, **joint(counts=None))
    assert total(samples, "draft_calls") < total(alone, "draft_calls") / 2
    assert total(samples, "counted_proposals") >= 50


def test_the_ratio_rule_is_refused_beside_counts() -> None:
    with pytest.raises(UsageError, match="`ratio` and `counts`"):
        SAMPLERS["speculative"](**joint(ratio=True))
