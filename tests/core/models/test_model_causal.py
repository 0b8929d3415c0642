"""Causal and encoder-decoder models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import ContextLengthError, EmptyPromptError, ModelError, UsageError
from cdec.core.models.base import Budget
from cdec.core.models.loading import load_model
from cdec.core.models.prompts import PromptEncoder
from cdec.core.models.transformers.architectures import CausalModel, EncoderDecoderModel, can_pool
from cdec.core.models.transformers.base import FullForwardModel
from cdec.core.models.transformers.kv_pool import KeyValuePool
from cdec.core.models.warping import Warping
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.models.tiny_models import (
    VOCABULARY,
    WIDTH,
    plain_encoder,
    plain_logprobs,
    plain_pair_logprobs,
    tiny_module,
)
from tests.laws.rounding import tolerance

# --- Causal models: cached, forked, ragged and evicted contexts equal a plain forward pass.

TOLERANCE = tolerance(1)


def causal(name: str = "llama", attention: str | None = None, **sizes: int) -> CausalModel:
    module, budget = tiny_module(name, attention), Budget(**sizes)
    return CausalModel(module, VOCABULARY, plain_encoder(), context_length=64, budget=budget)


def assert_plain(model: CausalModel, contexts: np.ndarray) -> None:
    """The rows of one batch equal a plain forward pass over each context's tokens."""
    got = model.next_logprobs(contexts)
    for row, context in zip(got, contexts.tolist(), strict=True):
        root = int(model.rollback([context], len(model.tokens(context)))[0])
        tokens = model._prompt_ids[root] + model.tokens(context)
        torch.testing.assert_close(
            row, plain_logprobs(model._module, tokens)[-1], atol=TOLERANCE, rtol=0
        )


def grow_randomly(model: CausalModel, steps: int, seed: int = 1) -> np.ndarray:
    """Grow a random tree below prompts of ragged lengths, checking batches of mixed depth."""
    rng = np.random.default_rng(seed)
    contexts = model.prefill([rng.integers(2, 60, n).tolist() for n in (1, 6, 3, 17)])
    roots = contexts
    for step in range(steps):
        children = model.advance(rng.choice(contexts, 5), rng.integers(2, 60, 5))
        if step % 2:  # two new tokens at once, their parents unevaluated and shared
            deeper = model.advance(np.repeat(children, 2), rng.integers(2, 60, 10))
            children = np.concatenate([children[:2], deeper])
        contexts = np.concatenate([contexts, children])
        assert_plain(model, np.concatenate([children, rng.choice(contexts, 4)]))
    return roots


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "gpt_neox", "opt", "bloom"])
def test_random_trees_equal_plain_forward_passes(name: str) -> None:
    model = causal(name)
    assert can_pool(model._module)
    grow_randomly(model, 6)


def test_eager_attention_gives_the_same() -> None:
    grow_randomly(causal("mistral", "eager"), 5)


@pytest.mark.parametrize("rows", [256, 3])
def test_what_was_evicted_is_computed_again(rows: int) -> None:
    model = causal(key_value_bytes=20 * 256, cache_bytes=6 * 4 * WIDTH, max_batch_rows=rows)
    roots = grow_randomly(model, 8)
    assert model._pool.slot_bytes == 256  # keys and values, 2 layers, 2 heads of 8, 4 bytes
    computed = sum(model.usage(root).tokens for root in roots.tolist())
    assert computed > 2 * model._pool.used, "nothing was evicted: the budgets are no test"


def test_a_lockstep_batch_equals_plain_forward_passes_beyond_its_room() -> None:
    model = causal()
    rng = np.random.default_rng(5)
    roots = model.prefill([[5, 6, 7], [8]])
    contexts = np.repeat(roots, 2)
    for step in range(45):
        contexts = model.advance(contexts, rng.integers(2, 60, len(contexts)))
        if step == 30:  # a row leaves the batch
            contexts = contexts[[0, 1, 3]]
        if step % 11 == 0 or step > 42:
            assert_plain(model, contexts)
        else:
            model.evaluate(contexts)


