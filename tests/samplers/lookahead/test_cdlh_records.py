"""Records of cdlh, and random worlds."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cdec.core.errors import CdecError, FieldError, RewardError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.rewards import build_reward
from cdec.samplers.rewards.base import Record
from tests.laws.worlds import Row, Toy, random_toy
from tests.samplers.lookahead.lookahead_reference import (
    Options,
    Text,
    TextReward,
    World,
    cdlh,
    cdsl,
    drafts_of,
    hashed,
)
from tests.samplers.lookahead.test_cdlh import VOCABULARY, counts_of, model_of

# --- Lookahead and its records: rewards that fail, options, drafts refused, batches.


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


# --- Lookahead on random toys: every token and every count against a plain reference.

TOYS = range(60)
SHAPES = [(1, 1), (2, 1), (3, 3), (2, 4), (6, 2)]


class Tables(TabularModel):
    """A tabular model whose scores are tensors of a device."""

    def __init__(self, law: Any, vocabulary: Any, device: str) -> None:
        super().__init__(law, vocabulary)
        self.device = device

    def _forward(self, nodes: NDArray[np.int64]) -> Any:
        return torch.tensor(super()._forward(nodes)).to(self.device.removeprefix("torch:"))


def setting(seed: int, method: str) -> tuple[Toy, World, Request, Any, dict[str, Any]]:
    """Return a toy, the reference's world, a request, the draft and the options of a seed."""
    rng = np.random.default_rng([seed, 77])
    toy = random_toy(seed, ends_itself=seed % 4 == 3)
    is_free = seed % 3 == 0
    limit = max(1, int(rng.integers(0, 7))) if seed % 5 else 12
    branch, depth = SHAPES[int(rng.integers(len(SHAPES)))]
    score = hashed(seed, int(rng.integers(1, 6)))
    law = None if method == "cdlh" else drafts_of(toy, seed)
    draft = None if law is None else TabularModel(law, toy.vocabulary)
    members = None if is_free else set(toy.members)
    world = World(toy, members, limit, lambda text: score(text, None), law, branch, depth)
    constraint = None if is_free else toy.constraint
    request = Request("", constraint, [seed], max_new_tokens=limit)
    options = {"reward": TextReward(score), "branch": branch, "depth": depth}
    return toy, world, request, draft, options


def drawn(toy: Toy, method: str, request: Request, **options: Any) -> Sample:
    """Draw the one sample of a request."""
    model = TabularModel(toy.probabilities, toy.vocabulary)
    samples = SAMPLERS[method](**options).draw_batch(model, [request])[0]
    assert isinstance(samples, list), samples
    return samples[0]


def agrees(sample: Sample, text: Text) -> None:
    """Compare what both came to and computed."""
    assert (tuple(sample.token_ids), sample.finish_reason) == (text.tokens, text.finish)
    assert sample.diagnostics["distinct_evaluations"] == len(text.evaluated)
    assert sample.diagnostics["target_calls"] == text.calls
    assert sample.diagnostics.get("draft_calls", 0) == len(text.drafted)


@pytest.mark.share(1)
@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx"])
def test_every_token_is_the_one_of_the_reference(method: str) -> None:
    lengths = set()
    for seed in itertools.chain(TOYS, range(1000, 1060)):
        toy, world, request, draft, options = setting(seed, method)
        more = {} if draft is None else {"draft": draft}
        sample = drawn(toy, method, request, **options, **more)
        agrees(sample, cdlh(world))
        lengths.add(sample.finish_reason)
    assert lengths == {"complete", "length", "dead_end"}


@pytest.mark.slow
@pytest.mark.parametrize("verify", ["hard", "speculative", "ratio"])
def test_every_round_of_cdsl_is_the_one_of_the_reference(verify: str) -> None:
    counts = dict.fromkeys(("S1", "S2", "S3", "S4"), 0)
    for seed in itertools.chain(TOYS, range(2000, 2120)):
        toy, world, request, draft, options = setting(seed, "cdsl")
        rng = np.random.default_rng([seed, 78])
        chosen = Options(
            tries=int(rng.integers(0, 4)),
            accept=float(rng.choice([0.0, 0.3, 0.5, 1.0])),
            reward=float(rng.choice([0.0, 0.3, 0.6, 1.0, 2.0])),
            keeps=bool(rng.integers(2)),
            seed=None if verify == "hard" else seed,
            ratio=verify == "ratio",
        )
        sampler = {
            "target_tries": chosen.tries,
            "accept_threshold": chosen.accept,
            "reward_threshold": chosen.reward,
            "on_reject": "keep" if chosen.keeps else "discard",
            "verify": verify,
        }
        sample = drawn(toy, "cdsl", request, draft=draft, **options, **sampler)
        text = cdsl(world, chosen)
        agrees(sample, text)
        found = sample.diagnostics["scenario_counts"]
        assert isinstance(found, dict)
        assert {name: n for name, n in found.items() if n} == dict(text.scenarios)
        for name, n in found.items():
            counts[name] += n
    # The paper's rule accepts more, so its rounds go wrong less often.
    assert min(counts.values()) >= (10 if verify == "ratio" else 20), (
        "the options above meet all scenarios"
    )


@pytest.mark.share("method")
@pytest.mark.parametrize("device", ["torch:cpu", *["cuda"] * torch.cuda.is_available()])
@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl", "cdsl speculative"])
def test_a_device_gives_what_the_host_gives(method: str, device: str) -> None:
    name, _, verify = method.partition(" ")
    for seed in range(3000, 3020):
        toy, _, request, draft, options = setting(seed, name)
        request = dataclasses.replace(request, seeds=[seed, seed + 1])
        if verify:
            options |= {"verify": verify, "reward_threshold": 0.0}
        results = []
        for where in ("cpu", device):
            laws = [toy.probabilities, drafts_of(toy, seed)]
            target, small = (
                TabularModel(law, toy.vocabulary)
                if where == "cpu"
                else Tables(law, toy.vocabulary, where)
                for law in laws
            )
            drafts = {} if draft is None else {"draft": small}
            samples = SAMPLERS[name](**options, **drafts).draw_batch(target, [request])[0]
            assert isinstance(samples, list), samples
            results.append(
                [
                    (
                        s.token_ids,
                        s.finish_reason,
                        s.diagnostics["target_calls"],
                        s.diagnostics["reward"],
                    )
                    for s in samples
                ]
            )
        assert results[0] == results[1]
