"""Length limits: the end event alone at the limit, texts that were cut, the model's context."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import ContextLengthError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.sampling import sample as draw_many
from cdec.samplers.scoring.score import Scorer
from tests.laws.gtest import g_test
from tests.laws.toys import Toy, toy_b, toy_set
from tests.samplers.enumeration import disc, log_prob, masked
from tests.samplers.made import made


def test_at_the_limit_only_the_end_event_is_allowed_at_its_real_probability() -> None:
    toy = toy_b()
    exact = masked(toy, limit=2)
    samples = SAMPLERS["masked"](max_walks=1 << 14).draw(
        toy.model(), toy.constraint, "", n=20_000, rng=np.random.default_rng(0), max_new_tokens=2
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    assert g_test(outcomes, exact.law) >= 1e-4
    for sample in samples:
        row = tuple(sample.token_ids)
        if sample.finish_reason == "complete":
            assert sample.log_weight == pytest.approx(math.log(exact.x[row]), abs=1e-12)
        else:
            assert (sample.finish_reason, row, sample.text) == ("length", (1, 0), "ba")
            assert (sample.log_weight, sample.logprob, sample.valid) == (None, None, False)
    # What is bracketed is the mass of members within the limit.
    reachable = sum(math.exp(log_prob(toy, row)) for row in toy.members if len(row) <= 2)
    assert samples[0].diagnostics["log_mass_upper"] == pytest.approx(math.log(reachable))


@pytest.mark.parametrize("recycle", [False, True])
def test_disc_rejects_cut_candidates_as_weight_zero(recycle: bool) -> None:
    toy = toy_b()
    samples = SAMPLERS["disc"](K=2, recycle=recycle).draw(
        toy.model(), toy.constraint, "", n=20_000, rng=np.random.default_rng(1), max_new_tokens=2
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    assert g_test(outcomes, disc(toy, 2, recycle=recycle, limit=2)) >= 1e-4
    cut = next(s for s in samples if s.finish_reason == "length")
    assert (cut.diagnostics["accepted"], cut.log_weight, cut.log_candidate_weight) == (
        False,
        None,
        None,
    )


def test_a_set_of_the_empty_text_allows_no_token() -> None:
    toy = toy_b()
    empty = toy_set([()], toy.vocabulary)
    for name in SAMPLERS:
        sample = made(name, toy.vocabulary).draw(
            toy.model(), empty, "", rng=np.random.default_rng(1)
        )[0]
        assert list(sample.token_ids) == []
        assert sample.finish_reason == ("complete" if sample.logprob is not None else "length")
        assert sample.valid is (sample.finish_reason == "complete")


@pytest.mark.parametrize("limit", [0, -1, 2.5, True])
def test_python_refuses_the_limits_that_the_command_line_refuses(limit: Any) -> None:
    toy = toy_b()
    refused = pytest.raises(UsageError, match="`max_new_tokens` is")
    for name in SAMPLERS:
        with refused:
            made(name, toy.vocabulary).draw(
                toy.model(), toy.constraint, "", rng=np.random.default_rng(1), max_new_tokens=limit
            )
    with refused:
        draw_many(toy.model(), toy.constraint, "", method="masked", max_new_tokens=limit)
    with refused:
        Scorer(toy.model(), max_new_tokens=limit)


def test_the_default_limit_is_the_longest_member() -> None:
    toy = toy_b()
    samples = SAMPLERS["unconstrained"]().draw(
        toy.model(), toy.constraint, "", n=200, rng=np.random.default_rng(1)
    )
    assert max(len(sample.token_ids) for sample in samples) == 3


def context_model(toy: Toy, context_length: int) -> TabularModel:
    """Return the toy's model with a bounded context."""
    model = toy.model()
    model.context_length = context_length
    return model


def test_a_text_never_outgrows_the_models_context() -> None:
    toy = toy_b()
    only_long = toy_set([(0, 1, 2), (2,)], toy.vocabulary)
    for name in SAMPLERS:
        model = context_model(toy, 4)
        samples = made(name, toy.vocabulary).draw(
            model, only_long, [0, 1], n=3, rng=np.random.default_rng(1)
        )
        assert all(len(sample.token_ids) <= 2 for sample in samples)
        assert all((s.finish_reason == "complete") >= bool(s.valid) for s in samples)


def test_a_member_that_fills_the_context_still_takes_its_end_event() -> None:
    toy = toy_b()
    wanted = toy_set([(0, 1), (2,), (2, 0, 1)], toy.vocabulary)
    within = disc(Toy(toy.vocabulary, toy.probabilities, [(0, 1), (2,), (2, 0, 1)]), 2, limit=2)
    samples = SAMPLERS["disc"](K=2, max_walks=1 << 14).draw(
        context_model(toy, 4), wanted, [0, 1], n=10_000, rng=np.random.default_rng(1)
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    assert g_test(outcomes, within) >= 1e-4
    assert (0, 1) in outcomes
    free = SAMPLERS["unconstrained"]().draw(
        context_model(toy, 4), None, [0, 1], n=200, rng=np.random.default_rng(1)
    )
    ends = {(len(s.token_ids), s.finish_reason) for s in free}
    assert ends == {(0, "complete"), (1, "complete"), (2, "complete"), (2, "length")}


def test_a_member_that_ends_itself_may_fill_the_context() -> None:
    toy = toy_b()
    own = toy_set([(0, 1, 2)], toy.vocabulary, ends_itself=True)
    sample = SAMPLERS["masked"]().draw(
        context_model(toy, 5), own, [0, 1], rng=np.random.default_rng(1)
    )[0]
    assert (sample.finish_reason, list(sample.token_ids)) == ("complete", [0, 1, 2])
    cut = SAMPLERS["masked"]().draw(
        context_model(toy, 4), own, [0, 1], rng=np.random.default_rng(1)
    )[0]
    assert (cut.finish_reason, list(cut.token_ids)) == ("length", [0, 1])


def test_context_errors_of_the_model_become_the_records_error() -> None:
    toy = toy_b()

    class Strict(TabularModel):
        def encode_prompt(self, prompt: object) -> list[int]:
            raise ContextLengthError("the prompt has 9 tokens, the context 8")

    model = Strict(toy.probabilities, toy.vocabulary)
    results = SAMPLERS["masked"]().draw_batch(model, [Request("", toy.constraint, [1])])
    assert isinstance(results[0], ContextLengthError)
