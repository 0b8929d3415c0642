"""Walks in random toys and over transformers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from cdec.core.models.language_model import Usage
from cdec.core.models.prompts import PromptEncoder
from cdec.core.models.transformers.architectures import CausalModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.walks import frontier as step
from tests.laws.gtest import g_test
from tests.laws.rounding import near
from tests.laws.worlds import Toy, random_toy, toy_set
from tests.samplers.enumeration import disc, log_prob, masked, mass
from tests.samplers.made import NEEDS_DRAFT, made

# --- Random small sets and models: every sampler against brute force.

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(toy=TOYS)
def test_weights_probabilities_and_bracket_are_exact(toy: Toy) -> None:
    exact = masked(toy)
    samples = SAMPLERS["masked"]().draw(
        toy.model(), toy.constraint, "", n=60, rng=np.random.default_rng(1)
    )
    truth = mass(toy)
    for sample in samples:
        row = tuple(sample.token_ids)
        if sample.finish_reason == "dead_end":
            assert exact.stuck > 0
            assert sample.log_weight is None
            continue
        assert row in toy.members
        assert sample.log_weight == pytest.approx(math.log(exact.x[row]), abs=1e-9)
        assert sample.logprob == pytest.approx(log_prob(toy, row), abs=1e-9)
        assert sample.valid
    upper, lower = (samples[0].diagnostics[f"log_mass_{side}"] for side in ("upper", "lower"))
    assert (upper is None and truth < 1e-12) or math.exp(upper) >= truth - 1e-12
    assert lower is None or math.exp(lower) <= truth + 1e-12


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(toy=TOYS, tries=st.integers(1, 4), recycle=st.booleans())
def test_disc_follows_its_law(toy: Toy, tries: int, recycle: bool) -> None:
    sampler = SAMPLERS["disc"](K=tries, recycle=recycle, max_walks=1 << 15)
    samples = sampler.draw(
        toy.model(), toy.constraint, "", n=5000, rng=np.random.default_rng(tries)
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    # 8 examples at 1e-5 each: a correct sampler fails once in 12,500 choices of seeds.
    assert g_test(outcomes, disc(toy, tries, recycle=recycle)) >= 1e-5


@settings(max_examples=25, deadline=None, derandomize=True)
@given(toy=TOYS)
def test_a_wide_beam_finds_the_most_probable_members_in_order(toy: Toy) -> None:
    n = len(toy.members)
    samples = SAMPLERS["beam"](beams=max(8, n)).draw(
        toy.model(), toy.constraint, "", n=n, rng=np.random.default_rng(0)
    )
    found = [s.logprob for s in samples if s.finish_reason == "complete"]
    logs = [log_prob(toy, row) for row in toy.members]
    possible = sorted((p for p in logs if p > -math.inf), reverse=True)
    assert found == pytest.approx(possible, abs=1e-9)
    assert [s.finish_reason for s in samples[len(found) :]] == ["dead_end"] * (n - len(found))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(toy=TOYS)
def test_greedy_takes_the_most_probable_event_everywhere(toy: Toy) -> None:
    sample = SAMPLERS["greedy"]().draw(
        toy.model(), toy.constraint, "", rng=np.random.default_rng(0)
    )[0]
    prefix: tuple[int, ...] = ()
    ends = list(toy.vocabulary.eos_token_ids)
    while True:
        if toy.ends_itself and prefix in toy.members:
            break
        given_here = toy.probabilities(prefix)
        options = {
            row[len(prefix)]: given_here[row[len(prefix)]]
            for row in toy.members
            if row[: len(prefix)] == prefix and row != prefix
        }
        options = {token: p for token, p in options.items() if p > 0}
        end = given_here[ends].sum() if prefix in toy.members else 0.0
        if not options or end > max(options.values()):
            assert sample.finish_reason == ("complete" if end > 0 else "dead_end")
            break
        prefix = (*prefix, max(options, key=lambda token: options[token]))
    assert tuple(sample.token_ids) == prefix


# --- Samplers on a small transformers model: forced runs, cost counters, agreement with the
# module.

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
            for field in ("target_calls", "target_tokens", "distinct_evaluations")
        }
        if name in NEEDS_DRAFT:
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
