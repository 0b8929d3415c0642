"""The shipped models without transformers: scores, tokens and chats are those of transformers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
import transformers
from packaging.version import Version

from cdec.core import load_model
from cdec.core.models.fingerprint import model_fingerprint
from cdec.core.models.shipped.llama import Llama, read_llama
from cdec.core.models.shipped.tokenizer import ShippedTokenizer
from cdec.core.models.transformers.causal import CausalModel
from cdec.core.models.transformers.full_forward import FullForwardModel
from cdec.core.models.transformers.pooled import PooledModel
from cdec.core.models.wrapping import wrap_module
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path, evaluation_prompts
from tests.laws.rounding import tolerance

NAMES = ("target", "draft")
SAME_SUMS = Version(transformers.__version__) >= Version("5.23")
TOLERANCE = 1e-5 if SAME_SUMS else tolerance(1)
"""Most that a score may be off, float32; earlier releases of transformers add in another order."""
TEXTS = (
    "",
    " ",
    "Paris",
    " Paris  is\t\n\n a city\r\n",
    "été ÉTÉ e\u0301 ﬁ ＡＢＣ",
    "日本語 한국어 עברית العربية",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 \u200b\u200d\ufeff\u2028\u0000\u007f",
    "\ue000\U000f0000\U0010fffd",
    "1234567890 3.14159e-10",
    "<|end|><|bos|> <|pad|>< |end|>",
    "<|END|> <|unknown|> </s>",
    "{{ bos_token }}{% for x in y %}",
    "a" * 300 + "\n" * 50,
)


def theirs(name: str) -> Any:
    """Return the module of transformers."""
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(embedded_model_path(name), dtype=torch.float32).eval()


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest) -> tuple[PooledModel, CausalModel]:
    """A shipped model as it is loaded, and as transformers runs it."""
    ours = load_model(embedded_model_path(request.param))
    module = theirs(request.param)
    reference = wrap_module(module.requires_grad_(False), ours.vocabulary)
    assert isinstance(ours, PooledModel)
    assert not isinstance(ours, CausalModel)
    assert isinstance(reference, CausalModel)
    return ours, reference


def glosses(vocabulary: Vocabulary) -> list[int]:
    """Return tokens of texts that the models were trained to read."""
    lines = (orjson.loads(line) for line in evaluation_prompts("glosses").open("rb"))
    return vocabulary.encode(["".join(line["prompt"] + line["answer"] for line in lines)])[0]


def prompts_of(vocabulary: Vocabulary, lengths: Sequence[int]) -> list[list[int]]:
    """Return prompts of so many tokens each."""
    tokens = glosses(vocabulary)
    return [tokens[11 * i : 11 * i + length] for i, length in enumerate(lengths)]


def grown(model: PooledModel, lengths: Sequence[int], steps: int) -> list[torch.Tensor]:
    """Return scores after prompts of these lengths, one to three tokens at a time behind them."""
    rng = np.random.default_rng(len(lengths))
    following = iter(glosses(model.vocabulary)[max(lengths) :])
    contexts = model.prefill(prompts_of(model.vocabulary, lengths))
    roots, found = contexts, [model.evaluate(contexts).scores]
    for step in range(steps):
        if step % 4 == 3:
            contexts = rng.choice(contexts, len(contexts))
        for _ in range(1 + step % 3):
            contexts = model.advance(contexts, [next(following)] * len(contexts))
        found.append(model.evaluate(contexts).scores.clone())
    model.release(roots)
    return found


@pytest.mark.parametrize(
    "lengths",
    [(1,), (7,), (400,), (2047,), (5, 5, 5), (1, 2, 30, 31, 300), tuple(range(1, 13))],
    ids=("one", "short", "long", "full", "equal", "ragged", "many"),
)
def test_scores_are_those_of_transformers(
    pair: tuple[PooledModel, CausalModel], lengths: tuple[int, ...]
) -> None:
    steps = 0 if max(lengths) == 2047 else 10
    for ours, reference in zip(*(grown(model, lengths, steps) for model in pair), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, reference, atol=TOLERANCE, rtol=0)


def test_scores_without_a_cache_are_the_same() -> None:
    ours = load_model(key_value_bytes=0)
    reference = wrap_module(theirs("target"), ours.vocabulary, key_value_bytes=0)
    assert isinstance(ours, FullForwardModel)
    assert isinstance(ours._module, Llama)
    prompts = prompts_of(ours.vocabulary, (4, 40, 11))
    found, expected = (model.evaluate(model.prefill(prompts)).scores for model in (ours, reference))
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float64"])
def test_another_precision_is_computed_as_transformers_does(dtype: str) -> None:
    ours = load_model("embedded-draft", dtype=dtype)
    reference = load_model("embedded-draft", dtype=dtype, attn_implementation="sdpa")
    assert isinstance(ours, PooledModel)
    assert isinstance(reference, CausalModel)
    weights = [next(iter(model._module.parameters())) for model in (ours, reference)]
    assert weights[0].dtype == weights[1].dtype
    for found, expected in zip(*(grown(m, (3, 9), 4) for m in (ours, reference)), strict=True):
        torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


def test_texts_are_encoded_as_by_transformers() -> None:
    folder = embedded_model_path()
    ours, reference = ShippedTokenizer(folder), transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        for framed in (True, False):
            for split in (True, False):
                words: Any = {"add_special_tokens": framed, "split_special_tokens": split}
                assert ours(text, **words)["input_ids"] == reference(text, **words)["input_ids"]
    for name in ("all_special_tokens", "all_special_ids", "special_tokens_map", "chat_template"):
        assert getattr(ours, name) == getattr(reference, name)
    added = [{i: str(t) for i, t in t.added_tokens_decoder.items()} for t in (ours, reference)]
    assert added[0] == added[1]


def test_vocabularies_are_equal() -> None:
    folder = embedded_model_path()
    ours = load_model(folder).vocabulary
    reference = Vocabulary.from_tokenizer(transformers.AutoTokenizer.from_pretrained(folder))
    for name in ("token_bytes", "eos_token_ids", "special_token_ids", "bos_token_id", "width"):
        assert getattr(ours, name) == getattr(reference, name), name
    assert ours.vocabulary_hash == reference.vocabulary_hash
    assert ours.tokenization_hash == reference.tokenization_hash
    assert ours.encode(TEXTS) == reference.encode(TEXTS)
    assert [ours.decode(ids) for ids in ours.encode(TEXTS)] == [text.encode() for text in TEXTS]


@pytest.mark.parametrize("text", TEXTS)
def test_chats_are_rendered_as_by_transformers(text: str) -> None:
    ours = load_model("embedded-draft")
    reference = load_model("embedded-draft", attn_implementation="sdpa")
    for messages in (
        [{"role": "user", "content": text}],
        [{"role": "system", "content": text}, {"role": "user", "content": text + "?"}],
        [
            {"role": "user", "content": f"{text} as JSON with the keys {text}"},
            {"role": "assistant", "content": text},
            {"role": text, "content": [{"type": "text", "text": text}], "name": text},
        ],
        [{"role": "user", "content": f"  Question: {text}"}, {"role": "user", "content": "x: "}],
    ):
        assert ours.encode_prompt(messages) == reference.encode_prompt(messages)


def test_options_of_transformers_are_passed_to_it() -> None:
    model: Any = load_model("embedded-draft", attn_implementation="eager")
    assert isinstance(model, CausalModel)
    assert model._module.config._attn_implementation == "eager"


def test_a_fingerprint_tells_the_shipped_models_apart() -> None:
    prints = {model_fingerprint(load_model(name)) for name in ("embedded", "embedded-draft")}
    assert len(prints) == 2
    assert model_fingerprint(load_model("embedded")) in prints


def test_weights_are_stored_once_and_not_learned() -> None:
    module = read_llama(embedded_model_path(), "cpu", None)
    assert not module.training
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float16}
    assert not any(parameter.requires_grad for parameter in module.parameters())
    stored = (Path(embedded_model_path()) / "model.safetensors").stat().st_size
    used = sum(parameter.nbytes for parameter in module.parameters())
    assert used <= stored < used + 10_000


def test_neither_loading_nor_a_chat_imports_transformers() -> None:
    code = (
        "import sys\n"
        "from cdec.core import load_model\n"
        "model = load_model()\n"
        "roots = model.prefill(['What is it?', [{'role': 'user', 'content': 'it'}], 'It'])\n"
        "model.evaluate(roots)\n"
        "sys.exit('transformers' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