def test_a_row_does_not_depend_on_its_batch() -> None:
    batch, single = causal(), causal()
    prompts = [[3, 4], [9, 8, 7, 6, 5, 4, 3], [11]]
    together = batch.next_logprobs(batch.prefill(prompts))
    for row, prompt in zip(together, prompts, strict=True):
        alone = single.next_logprobs(single.prefill([prompt]))[0]
        torch.testing.assert_close(row, alone, atol=TOLERANCE, rtol=0)


def test_extend_is_one_pass_with_every_position() -> None:
    model = causal()
    root = int(model.prefill([[5, 6, 7]])[0])
    model.evaluate([root])
    before = model.usage(root)
    logprobs, end = model.extend(root, [9, 10, 11, 12])
    expected = plain_logprobs(model._module, [5, 6, 7, 9, 10, 11, 12])[-4:]
    torch.testing.assert_close(logprobs, expected, atol=TOLERANCE, rtol=0)
    after = model.usage(root)
    assert (after.calls - before.calls, after.tokens - before.tokens) == (1, 4)
    assert after.evaluations - before.evaluations == 4
    assert model.tokens(end) == [9, 10, 11, 12]
    # Going on from the middle computes nothing but the new token.
    middle = model.rollback([end], 2)
    assert_plain(model, model.advance(middle, [20]))
    assert model.usage(root).tokens - after.tokens == 1


def test_forks_share_the_prompt_and_equal_prefixes_are_computed_once() -> None:
    model = causal()
    root = int(model.prefill([[5, 6, 7, 8]])[0])
    forks = model.fork(root, 10)
    model.evaluate(model.advance(forks, [2, 3] * 5))
    usage = model.usage(root)
    # The prompt is a pass of its own, then two distinct continuations.
    assert (usage.calls, usage.tokens, usage.evaluations) == (3, 6, 2)
    model.evaluate(forks)
    assert model.usage(root).tokens == 7, "a cached prompt repeats its last token alone"


def test_normalisers_make_distributions_and_special_columns_keep_their_mass() -> None:
    model = causal()
    distributions = model.evaluate(model.prefill([[5], [6, 7]]))
    assert distributions.scores.dtype == torch.float32
    assert distributions.log_normalizer.dtype == torch.float64
    mass = (distributions.scores.double() - distributions.log_normalizer[:, None]).exp()
    assert mass.shape == (2, WIDTH)
    assert (mass[:, [0, 1, WIDTH - 1]] > 0).all()
    assert (mass.sum(-1) - 1).abs().max() < 1e-6


