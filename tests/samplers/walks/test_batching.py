"""Batches of walks and their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.core.constraint import Session
from cdec.core.errors import CdecError, ContextLengthError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import disc, log_prob, masked
from cdec.samplers import SAMPLERS
from cdec.samplers.base import Sampler
from cdec.samplers.request import Request
from cdec.samplers.sampling import sample as draw_many
from cdec.samplers.scoring.score import Scorer
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy, random_toy, toy_b, toy_set
from tests.samplers.made import NEEDS_DRAFT, flat_draft, made

# --- Nothing depends on what decodes together: batches, chunks, other draws, mixed constraints.

VARIANTS = {
    "unconstrained": {},
    "greedy": {},
    "masked": {},
    "masked top-m": {"top_m": 2},
    "beam": {"beams": 6},
    "disc": {"K": 3},
    "disc recycle": {"K": 3, "recycle": True},
    "disc top-m": {"K": 2, "top_m": 2},
    "disc beams": {"K": 2, "beams": 2},
}


def make(variant: str, **more: int) -> Sampler:
    """Return the sampler of a variant."""
    return SAMPLERS[variant.split()[0]](**VARIANTS[variant], **more)


def records(results: list[list[Sample] | CdecError]) -> list[list[dict[str, object]]]:
    """Return samples as JSON objects; an error fails the test."""
    return [[sample.to_json() for sample in samples] for samples in results]


def same_model_toys() -> tuple[TabularModel, list[Toy]]:
    """Return a model and sets over its vocabulary."""
    toy = random_toy(8)
    others = [[(0,), (1, 2)], [(3, 3, 3), (2,), (2, 0)]]
    toys = [toy, *(Toy(toy.vocabulary, toy.probabilities, rows) for rows in others)]
    return toy.model(), toys


@pytest.mark.parametrize("variant", VARIANTS)
def test_mixed_batch_gives_what_single_requests_give(variant: str) -> None:
    model, toys = same_model_toys()
    constraints = [toys[0].constraint, None, toys[1].constraint, toys[2].constraint, None]
    requests = [
        Request([i] * i, constraint, seeds=range(10 * i, 10 * i + 4), id=i)
        for i, constraint in enumerate(constraints)
    ]
    together = records(make(variant).draw_batch(model, requests))
    alone = [records(make(variant).draw_batch(model, [request]))[0] for request in requests]
    assert together == alone


@pytest.mark.share(2)
@pytest.mark.parametrize("variant", [v for v in VARIANTS if not v.startswith("beam")])
def test_chunks_change_nothing(variant: str) -> None:
    toy = random_toy(3)
    request = Request("", toy.constraint, seeds=range(30))
    whole = records(make(variant).draw_batch(toy.model(), [request]))
    for max_walks in (1, 7):
        parts = make(variant, max_walks=max_walks).draw_batch(toy.model(), [request])
        assert records(parts) == whole


@pytest.mark.parametrize("variant", ["unconstrained", "masked", "disc", "disc recycle"])
def test_a_seed_gives_the_same_text_whatever_the_other_draws(variant: str) -> None:
    toy = toy_b()
    requests = [Request("", toy.constraint, seeds=range(20)), Request("", toy.constraint, [13, 7])]
    many, few = make(variant).draw_batch(toy.model(), requests)
    assert [s.token_ids for s in few] == [many[13].token_ids, many[7].token_ids]
    assert [s.log_weight for s in few] == [many[13].log_weight, many[7].log_weight]


def test_the_first_candidates_of_more_tries_are_those_of_fewer() -> None:
    toy = toy_b()
    request = Request("", toy.constraint, seeds=range(200))
    few = SAMPLERS["disc"](K=2).draw_batch(toy.model(), [request])[0]
    many = SAMPLERS["disc"](K=8).draw_batch(toy.model(), [request])[0]
    accepted = [(a, b) for a, b in zip(few, many, strict=True) if a.diagnostics["accepted"]]
    assert accepted
    for a, b in accepted:
        assert (a.token_ids, a.diagnostics["draws"]) == (b.token_ids, b.diagnostics["draws"])


def test_equal_prefixes_are_evaluated_once_and_the_counters_say_so() -> None:
    toy = toy_b()
    asked: list[Row] = []

    def probabilities(prefix: Row) -> np.ndarray:
        asked.append(prefix)
        return toy.probabilities(prefix)

    model = TabularModel(probabilities, toy.vocabulary)
    prompt = [1, 2, 0]
    for name in SAMPLERS:
        asked.clear()
        samples = made(name, toy.vocabulary).draw(
            model, toy.constraint, prompt, n=5, rng=np.random.default_rng(0)
        )
        assert len(asked) == len(set(asked))
        assert sum(s.diagnostics["distinct_evaluations"] for s in samples) == len(asked)
        if name in (*NEEDS_DRAFT, "cdlh"):
            continue  # Their calls are counted in their own tests.
        tokens = sum(s.diagnostics["target_tokens"] for s in samples)
        assert tokens == len(asked) - 1 + len(prompt)
        if name == "topn":
            # A call reads a prefix together with a member that begins so.
            assert sum(s.diagnostics["target_calls"] for s in samples) < len(asked)
            continue
        # A forced prefix shares the call of the one before, where masks lead single walks.
        ahead = ("greedy", "masked", "disc", "asap", "exact", "mcmc")
        forced = {(2, 1), (1, 0), (1, 0, 2)} if name in ahead else set()
        calls = len([prefix for prefix in asked if prefix not in forced])
        assert sum(s.diagnostics["target_calls"] for s in samples) == calls


def test_contexts_are_released() -> None:
    toy = toy_b()
    model = toy.model()
    for name in SAMPLERS:
        draft = flat_draft(toy.vocabulary)
        made(name, toy.vocabulary, draft=draft).draw(
            model, toy.constraint, "", n=3, rng=np.random.default_rng(0)
        )
        assert draft._tree.live == 0
    assert model._tree.live == 0


def test_a_bad_record_leaves_the_others_alone() -> None:
    toy = toy_b()
    other = Vocabulary([b"x", b"y", b"z", b""], eos_token_ids=[3])
    requests = [
        Request("", toy.constraint, [1, 2], id="good"),
        Request([99], toy.constraint, [1], id="bad prompt"),
        Request("", toy_set([(0,)], other), [1], id="other vocabulary"),
        Request("", toy.constraint, [1], id="bad limit", max_new_tokens=-1),
        Request([0], toy.constraint, [3], id="good too"),
    ]
    model = toy.model()
    results = SAMPLERS["disc"]().draw_batch(model, requests)
    kinds = [type(result).__name__ for result in results]
    assert kinds == ["list", "FieldError", "TokenizerMismatchError", "UsageError", "list"]
    alone = SAMPLERS["disc"]().draw_batch(model, [requests[0]])
    assert records([results[0]]) == records(alone)
    assert model._tree.live == 0


def test_an_error_while_decoding_is_charged_to_its_record() -> None:
    toy = toy_b()
    good, bad = toy_set([(0,), (1, 0, 2)], toy.vocabulary), toy_set([(2, 2, 2)], toy.vocabulary)

    def probabilities(prefix: Row) -> np.ndarray:
        # Not a distribution after (2, 2): the model refuses it.
        return np.ones(4) if prefix == (2, 2) else toy.probabilities(prefix)

    model = TabularModel(probabilities, toy.vocabulary)
    requests = [Request("", good, [1, 2]), Request("", bad, [3]), Request("", good, [4])]
    results = SAMPLERS["masked"]().draw_batch(model, requests)
    assert isinstance(results[1], UsageError)
    assert records([results[0], results[2]]) == records(
        SAMPLERS["masked"]().draw_batch(model, [requests[0], requests[2]])
    )


def test_draw_raises_the_error_of_its_record() -> None:
    toy = toy_b()
    other = Vocabulary([b"x", b"y", b"z", b""], eos_token_ids=[3])
    with pytest.raises(TokenizerMismatchError):
        SAMPLERS["masked"]().draw(
            toy.model(), toy_set([(0,)], other), "", rng=np.random.default_rng(0)
        )


def test_input_ids_and_indices_are_passed_through() -> None:
    toy = toy_b()
    request = Request(
        "", toy.constraint, [5, 6], id="q17", indices=[4, 9], input={"query": "where?"}
    )
    samples = SAMPLERS["masked"]().draw_batch(toy.model(), [request])[0]
    assert [(s.id, s.index, s.seed, s.input) for s in samples] == [
        ("q17", 4, 5, {"query": "where?"}),
        ("q17", 9, 6, {"query": "where?"}),
    ]


def test_an_empty_batch_and_a_request_without_draws_give_nothing() -> None:
    toy = toy_b()
    for name in SAMPLERS:
        assert made(name, toy.vocabulary).draw_batch(toy.model(), []) == []
        requests = [Request("", toy.constraint, []), Request("", toy.constraint, [1])]
        results = made(name, toy.vocabulary).draw_batch(toy.model(), requests)
        assert [len(result) for result in results] == [0, 1]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("disc", {"K": 0}),
        ("disc", {"K": 2.5}),
        ("disc", {"top_m": 0}),
        ("disc", {"beams": 0}),
        ("masked", {"top_m": -1}),
        ("masked", {"max_walks": 0}),
        ("beam", {"beams": 0}),
        ("beam", {"length_penalty": -11.0}),
        ("beam", {"length_penalty": float("nan")}),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        SAMPLERS[name](**options)
    assert next(iter(options)) in caught.value.message


def test_draw_refuses_less_than_one_draw() -> None:
    toy = toy_b()
    with pytest.raises(UsageError):
        SAMPLERS["masked"]().draw(
            toy.model(), toy.constraint, "", n=0, rng=np.random.default_rng(0)
        )


def test_a_constraint_that_cannot_be_opened_never_lends_its_place_to_another() -> None:
    class Broken(SetConstraint):
        def session(self, device: str = "cpu") -> Session:
            raise UsageError("no session")

    toy = toy_b()
    whole = toy.constraint
    broken = Broken(whole.rows)
    requests = [Request("", constraint, [1, 2]) for constraint in (broken, broken, whole)]
    first, second, third = SAMPLERS["masked"]().draw_batch(toy.model(), requests)
    assert isinstance(first, UsageError) and isinstance(second, UsageError)
    assert not isinstance(third, CdecError) and all(sample.valid for sample in third)


# --- Length limits: the end event alone at the limit, texts that were cut, the model's context.


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
