"""Drafts at the edges: ids used again in any order, huge numbers, interrupts while prompts open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core.errors import ModelError
from cdec.core.models.tabular import TabularModel
from cdec.core.models.warping import Warping, normalizers
from cdec.samplers.disc import DiscSampler
from cdec.samplers.drafts.ledger import PASSED_OVER, TARGET_CALLS, Ledger
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import Frontier
from tests.samplers.drafts.draft_toys import made_pair, pairs, random_law


def with_parents_above(pair: Any) -> TabularModel:
    """Return a model whose next contexts get ids that fall by thousands, the first one highest."""
    model: TabularModel = pair.toy.model()
    low = model.prefill([[1]])
    wide = model.prefill([[2]])
    while len(wide) < 8000:
        wide = model.advance(np.repeat(wide, 4), np.tile(np.arange(4), len(wide)))
    high = model.prefill([[3]])
    model.release(low)
    model.release(high)
    return model


def test_accounts_make_room_for_parents_of_larger_ids() -> None:
    model = with_parents_above(pairs()["free"])
    with Batch(model, [Request([0], None, [1], max_new_tokens=4)]) as batch:
        walks = Frontier.at_start(batch, np.zeros(1, np.int64), np.zeros(1, np.int64))
        last = walks.advance(np.arange(1), np.array([0]), np.zeros(1))
        assert last.context[0] + 1000 < walks.context[0]
        ledger = Ledger(batch)
        ledger.evaluate([last])
        assert ledger.totals(TARGET_CALLS).tolist() == [1]
        assert ledger.totals(PASSED_OVER).tolist() == [1]


def test_drafts_follow_models_whose_ids_fall() -> None:
    pair = pairs()["set"]
    expected = _tokens(pair, pair.toy.model(), pair.draft_model())
    assert _tokens(pair, with_parents_above(pair), pair.draft_model()) == expected


def _tokens(pair: Any, target: TabularModel, draft: TabularModel) -> list[Any]:
    request = Request([0], pair.constraint, range(20), max_new_tokens=pair.limit)
    found = SpeculativeSampler(draft=draft).draw_batch(target, [request])[0]
    assert isinstance(found, list)
    return [sample.token_ids for sample in found]


@pytest.mark.parametrize("make", [SpeculativeSampler, DiscSampler])
def test_a_gamma_of_any_size_is_as_long_as_texts_can_be(make: Any) -> None:
    pair = made_pair(random_law(1, 0.1), random_law(2, 0.2))
    huge, long = (
        make(draft=pair.draft_model(), gamma=gamma).draw(
            pair.toy.model(), pair.constraint, "", n=3, rng=np.random.default_rng(0)
        )
        for gamma in (2**31 - 1, 50)
    )
    assert [s.to_json() for s in huge] == [s.to_json() for s in long]


def test_an_interrupt_while_prompts_open_one_by_one_releases_them() -> None:
    class Interrupting(TabularModel):
        opened = 0

        def prefill(self, prompts: Any, warping: Any = None, begun: Any = None) -> Any:
            if len(prompts) > 1:
                raise ModelError("one prompt at a time")
            self.opened += 1
            if self.opened == 3:
                raise KeyboardInterrupt
            return super().prefill(prompts, warping, begun)

    pair = pairs()["free"]
    model = Interrupting(pair.toy.probabilities, pair.toy.vocabulary)
    with pytest.raises(KeyboardInterrupt):
        Batch(model, [Request([0], None, [1], max_new_tokens=2) for _ in range(4)])
    assert model.tree.live == 0


@pytest.mark.parametrize("temperature", [1e-9, 1e-320])
def test_the_coldest_temperature_leaves_the_best_tokens(temperature: float) -> None:
    scores = np.array([[1.0, 3.0, 3.0, -np.inf], [-1e30, -2e30, -3e30, -4e30]])
    warped = Warping(temperature).apply(scores.copy())
    law = np.exp(warped - normalizers(warped)[:, None])
    assert law.tolist() == [[0, 0.5, 0.5, 0], [1, 0, 0, 0]]