def test_each_prompt_has_its_own_temperature() -> None:
    model = causal()
    roots = np.concatenate(
        [
            model.prefill([[5, 6]]),
            model.with_warping(temperature=0.5).prefill([[5, 6]]),
            model.prefill([[5, 6]], warping=Warping(top_k=3)),
        ]
    )
    plain = plain_logprobs(model._module, [5, 6])[-1]
    rows = model.next_logprobs(roots)
    torch.testing.assert_close(rows[0], plain, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(rows[1], (2 * plain).log_softmax(-1), atol=TOLERANCE, rtol=0)
    assert (rows[2] > -torch.inf).sum() == 3
    assert rows[2].exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_release_gives_everything_back() -> None:
    model = causal()
    first = grow_randomly(model, 3)
    used = model._pool.used
    second = grow_randomly(model, 3, seed=2)
    model.release(second)
    assert model._pool.used == used
    third = grow_randomly(model, 4, seed=3)  # on slots and ids that were used before
    model.release(np.concatenate([first, third]))
    assert model._pool.used == 0
    assert model._tree.live == 0
    assert model._distributions.bytes == 0
    assert not model._prompt_ids


def test_nothing_is_cut_to_the_context_length() -> None:
    model = causal()
    with pytest.raises(ContextLengthError, match="64 tokens, the model's context 64"):
        model.prefill([[5] * 64])
    root = int(model.prefill([[5] * 62])[0])
    assert model.max_new_tokens(root) == 2
    _, full = model.extend(root, [6, 7])
    with pytest.raises(ContextLengthError, match="65 tokens"):
        model.evaluate(model.advance([full], [8]))


def test_an_empty_prompt_starts_at_the_beginning_of_sequence() -> None:
    model = causal()
    assert model.prompt_length(int(model.prefill([[]])[0])) == 1
    bare = PromptEncoder(None, Vocabulary([b"a", b"b"], eos_token_ids=[1]))
    with pytest.raises(EmptyPromptError):
        bare.encode([])


def test_no_contexts_give_no_rows() -> None:
    distributions = causal().evaluate([])
    assert distributions.scores.shape == (0, WIDTH)
    with pytest.raises(UsageError, match="list of prompts"):
        causal().prefill("one prompt")


def test_a_module_that_ignores_the_cache_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = causal()
    forward = model._module.forward

    def without_cache(**arguments: Any) -> Any:
        return forward(**{**arguments, "past_key_values": None, "use_cache": False})

    monkeypatch.setattr(model._module, "forward", without_cache)
    with pytest.raises(ModelError, match="does not use the key-value cache"):
        model.evaluate(model.prefill([[4, 5]]))


def test_the_pool_grows_within_its_budget_as_long_as_passes_fit() -> None:
    states = torch.zeros((1, 2, 1, 4))
    pool = KeyValuePool(budget=700 * 2 * 2 * 4 * 4)
    pool.allocate(10)
    keys, _ = pool.layer(0, states, states)
    assert (len(keys), pool.slot_bytes) == (512, 64)
    pool.allocate(600)
    assert len(pool.layer(0, states, states)[0]) == 701
    pool.allocate(400)
    assert len(pool.layer(0, states, states)[0]) >= 1011


@pytest.mark.parametrize("extended", [0, 1, 3])
def test_a_failed_pass_leaves_nothing_behind(
    extended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = causal()
    module = model._module
    context = int(model.prefill([[5, 6, 7]])[0])
    if extended:
        model.evaluate([context])
    tokens = [8, 9, 10][:extended]
    for token in tokens:
        context = int(model.advance([context], [token])[0])

    def fail(**arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(model, "_module", fail)
    with pytest.raises(MemoryError):
        model.evaluate([context])
    monkeypatch.setattr(model, "_module", module)
    children = model.advance([context], [11])
    expected = plain_logprobs(module, [5, 6, 7, *tokens, 11])[-1]
    torch.testing.assert_close(model.next_logprobs(children)[0], expected, atol=TOLERANCE, rtol=0)


# --- Encoder-decoder models and models without a key-value cache equal plain forward passes.


def pair(name: str, **sizes: int) -> EncoderDecoderModel:
    length = None if name == "t5" else 64
    module, prompts = tiny_module(name), plain_encoder(length)
    return EncoderDecoderModel(
        module, VOCABULARY, prompts, context_length=length, budget=Budget(**sizes)
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bart", {}),
        ("t5", {}),
        ("bart", {"key_value_bytes": 20 * 512, "cache_bytes": 1000, "max_batch_rows": 3}),
    ],
)
def test_encoder_decoder_trees_equal_plain_forward_passes(
    name: str, options: dict[str, int]
) -> None:
    model = pair(name, **options)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(2, 60, n).tolist() for n in (2, 7, 3, 20)]
    roots = model.prefill(prompts)
    prompt_of = dict(zip(roots.tolist(), prompts, strict=True))
    contexts = roots
    for step in range(4):
        children = model.advance(rng.choice(contexts, 5), rng.integers(2, 60, 5))
        if step % 2:
            children = np.concatenate([children, model.advance(children, [9] * 5)])
        contexts = np.concatenate([contexts, children])
        asked = np.concatenate([children, rng.choice(contexts, 4)])
        for row, context in zip(model.next_logprobs(asked), asked.tolist(), strict=True):
            prompt = prompt_of[int(model.rollback([context], len(model.tokens(context)))[0])]
            start = model._module.config.decoder_start_token_id
            expected = plain_pair_logprobs(model._module, prompt, [start, *model.tokens(context)])
            torch.testing.assert_close(row, expected[-1], atol=TOLERANCE, rtol=0)
    assert model.prompt_length(int(roots[3])) == 20
    model.release(roots)
    assert model._pool.used == 0
    assert not model._cross


def test_a_forced_first_token_stands_before_the_text() -> None:
    module = tiny_module("bart")
    module.generation_config.forced_bos_token_id = 0
    model = EncoderDecoderModel(module, VOCABULARY, plain_encoder(), context_length=64)
    root = model.prefill([[4, 5, 6]])
    expected = plain_pair_logprobs(module, [4, 5, 6], [2, 0])[-1]
    torch.testing.assert_close(model.next_logprobs(root)[0], expected, atol=TOLERANCE, rtol=0)
    assert model.max_new_tokens(int(root[0])) == 62


def test_a_recurrent_model_reads_whole_prefixes() -> None:
    module = tiny_module("mamba")
    assert not can_pool(module)
    model = FullForwardModel(module, VOCABULARY, plain_encoder(), context_length=None)
    roots = model.prefill([[5, 6, 7], [8, 9]])
    _, end = model.extend(int(roots[0]), [10, 11])
    asked = np.concatenate([roots, model.advance([end, int(roots[1])], [12, 13])])
    tokens = [[5, 6, 7], [8, 9], [5, 6, 7, 10, 11, 12], [8, 9, 13]]
    for row, sequence in zip(model.next_logprobs(asked), tokens, strict=True):
        expected = plain_logprobs(module, sequence)[-1]
        torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0)
    # extend: one sequence of 5 tokens answers two positions; then three rows, prefixes included.
    assert model.usage(int(roots[0])).calls == 2
    assert model.usage(int(roots[0])).tokens == 5 + 6
    model.release(roots)
    assert model._tree.live == 0


