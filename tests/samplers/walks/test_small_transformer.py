"""Samplers on a small transformers model: forced runs, counters of cost, the module itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from cdec.core.models.language_model import Usage
from cdec.core.models.prompts import PromptEncoder
from cdec.core.models.transformers.architectures import CausalModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.walks import frontier as step
from tests.laws.rounding import near
from tests.laws.worlds import toy_set
from tests.samplers.made import NEEDS_DRAFT, made

SIZE = 40
VOCABULARY = Vocabulary([b"%d," % i for i in range(SIZE)] + [b""], eos_token_ids=[SIZE])
ROWS = [(1, 2, 3, 4, 5), (1, 2, 7, 8), (1, 9), (6, 6, 6, 6, 6, 6), (6, 6), (30, 31, 32)]
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3]]
EVENTS = max(map(len, ROWS)) + 1


class Watched(CausalModel):
    """A model that remembers what was computed for each prompt when it is released."""

    def release(self, roots: np.ndarray) -> None:
        self.usages: list[Usage] = [self.usage(root) for root in np.asarray(roots).tolist()]
        super().release(roots)


@pytest.fixture(scope="module")
def model() -> Iterator[Watched]:
    """A random GPT-2 of two layers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=SIZE + 1,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=32,
        bos_token_id=SIZE,
        eos_token_id=SIZE,
    )
    module = GPT2LMHeadModel(config).eval()
    prompts = PromptEncoder(None, VOCABULARY, context_length=32)
    yield Watched(module, VOCABULARY, prompts, context_length=32)
    torch.set_num_threads(threads)


def draw(model: Watched, name: str, n: int = 4) -> list[list[Sample]]:
    """Draw for three prompts in one batch."""
    constraint = toy_set(ROWS, VOCABULARY)
    requests = [Request(p, constraint, range(10 * i, 10 * i + n)) for i, p in enumerate(PROMPTS)]
    results = made(name, VOCABULARY).draw_batch(model, requests)
    assert all(isinstance(result, list) for result in results)
    return results


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_counters_are_what_the_model_computed(model: Watched, name: str) -> None:
    for samples, usage in zip(draw(model, name), model.usages, strict=True):
        total = {
            field: sum(sample.diagnostics[field] for sample in samples)
            for field in ("target_calls", "path_calls", "target_tokens", "distinct_evaluations")
        }
        assert name in NEEDS_DRAFT or total["path_calls"] >= total["target_calls"]
        if name == "mcmc":
            # Chains stand at many prefixes at once, and of many runs are not evaluated ahead.
            assert usage.calls / 2 < total["target_calls"] <= usage.calls
        elif name in NEEDS_DRAFT:
            # Where rows of a pass begin alike, the shared part was a row of its own: a matter of
            # what decodes together, which records do not show.
            assert usage.calls / 2 < total["target_calls"] <= usage.calls
        else:
            assert total["target_calls"] == usage.calls
        assert total["target_tokens"] == usage.tokens
        assert total["distinct_evaluations"] == usage.evaluations


@pytest.mark.parametrize("name", ["masked", "disc", "greedy"])
def test_evaluating_forced_runs_ahead_changes_no_text(
    model: Watched, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = draw(model, name)
    calls = sum(usage.calls for usage in model.usages)
    monkeypatch.setattr(step, "_HOST_NODES", 0)
    stepwise = draw(model, name)
    assert sum(usage.calls for usage in model.usages) > calls
    for ours, theirs in zip(ahead, stepwise, strict=True):
        assert [s.token_ids for s in ours] == [s.token_ids for s in theirs]
        assert [s.logprob for s in ours] == near([s.logprob for s in theirs], EVENTS)


def test_probability_and_weight_agree_with_the_module(model: Watched) -> None:
    constraint = toy_set(ROWS, VOCABULARY)
    samples = SAMPLERS["masked"]().draw(
        model, constraint, PROMPTS[0], n=20, rng=np.random.default_rng(0)
    )
    for sample in samples:
        tokens = [*sample.token_ids, SIZE]
        with torch.no_grad():
            logits = model._module(torch.tensor([PROMPTS[0] + tokens])).logits[0].double()
        logs = torch.log_softmax(logits, -1).numpy()[len(PROMPTS[0]) - 1 :]
        log_p = log_x = 0.0
        for depth, token in enumerate(tokens):
            prefix = tuple(tokens[:depth])
            allowed = {(*r, SIZE)[depth] for r in ROWS if r[:depth] == prefix and len(r) >= depth}
            log_p += logs[depth, token]
            log_x += np.log(np.exp(logs[depth, sorted(allowed)]).sum())
        assert [sample.logprob, sample.log_weight] == near([log_p, log_x], len(tokens))
