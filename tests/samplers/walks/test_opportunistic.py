"""Opportunistic masking: the masked law and the greedy texts, with fewer masks and no weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sets.session import SetSession
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from tests.laws.gtest import g_test
from tests.laws.toys import Toy, random_toy, toy_a, toy_b
from tests.samplers.enumeration import masked, mass


@pytest.mark.parametrize(
    "make", [toy_a, toy_b, lambda: random_toy(4, ends_itself=True), lambda: random_toy(7)]
)
def test_draws_follow_the_masked_law(make: Callable[[], Toy]) -> None:
    toy = make()
    samples = MaskedSampler(opportunistic=True, max_walks=1 << 14).draw(
        toy.model(), toy.constraint, "", n=30_000, rng=np.random.default_rng(5)
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    assert g_test(outcomes, masked(toy).law) >= 1e-4


def test_a_draw_is_the_models_own_where_it_is_allowed_all_the_way() -> None:
    toy = toy_a()
    from cdec.samplers.unconstrained import UnconstrainedSampler

    free = UnconstrainedSampler().draw(
        toy.model(), toy.constraint, "", n=200, rng=np.random.default_rng(1)
    )
    ours = MaskedSampler(opportunistic=True).draw(
        toy.model(), toy.constraint, "", n=200, rng=np.random.default_rng(1)
    )
    members = [(a, b) for a, b in zip(free, ours, strict=True) if a.valid]
    assert len(members) > 20
    assert all(a.token_ids == b.token_ids for a, b in members)


@pytest.mark.parametrize("seed", range(12))
def test_greedy_texts_are_the_same(seed: int) -> None:
    toy = random_toy(seed, ends_itself=seed % 3 == 0)
    plain, quick = (
        GreedySampler(opportunistic=flag).draw(
            toy.model(), toy.constraint, "", rng=np.random.default_rng(0)
        )[0]
        for flag in (False, True)
    )
    assert quick.token_ids == plain.token_ids
    assert (quick.logprob, quick.finish_reason) == (plain.logprob, plain.finish_reason)
    assert quick.log_candidate_weight is None


def test_weights_and_estimates_are_null_and_bounds_stay_certified() -> None:
    toy = toy_b()
    samples = MaskedSampler(opportunistic=True).draw(
        toy.model(), toy.constraint, "", n=300, rng=np.random.default_rng(2)
    )
    fields = samples[0].diagnostics
    assert {(s.log_weight, s.log_candidate_weight) for s in samples} == {(None, None)}
    assert (fields["log_mass"], fields["log_mass_se"], fields["ess"]) == (None, None, None)
    assert fields["log_mass_lower"] <= np.log(mass(toy)) + 1e-12
    assert fields["log_mass_upper"] >= np.log(mass(toy)) - 1e-12


def test_masks_are_computed_only_where_a_draw_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    original = SetSession.allowed

    def allowed(self: SetSession, states: Any) -> Any:
        asked.append(len(states))
        return original(self, states)

    monkeypatch.setattr(SetSession, "allowed", allowed)
    toy = toy_a()  # The greedy text 11111 is a member.
    GreedySampler().draw(toy.model(), toy.constraint, "", rng=np.random.default_rng(0))
    assert sum(asked) == 5  # At the length limit only the end is left: nobody is asked.
    asked.clear()
    (sample,) = GreedySampler(opportunistic=True).draw(
        toy.model(), toy.constraint, "", rng=np.random.default_rng(0)
    )
    assert sample.text == "11111"
    assert not asked


def test_length_limits_hold() -> None:
    toy = toy_b()
    for limit in (1, 2):
        samples = MaskedSampler(opportunistic=True).draw(
            toy.model(),
            toy.constraint,
            "",
            n=200,
            rng=np.random.default_rng(0),
            max_new_tokens=limit,
        )
        law = masked(toy, limit).law
        drawn = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
        assert set(drawn) <= set(law)
        assert all(len(s.token_ids) <= limit for s in samples)


def test_it_speculates_too() -> None:
    toy = toy_b()
    drawn = [
        MaskedSampler(opportunistic=True, **options).draw(
            toy.model(), toy.constraint, "", n=100, rng=np.random.default_rng(3)
        )
        for options in ({}, {"draft": "counts", "gamma": 4})
    ]
    assert [s.token_ids for s in drawn[0]] == [s.token_ids for s in drawn[1]]


def test_it_excludes_top_m() -> None:
    with pytest.raises(UsageError, match="top_m"):
        MaskedSampler(top_m=3, opportunistic=True)


class OnDevice(TabularModel):
    """A tabular model whose scores are torch tensors, as on an accelerator."""

    def __init__(self, toy: Toy) -> None:
        super().__init__(toy.probabilities, toy.vocabulary)
        self.device = "torch:cpu"

    def _forward(self, nodes: Any) -> Any:
        return torch.from_numpy(super()._forward(nodes))


@pytest.mark.parametrize("make", [MaskedSampler, GreedySampler])
@pytest.mark.parametrize("seed", range(4))
def test_a_device_draws_what_the_host_draws(make: Any, seed: int) -> None:
    toy = random_toy(seed)
    host, device = (
        make(opportunistic=True).draw(
            model, toy.constraint, "", n=60, rng=np.random.default_rng(seed)
        )
        for model in (toy.model(), OnDevice(toy))
    )
    assert [s.token_ids for s in host] == [s.token_ids for s in device]
    assert [s.logprob for s in host] == pytest.approx([s.logprob for s in device])