def test_keeping_no_keys_reads_whole_prefixes_too(tmp_path: Path) -> None:
    module = tiny_module("llama")
    module.save_pretrained(tmp_path)
    model = load_model(tmp_path, vocabulary=VOCABULARY, key_value_bytes=0)
    assert isinstance(model, FullForwardModel)
    got = model.next_logprobs(model.prefill([[5, 6, 7]]))[0]
    expected = plain_logprobs(module, [5, 6, 7])[-1]
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


def test_rwkv_gives_the_recorded_logits(shared: Path) -> None:
    folder = shared / "data" / "model_rwkv_tiny"
    bytes_ = Vocabulary([bytes([i]) for i in range(256)], eos_token_ids=[0])
    model = load_model(folder / "hf", vocabulary=bytes_)
    assert isinstance(model, FullForwardModel)
    expected = np.fromfile(folder / "expected_logits_prompt_quote_in.f32", np.float32)
    got = model.evaluate(model.prefill([list(b'"in')])).scores[0].numpy()
    np.testing.assert_allclose(got, expected, atol=TOLERANCE)


def test_stories_model_equals_its_plain_forward_pass(shared: Path) -> None:
    model = load_model(shared / "data" / "model_stories260k" / "hf")
    root = int(model.prefill(["Once upon a time"])[0])
    token_ids = model.vocabulary.encode([", there was a little"])[0]
    logprobs, _ = model.extend(root, token_ids)
    plain = plain_logprobs(model._module, model._prompt_ids[root] + token_ids)
    torch.testing.assert_close(logprobs, plain[-len(token_ids) :], atol=TOLERANCE, rtol=0)


def test_rows_of_many_lengths_are_split_to_bound_their_logits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = tiny_module("mamba")
    prompts = [[5 + i] * (1 + i) for i in (4, 0, 3, 1, 2)]
    widest = 0

    class Watched(FullForwardModel):
        def _run(self, nodes: np.ndarray) -> torch.Tensor:
            nonlocal widest
            widest = max(widest, len(nodes) * len(np.unique(self._positions(nodes))))
            return super()._run(nodes)

    monkeypatch.setattr(
        "cdec.core.models.transformers.base._LOGITS_BYTES", 4 * 4 * VOCABULARY.width
    )
    model = Watched(module, VOCABULARY, plain_encoder(), context_length=None)
    rows = model.next_logprobs(model.prefill(prompts))
    for row, prompt in zip(rows, prompts, strict=True):
        expected = plain_logprobs(module, prompt)[-1]
        torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0)
    assert widest == 4
