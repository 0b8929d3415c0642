"""Learning samplers in batches of unlike requests, on tensors, and on a real model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import compile_grammar, compile_token_set
from cdec.core import CdecError, Sample, load_model, open_artifact
from cdec.core.models.base import LanguageModel
from cdec.core.models.tabular import TabularModel
from cdec.data.assets import embedded_model_path
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.base import Sampler
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.gtest import g_test
from tests.laws.toys import Toy, random_toy, toy_b, toy_set
from tests.samplers.enumeration import Law

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("asap", {"burn_in": 7, "round": 3}),
    ("asap", {"burn_in": 0, "until_converged": 0.05, "max_draws": 4}),
    ("exact", {"round": 5}),
    ("exact", {"round": 2, "abort": True}),
    ("exact", {"round": 3, "abort": True, "max_draws": 1, "fallback": "asap"}),
    ("exact", {"round": 3, "max_draws": 1, "K": 2}),
]


def drawn(sampler: Sampler, model: LanguageModel, requests: Sequence[Request]) -> list[Any]:
    """Draw a batch; errors are raised."""
    results = sampler.draw_batch(model, requests)
    for result in results:
        if isinstance(result, CdecError):
            raise result
    return results


def assert_same(ours: Sequence[Sample], theirs: Sequence[Sample], accuracy: float = 1e-12) -> None:
    """Compare samples field by field; sums over texts may be added in another order."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for name in ("id", "index", "text", "token_ids", "finish_reason", "exactness", "seed"):
            assert getattr(a, name) == getattr(b, name), name
        for name in ("logprob", "log_weight", "log_candidate_weight"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), abs=accuracy), name
        assert a.diagnostics == pytest.approx(b.diagnostics, abs=accuracy)


def mixed_requests() -> tuple[Toy, list[Request]]:
    """Return requests of several sets, free ones, limits and repeated sets among them."""
    toy = random_toy(8)
    sets = [toy_set(random_toy(seed).members, toy.vocabulary) for seed in (9, 10, 11)]
    own = toy_set(random_toy(9, ends_itself=True).members, toy.vocabulary, ends_itself=True)
    shapes: list[tuple[Any, int, int | None]] = [
        (toy.constraint, 9, None),
        (None, 4, 5),
        (sets[0], 1, None),
        (sets[1], 12, 2),
        (None, 1, 1),
        (own, 6, None),
        (sets[0], 5, 1),
        (sets[2], 0, None),
        (sets[2], 7, 1),
    ]
    requests = [
        Request([i % 3], c, range(100 * i, 100 * i + n), id=i, max_new_tokens=limit)
        for i, (c, n, limit) in enumerate(shapes)
    ]
    return toy, requests


@pytest.mark.parametrize("how", [{}, {"max_walks": 1}, {"max_walks": 7, "tree_cache": 1}])
@pytest.mark.parametrize(("name", "options"), KINDS)
def test_records_do_not_depend_on_their_batch(
    name: str, options: dict[str, Any], how: dict[str, Any]
) -> None:
    toy, requests = mixed_requests()
    together = drawn(SAMPLERS[name](**options, **how), toy.model(), requests)
    backwards = drawn(SAMPLERS[name](**options), toy.model(), requests[::-1])[::-1]
    for request, samples, other in zip(requests, together, backwards, strict=True):
        (alone,) = drawn(SAMPLERS[name](**options), toy.model(), [request])
        assert_same(samples, alone)
        assert_same(other, alone)
        if request.constraint is None:
            assert {sample.log_weight for sample in samples} <= {0.0, None}


def test_a_request_that_cannot_be_opened_leaves_the_others_alone() -> None:
    toy = toy_b()
    other = Toy(random_toy(1).vocabulary, random_toy(1).probabilities, random_toy(1).members)
    requests = [
        Request("", toy.constraint, [1, 2]),
        Request("", other.constraint, [3]),
        Request("", toy.constraint, [4, 5]),
    ]
    for name in ("asap", "exact"):
        results = SAMPLERS[name]().draw_batch(toy.model(), requests)
        assert isinstance(results[1], CdecError)
        (alone,) = drawn(SAMPLERS[name](), toy.model(), [requests[2]])
        assert not isinstance(results[2], CdecError)
        assert_same(results[2], alone)


