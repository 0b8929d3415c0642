"""Lookahead and its records: rewards that fail, options, drafts refused, batches."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cdec.core.errors import CdecError, FieldError, RewardError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.rewards import build_reward
from cdec.samplers.rewards.base import Record
from tests.laws.toys import Row, Toy, random_toy
from tests.samplers.lookahead.lookahead_reference import TextReward, drafts_of, hashed
from tests.samplers.lookahead.test_cdlh import VOCABULARY, counts_of, model_of


def failing(kind: str) -> TextReward:
    """Return a reward that fails on texts of records that ask for it."""

    def score(text: str, record: Record) -> float:
        if record and record.get("fails") and len(text) >= 2:
            if kind == "raises":
                raise ValueError("no such thing")
            return math.nan
        return float(text.count("b"))

    return TextReward(score)


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl"])
@pytest.mark.parametrize("kind", ["raises", "nan"])
def test_a_reward_that_fails_on_a_record_fails_for_that_record_alone(
    method: str, kind: str
) -> None:
    model = model_of({}, [0.5, 0.3, 0.1, 0.1])
    options = {} if method == "cdlh" else {"draft": model_of({}, [0.4, 0.3, 0.2, 0.1])}
    requests = [
        Request("", None, [1, 2], id=i, max_new_tokens=6, input={"fails": i == 1}) for i in range(4)
    ]
    sampler = SAMPLERS[method](reward=failing(kind), **options)
    results = sampler.draw_batch(model, requests)
    error = results[1]
    assert isinstance(error, RewardError)
    assert isinstance(error.__cause__, ValueError) == (kind == "raises")
    kept = [result for i, result in enumerate(results) if i != 1]
    alone = [sampler.draw_batch(model, [r])[0] for r in requests if r.id != 1]
    for together, single in zip(kept, alone, strict=True):
        assert isinstance(together, list) and isinstance(single, list)
        assert [s.to_json() for s in together] == [s.to_json() for s in single]
    with pytest.raises(RewardError):
        raise sampler.draw_batch(model, [requests[1]])[0]  # type: ignore[misc]


def test_a_record_that_the_reward_refuses_errs_before_anything_is_evaluated() -> None:
    asked = []

    def probabilities(prefix: Row) -> list[float]:
        asked.append(prefix)
        return [0.5, 0.3, 0.1, 0.1]

    model = TabularModel(probabilities, VOCABULARY)
    sampler = SAMPLERS["cdlh"](reward=build_reward("coverage"))
    fields: list[dict[str, object]] = [{"concepts": "dog"}, {"concepts": ["a"]}, {}]
    requests = [Request("", None, [1], max_new_tokens=2, input=record) for record in fields]
    results = sampler.draw_batch(model, requests)
    assert [type(result) for result in results] == [FieldError, list, FieldError]
    asked.clear()
    assert isinstance(sampler.draw_batch(model, requests[:1])[0], FieldError)
    assert not asked


BAD = [
    ("cdlh", {"branch": 0}, "branch"),
    ("cdlh", {"depth": 0}, "depth"),
    ("cdlh", {"max_walks": 0}, "max_walks"),
    ("cdlh", {"reward": "coverage"}, "reward"),
    ("cdlh-approx", {"depth": 1.5}, "depth"),
    ("cdlh-approx", {"draft": "counts"}, "draft"),
    ("cdlh-approx", {"draft": None}, "draft"),
    ("cdlh-approx", {"cost_ratio": 0.0}, "cost_ratio"),
    ("cdsl", {"draft": "prompt-lookup"}, "draft"),
    ("cdsl", {"target_tries": -1}, "target_tries"),
    ("cdsl", {"accept_threshold": 1.1}, "accept_threshold"),
    ("cdsl", {"accept_threshold": -0.1}, "accept_threshold"),
    ("cdsl", {"accept_threshold": "high"}, "accept_threshold"),
    ("cdsl", {"reward_threshold": math.nan}, "reward_threshold"),
    ("cdsl", {"verify": "soft"}, "verify"),
    ("cdsl", {"on_reject": "drop"}, "on_reject"),
]


@pytest.mark.parametrize(("method", "bad", "option"), BAD)
def test_options_out_of_range_are_refused_by_name(
    method: str, bad: dict[str, Any], option: str
) -> None:
    options: dict[str, Any] = {"reward": counts_of("a")}
    if method != "cdlh":
        options["draft"] = model_of({}, [0.25] * 4)
    with pytest.raises(UsageError) as caught:
        SAMPLERS[method](**{**options, **bad})
    assert caught.value.details["option"] == option


def test_a_draft_of_another_vocabulary_is_refused() -> None:
    other = Vocabulary([b"x", b"y", b"z", b""], eos_token_ids=[3], special_token_ids=[3])
    draft = TabularModel(lambda prefix: [0.25] * 4, other)
    sampler = SAMPLERS["cdlh-approx"](draft=draft, reward=counts_of("a"))
    result = sampler.draw_batch(model_of({}, [0.25] * 4), [Request("", None, [1])])[0]
    assert isinstance(result, TokenizerMismatchError)


def mixed() -> tuple[TabularModel, list[Request]]:
    """Return a model and requests with and without sets, several draws each."""
    toy = random_toy(8)
    rows: list[list[Row]] = [[(0,), (1, 2)], [(3, 3, 3), (2,), (2, 0)], toy.members]
    sets = [None, *(Toy(toy.vocabulary, toy.probabilities, r).constraint for r in rows), None]
    requests = [
        Request([i] * i, constraint, range(10 * i, 10 * i + 3), id=i, max_new_tokens=4 + i)
        for i, constraint in enumerate(sets)
    ]
    return toy.model(), requests


def outcomes(results: list[list[Sample] | CdecError]) -> list[list[dict[str, object]]]:
    """Return samples as JSON objects; an error fails the test."""
    return [[sample.to_json() for sample in samples] for samples in results]  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl", "cdsl speculative"])
def test_a_mixed_batch_gives_what_single_requests_give(method: str) -> None:
    model, requests = mixed()
    name, _, verify = method.partition(" ")
    options: dict[str, Any] = {"reward": TextReward(hashed(3, 4)), "depth": 2}
    if name != "cdlh":
        options["draft"] = TabularModel(drafts_of(random_toy(8), 8), model.vocabulary)
    if verify:
        options["verify"] = verify
    together = outcomes(SAMPLERS[name](**options).draw_batch(model, requests))
    for request, expected in zip(requests, together, strict=True):
        assert outcomes(SAMPLERS[name](**options).draw_batch(model, [request])) == [expected]
    chunked = outcomes(SAMPLERS[name](**options, max_walks=2).draw_batch(model, requests))
    same = ("token_ids", "finish_reason", "reward", "logprob")
    for before, after in zip(together, chunked, strict=True):
        assert [[s[f] for f in same] for s in before] == [[s[f] for f in same] for s in after]
