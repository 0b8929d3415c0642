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
from cdec.samplers.scoring.paths import score_paths
from cdec.samplers.scoring.trace import Tracer, traced_lines
from cdec.samplers.walks.batch import Batch
from tests.laws.worlds import Toy, toy_a, toy_b
from tests.samplers.lookahead.lookahead_reference import TextReward

REWARDED = {"cdlh", "cdlh-approx", "cdsl"}
BY_MASKS = {"masked", "greedy", "beam", "speculative", "disc", *REWARDED}
"""Methods whose candidates are drawn by masks alone. The others' weight is that of another law:
what they have learnt (asap, exact), resampling (smc), the mentor's law (mentored)."""
ALIKE: list[tuple[str, dict[str, Any]]] = [
    ("smc", {"particles": 1}),
    ("mentored", {"divergence": 0.0}),
    ("asap", {"burn_in": 0}),
    ("exact", {"max_draws": 1, "fallback": "none"}),
]
"""Of the other methods: where nothing has been learnt, resampled or spent, the laws are one."""


def options_for(toy: Toy, name: str) -> dict[str, Any]:
    if name == "mentored":
        return {"divergence": 0.1, "draft": toy.model()}
    if name in REWARDED:
        draft = {} if name == "cdlh" else {"draft": toy.model()}
        return {"reward": TextReward(lambda text, record: len(text) % 3 / 2), **draft}
    return {"draft": "counts"} if name == "speculative" else {}


def traced(toy: Toy, name: str, n: int = 4, *, seed: int = 5, **options: Any) -> list[Sample]:
    sampler = SAMPLERS[name](**(options_for(toy, name) | options))
    request = Request.numbered("", toy.constraint, id="r", n=n, seed=seed)
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
@pytest.mark.parametrize("name", METHODS)
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


@pytest.mark.parametrize("make", [toy_a, toy_b])
@pytest.mark.parametrize("name", METHODS)
def test_log_z_is_that_of_the_masks_alone_whatever_drew_the_text(name: str, make: Any) -> None:
    toy = make()
    samples = [sample for sample in traced(toy, name) if sample.finish_reason == "complete"]
    assert samples
    if not METHODS[name].masks:
        assert all(line["log_z"] == 0.0 for sample in samples for line in lines_of(sample))
        return
    with Batch(toy.model(), [Request("", toy.constraint, [0])]) as batch:
        rows = [list(sample.token_ids) for sample in samples]
        scores = score_paths(batch, np.zeros(len(rows), np.int64), rows)
    sums = [sum(line["log_z"] for line in lines_of(sample)) for sample in samples]
    assert sums == pytest.approx(scores.log_z.tolist(), abs=1e-9)


@pytest.mark.parametrize(("name", "options"), ALIKE)
def test_other_laws_weigh_as_the_masks_do_where_they_are_no_others(
    name: str, options: dict[str, Any]
) -> None:
    toy, weighed = toy_b(), 0
    for seed in range(300):
        for sample in traced(toy, name, 1, seed=seed, **options):
            if sample.log_candidate_weight is not None:
                total = sum(line["log_z"] for line in lines_of(sample))
                assert total == pytest.approx(sample.log_candidate_weight, abs=1e-9)
                weighed += 1
        if weighed == 3:
            return
    pytest.fail("nothing was weighed")


def test_what_a_tree_has_learnt_stands_in_the_weight_and_not_in_the_trace() -> None:
    """The weight of asap is log P - log Q~; once all is known it is log P(S), whatever Z is."""
    toy = toy_b()
    samples = traced(toy, "asap", 3, burn_in=400)
    sums = [sum(line["log_z"] for line in lines_of(sample)) for sample in samples]
    for sample, total in zip(samples, sums, strict=True):
        assert sample.log_candidate_weight == pytest.approx(math.log(0.0505234568), abs=1e-6)
        assert sample.log_candidate_weight != pytest.approx(total, abs=1e-3)


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


def test_warnings_stand_with_the_lines_that_they_are_about() -> None:
    warned = 0
    for sample in traced(toy_a(), "masked", n=12):
        lines = [dict(line) for line in traced_lines(sample)]
        assert [{**line, "warnings": []} for line in lines] == [
            {**line, "warnings": []} for line in lines_of(sample)
        ]
        found = [(line["position"], each) for line in lines for each in line["warnings"]]
        assert found == [(each["token"], each) for each in sample.warnings]
        warned += len(found)
    assert warned, "00000 ends with a probability of 1e-8"
    sample = traced(toy_a(), "masked", n=1)[0]
    early: list[dict[str, Any]] = [{"code": "W_CYCLE", "token": 0, "byte": 0, "bytes": 128}]
    sample.warnings, sample.trace = early, [{**line, "position": 9} for line in lines_of(sample)]
    assert [len(line["warnings"]) for line in traced_lines(sample)][:2] == [1, 0]  # type: ignore


def test_lines_are_json_whatever_the_bytes_of_a_token() -> None:
    for sample in traced(toy_a(), "masked"):
        assert json.loads(json.dumps(lines_of(sample))) == lines_of(sample)