class HashModel(LanguageModel):
    """A model whose scores are a hash of the prefix, float64 tensors on a device."""

    def encode_prompt(self, prompt: Any) -> list[int]:
        return list(prompt)

    def _forward(self, nodes: np.ndarray) -> Any:
        rows = []
        for node in nodes.tolist():
            rng = np.random.default_rng([3, *self.tokens(node)])
            row = rng.normal(size=self.vocabulary.width) * 2
            row[rng.random(len(row)) < 0.1] = -np.inf
            row[list(self.vocabulary.eos_token_ids)] = 1.0
            rows.append(row)
        return torch.tensor(np.array(rows))


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_tensors_and_the_host_draw_the_same(name: str, options: dict[str, Any]) -> None:
    toy, requests = mixed_requests()
    sampler = SAMPLERS[name](**options)
    on_host = drawn(sampler, HashModel(toy.vocabulary, device="cpu"), requests)
    on_device = drawn(sampler, HashModel(toy.vocabulary, device="torch:cpu"), requests)
    for ours, theirs in zip(on_host, on_device, strict=True):
        assert_same(ours, theirs, 1e-10)


def scored_law(model: LanguageModel, constraint: Any, rows: list[list[int]], prompt: Any) -> Law:
    """Return Q by scoring every member."""
    requests = [ScoreRequest(prompt, constraint, token_ids=row) for row in rows]
    logs = []
    for score in Scorer(model).run(requests):
        assert isinstance(score, Score)
        logs.append(score.logprob)
    p = np.exp(np.array(logs, float))
    return {tuple(row): float(q) for row, q in zip(rows, p / p.sum(), strict=True)}


@pytest.mark.parametrize(
    ("name", "options"),
    [("exact", {}), ("exact", {"abort": True, "max_draws": 3000}), ("asap", {"burn_in": 600})],
)
def test_draws_of_the_embedded_model_follow_the_scored_law(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model = load_model(embedded_model_path("draft"))
    vocabulary = model.vocabulary
    rng = np.random.default_rng(4)
    prompt = "Once upon a time"
    few = rng.choice(np.flatnonzero(vocabulary.is_ordinary), 4, replace=False)
    made = {tuple(rng.choice(few, rng.integers(1, 4)).tolist()) for _ in range(25)}
    rows = [list(row) for row in sorted(made)]
    compile_token_set(rows, vocabulary, tmp_path / "rows.arrow")
    constraint = open_artifact(tmp_path / "rows.arrow", vocabulary=vocabulary)
    law = scored_law(model, constraint, rows, prompt)
    (samples,) = drawn(SAMPLERS[name](**options), model, [Request(prompt, constraint, range(800))])
    assert all(sample.valid for sample in samples)
    assert g_test((tuple(sample.token_ids) for sample in samples), law) >= 1e-4


def test_grammars_on_the_embedded_model_give_valid_samples(tmp_path: Path) -> None:
    model = load_model(embedded_model_path("draft"))
    source = 'start: "yes" | "no" | "maybe" (" not")?\n'
    compile_grammar(source, model.vocabulary, tmp_path / "g.arrow")
    constraint = open_artifact(tmp_path / "g.arrow", vocabulary=model.vocabulary)
    for name, options in KINDS[:3]:
        requests = [Request(prompt, constraint, range(12)) for prompt in ("Is it? ", "Say: ")]
        for samples in drawn(SAMPLERS[name](**options), model, requests):
            for sample in samples:
                assert sample.finish_reason in ("complete", "budget")
                assert sample.text in {"yes", "no", "maybe", "maybe not"} and sample.valid
                assert sample.logprob is not None and math.isfinite(sample.logprob)


def test_a_second_run_on_the_same_model_draws_the_same() -> None:
    toy = toy_b()
    model: TabularModel = toy.model()
    request = Request("", toy.constraint, range(30))
    first = drawn(SAMPLERS["exact"](round=4), model, [request])[0]
    again = drawn(SAMPLERS["exact"](round=4), model, [request])[0]
    assert_same(first, again)
