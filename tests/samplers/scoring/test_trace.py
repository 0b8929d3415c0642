"""Traces: the figures of every token against enumeration, and their sum against the weight."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from cdec.core.sample import Sample
from cdec.samplers import SAMPLERS
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.registry import METHODS
from cdec.samplers.request import Request
from cdec.samplers.scoring.trace import Tracer
from tests.laws.toys import Toy, toy_a, toy_b

METHODS_WITHOUT_REWARD = sorted(name for name in METHODS if not METHODS[name].needs_reward)
BY_MASKS = {"masked", "greedy", "beam", "speculative", "disc"}
"""Methods whose candidates are drawn by masks alone. The others' weight is that of another law:
what they have learnt (asap, exact), resampling (smc), the mentor's law (mentored)."""


def options_for(toy: Toy, name: str) -> dict[str, Any]:
    if name == "mentored":
        return {"divergence": 0.1, "draft": toy.model()}
    return {"draft": "counts"} if name == "speculative" else {}


def traced(toy: Toy, name: str, n: int = 4, **options: Any) -> list[Sample]:
    sampler = SAMPLERS[name](**options_for(toy, name), **options)
    request = Request.numbered("", toy.constraint, id="r", n=n, seed=5)
    (found,) = sampler.draw_batch(toy.model(), [request], observer=Tracer())
    assert isinstance(found, list), found
    return found


def untraced(toy: Toy, name: str, n: int = 4) -> list[Sample]:
    request = Request.numbered("", toy.constraint, id="r", n=n, seed=5)
    (found,) = SAMPLERS[name](**options_for(toy, name)).draw_batch(toy.model(), [request])
    assert isinstance(found, list), found
    return found


def lines_of(sample: Sample) -> list[dict[str, Any]]:
    assert sample.trace is not None
    return [dict(line) for line in sample.trace]


@pytest.mark.parametrize("make", [toy_a, toy_b])
@pytest.mark.parametrize("name", METHODS_WITHOUT_REWARD)
def test_log_z_adds_up_to_the_candidates_weight_and_looking_on_changes_nothing(
    name: str, make: Any
) -> None:
    toy = make()
    samples = traced(toy, name)
    plain = untraced(toy, name)
    assert [sample.to_json() for sample in samples] == [sample.to_json() for sample in plain]
    assert all(sample.trace is None for sample in plain), "nothing is computed where none looks on"
    for sample in samples:
        lines = lines_of(sample)
        tokens = [line["token_id"] for line in lines if line["event"] == "token"]
        assert tokens == list(sample.token_ids)
        if sample.logprob is not None:
            assert sum(line["logprob"] for line in lines) == pytest.approx(sample.logprob, abs=1e-9)
        weight = sample.log_candidate_weight
        if name in BY_MASKS and weight is not None and math.isfinite(weight):
            total = sum(line["log_z"] for line in lines)
            assert total == pytest.approx(weight, abs=1e-9), name


@pytest.mark.parametrize("name", sorted(BY_MASKS))
def test_the_methods_whose_weight_is_compared_have_one(name: str) -> None:
    assert any(s.log_candidate_weight is not None for s in traced(toy_b(), name))


@pytest.mark.parametrize("make", [toy_a, toy_b])
def test_every_figure_is_that_of_enumeration(make: Any) -> None:
    toy = make()
    model = toy.model()
    ends = set(toy.vocabulary.eos_token_ids)
    for sample in traced(toy, "masked", n=40):
        for line in lines_of(sample):
            prefix = tuple(sample.token_ids[: line["position"]])
            root = model.prefill([""])
            at = root
            for token in prefix:
                at = model.advance(at, [token])
            p = np.exp(np.asarray(model.next_logprobs(at))[0])
            model.release(root)
            events = {token: p[token] for token in range(len(p)) if token not in ends}
            events[None] = sum(p[end] for end in ends)
            allowed = {
                (row[len(prefix)] if len(row) > len(prefix) else None)
                for row in toy.members
                if row[: len(prefix)] == prefix
            }
            z = sum(events[event] for event in allowed)
            best = max(events.values())
            assert line["log_z"] == pytest.approx(math.log(z), abs=1e-12)
            assert line["taken"] == pytest.approx(1 - z, abs=1e-12)
            assert math.exp(line["choice"]["logprob"]) == pytest.approx(best)
            assert events[line["choice"]["token_id"]] == pytest.approx(best)
            assert math.exp(line["logprob"]) == pytest.approx(events[line["token_id"]])
            assert line["forced"] == (len(allowed) == 1)
            struck = {entry["token_id"]: entry["logprob"] for entry in line["struck"]}
            assert set(struck) <= set(events) - allowed
            listed = [entry["logprob"] for entry in line["struck"]]
            assert listed == sorted(listed, reverse=True)
            out = sorted((p for e, p in events.items() if e not in allowed and p > 0), reverse=True)
            assert np.exp(listed) == pytest.approx(out[:5])
            assert {entry["token_id"] for entry in line["alternatives"]} <= allowed


def test_seconds_are_those_of_passes_and_each_pass_counts_once_on_a_path() -> None:
    toy = toy_b()
    for sample in traced(toy, "masked", n=2):
        assert all(line["seconds"] >= 0 for line in lines_of(sample))
    assert any(line["seconds"] > 0 for s in traced(toy, "masked") for line in lines_of(s))


def test_as_many_alternatives_are_listed_as_were_asked_for() -> None:
    toy = toy_b()
    request = Request.numbered("", toy.constraint, id="r", n=4)
    for shown in (1, 2):
        (found,) = MaskedSampler().draw_batch(toy.model(), [request], observer=Tracer(shown=shown))
        assert isinstance(found, list)
        longest = max(len(line["struck"]) for s in found for line in lines_of(s))
        assert longest == shown


def test_lines_are_json_whatever_the_bytes_of_a_token() -> None:
    for sample in traced(toy_a(), "masked"):
        assert json.loads(json.dumps(lines_of(sample))) == lines_of(sample)
