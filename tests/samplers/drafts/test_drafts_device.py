"""Decoding with a draft on a device: the texts, weights and accounts of the host, and the law."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.models.tabular import TabularModel
from cdec.samplers.base import Sampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from tests.laws.toys import toy_set
from tests.samplers.device_tables import DEVICES, Tables, table
from tests.samplers.drafts.draft_laws import Rounds, hasten, p_value
from tests.samplers.drafts.draft_toys import (
    ENDS,
    MEMBERS,
    ORDINARY,
    WIDTH,
    Pair,
    pairs,
    random_law,
    resized,
)

PAIRS = pairs()


def model_pair(pair: Pair, device: str) -> tuple[TabularModel, TabularModel]:
    """Return a target and a draft on a device."""
    vocabulary = pair.toy.vocabulary
    return (
        table(pair.toy.probabilities, vocabulary, device),
        table(pair.draft, vocabulary, device),
    )


def drafted(kind: str, pair: Pair, device: str) -> tuple[Sampler, TabularModel]:
    """Return a sampler of some kind with its draft, and its target."""
    target, draft = model_pair(pair, device)
    samplers: dict[str, Any] = {
        "speculative": lambda: SpeculativeSampler(draft=draft, gamma=3),
        "speculative, greedy": lambda: SpeculativeSampler(draft=draft, gamma=3, greedy=True),
        "speculative, greedy draft": lambda: SpeculativeSampler(draft=draft, draft_temperature=0),
        "speculative, lookup": lambda: SpeculativeSampler(draft="prompt-lookup"),
        "mentored": lambda: MentoredSampler(draft=draft, gamma=2, divergence=0.2),
        "mentored, auto": lambda: MentoredSampler(draft=draft, gamma="auto", divergence=0.05),
        "mentored, all": lambda: MentoredSampler(draft=draft, gamma=3, divergence=math.inf),
        "mentored, in total": lambda: MentoredSampler(draft=draft, gamma=2, divergence_total=0.4),
        "mentored, greedy draft": lambda: MentoredSampler(draft=draft, draft_temperature=0),
        "mentored, lookup": lambda: MentoredSampler(draft="prompt-lookup", divergence=0.3),
    }
    return samplers[kind](), target


KINDS = [
    *("speculative", "speculative, greedy", "speculative, greedy draft", "speculative, lookup"),
    *("mentored", "mentored, auto", "mentored, all", "mentored, in total"),
    *("mentored, greedy draft", "mentored, lookup"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_draws_the_texts_of_the_host(kind: str, device: str) -> None:
    for name in ("set", "set that ends texts", "set, other support", "free"):
        pair = PAIRS[name]
        records = []
        for place in ("cpu", device):
            sampler, target = drafted(kind, pair, place)
            other = toy_set(MEMBERS[:4], pair.toy.vocabulary) if pair.is_masked else None
            requests = [
                Request([0, 1, 2, 0, 1], pair.constraint, range(80), max_new_tokens=pair.limit),
                Request([3, 3, 0, 3], other, range(80, 120), max_new_tokens=pair.limit or 3),
            ]
            results = sampler.draw_batch(target, requests)
            assert all(isinstance(result, list) for result in results)
            records.append([sample for result in results for sample in result])
        # A device spends a text's budget to about 1e-9 nats, a host to 1e-13; what is left moves
        # the next law by the square root.
        near = 1e-4 if kind == "mentored, in total" else 4e-9 * max(map(len, MEMBERS))
        for ours, theirs in zip(*records, strict=True):
            assert (ours.token_ids, ours.finish_reason) == (theirs.token_ids, theirs.finish_reason)
            assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-9)
            assert ours.log_weight == pytest.approx(theirs.log_weight, abs=near)
            assert ours.diagnostics == pytest.approx(theirs.diagnostics, abs=near)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["speculative", "mentored"])
@pytest.mark.parametrize("name", ["set", "free"])
def test_draws_on_a_device_follow_the_law(
    name: str, kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 11)
    pair = PAIRS[name]
    sampler, target = drafted(kind, pair, device)
    sampler.max_walks = 1 << 15  # type: ignore[attr-defined]
    request = Request("", pair.constraint, range(20_000), max_new_tokens=pair.limit)
    samples = sampler.draw_batch(target, [request])[0]
    assert isinstance(samples, list)
    outcomes = [(tuple(sample.token_ids), sample.finish_reason) for sample in samples]
    rounds = Rounds(pair, pair.draft_law, 3)
    if kind == "mentored":
        rounds = Rounds(pair, pair.draft_law, 2, 0.2)
    assert p_value(outcomes, rounds.law()) >= 1e-4


@pytest.mark.parametrize("device", DEVICES)
def test_walks_without_a_proposal_draw_what_masked_draws(device: str) -> None:
    pair = PAIRS["set, dense"]
    sampler, target = drafted("speculative, lookup", pair, device)
    plain = table(pair.toy.probabilities, pair.toy.vocabulary, device)
    request = Request([0, 1, 2, 0, 3, 1], pair.constraint, range(300))
    ours = sampler.draw_batch(target, [request])[0]
    theirs = MaskedSampler().draw_batch(plain, [request])[0]
    assert isinstance(ours, list) and isinstance(theirs, list)
    assert [s.token_ids for s in ours] == [s.token_ids for s in theirs]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("divergence", [0.0, 0.1])
def test_scores_that_are_not_numbers_are_an_error(device: str, divergence: float) -> None:
    class Broken(Tables):
        def _forward(self, nodes: NDArray[np.int64]) -> Any:
            return super()._forward(nodes) * math.nan

    pair = PAIRS["set"]
    _, draft = model_pair(pair, device)
    target = Broken(pair.toy.probabilities, pair.toy.vocabulary, device)
    sampler = MentoredSampler(draft=draft, divergence=divergence)
    result = sampler.draw_batch(target, [Request("", pair.constraint, [1, 2])])[0]
    assert isinstance(result, ModelError)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [WIDTH - 1, WIDTH + 1])
@pytest.mark.parametrize("name", ["free", "set"])
def test_a_draft_of_fewer_or_more_outputs_proposes_on_a_device(
    name: str, width: int, device: str
) -> None:
    pair, found = PAIRS[name], []
    law = random_law(6, 0.0, (*ORDINARY, *ENDS))
    for place in ("cpu", device):
        vocabulary = pair.toy.vocabulary.with_width(width)
        draft = table(lambda prefix: resized(law(prefix), width), vocabulary, place)
        target = table(pair.toy.probabilities, pair.toy.vocabulary, place)
        sampler = MentoredSampler(draft=draft, gamma=2, divergence=0.1)
        request = Request("", pair.constraint, range(100), max_new_tokens=4)
        samples = sampler.draw_batch(target, [request])[0]
        assert isinstance(samples, list)
        assert any(sample.diagnostics["acceptance_rate"] for sample in samples)
        found.append([(s.token_ids, s.finish_reason, round(s.logprob or 0.0, 9)) for s in samples])
    assert found[0] == found[1]
