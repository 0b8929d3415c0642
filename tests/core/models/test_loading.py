"""Models loaded, by transformers and by the package itself."""

from __future__ import annotations

import json
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

from cdec.core.errors import ModelError, TrustError, UsageError
from cdec.core.models import loading
from cdec.core.models.base import Budget
from cdec.core.models.loading import load_model, wrap_module
from cdec.core.models.shipped import Llama, ShippedTokenizer, read_llama
from cdec.core.models.transformers.architectures import CausalModel, EncoderDecoderModel
from cdec.core.models.transformers.base import FullForwardModel
from cdec.core.models.transformers.pooled import PooledModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path, evaluation_prompts
from tests.core.models.tiny_models import VOCABULARY, WIDTH, tiny_module
from tests.laws.rounding import tolerance
from tests.shared import REPOSITORY

# --- load_model: kinds, devices and dtypes; what is missing, damaged or not trusted.

EMBEDDED = REPOSITORY / "data" / "embedded"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny llama as save_pretrained writes it, without a tokenizer."""
    tiny_module("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def change_config(folder: Path, **fields: Any) -> None:
    file = folder / "config.json"
    file.write_bytes(orjson.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize("name", ["target", "draft"])
def test_the_embedded_models_load_with_their_tokenizer(name: str) -> None:
    model = load_model(EMBEDDED / name)
    assert isinstance(model, PooledModel)
    assert model.device == "cpu"
    assert next(model._module.parameters()).dtype == torch.float32
    root = int(model.prefill(["The capital of"])[0])
    assert model.vocabulary.decode(model._prompt_ids[root]) == b"The capital of"
    assert model.next_logprobs([root]).shape == (1, model.vocabulary.width)
    assert model.vocabulary.eos_token_ids


def test_the_shipped_models_have_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    named = {None: load_model(), "target": load_model("embedded")}
    named |= {"draft": load_model("embedded-draft")}
    sizes = {
        name: sum(p.numel() for p in model._module.parameters())  # type: ignore[attr-defined]
        for name, model in named.items()
    }
    assert sizes[None] == sizes["target"] > sizes["draft"]
    # The name is what an artifact records, and not a place on this machine.
    assert [model.vocabulary.name for model in named.values()] == [
        "embedded",
        "embedded",
        "embedded-draft",
    ]
    alone = Vocabulary.from_tokenizer("embedded")
    assert (alone.name, alone.vocabulary_hash) == (
        "embedded",
        named[None].vocabulary.vocabulary_hash,
    )


def test_the_vocabulary_is_as_wide_as_the_logits(folder: Path) -> None:
    narrow = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    model = load_model(folder, vocabulary=narrow)
    assert model.vocabulary.width == WIDTH
    # The tokenizer's end and the one of the generation config.
    assert model.vocabulary.eos_token_ids == (0, 2)
    wide = Vocabulary([b"a"] * (WIDTH + 1), eos_token_ids=[0])
    with pytest.raises(ModelError, match=f"{WIDTH + 1} tokens, the model {WIDTH} outputs"):
        load_model(folder, vocabulary=wide)


def test_a_folder_without_a_tokenizer_is_refused_in_the_words_of_the_compilers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError) as compiled:
        Vocabulary.from_tokenizer(folder)
    monkeypatch.setattr(loading, "_load_module", None)  # Before any weight is read.
    with pytest.raises(ModelError, match="has no tokenizer: none of") as loaded:
        load_model(folder)
    assert (loaded.value.message, loaded.value.hint) == (
        compiled.value.message,
        compiled.value.hint,
    )


def test_an_encoder_decoder_is_known_by_its_config(tmp_path: Path) -> None:
    tiny_module("t5").save_pretrained(tmp_path)
    model = load_model(tmp_path, vocabulary=VOCABULARY)
    assert isinstance(model, EncoderDecoderModel)
    assert model.context_length is None


def test_dtype_and_attention_pass_through(folder: Path) -> None:
    model = load_model(folder, vocabulary=VOCABULARY, dtype="bfloat16", attn_implementation="eager")
    assert next(model._module.parameters()).dtype == torch.bfloat16
    assert model._module.config._attn_implementation == "eager"
    assert model.evaluate(model.prefill([[4, 5]])).scores.dtype == torch.float32
    assert next(load_model(folder, vocabulary=VOCABULARY)._module.parameters()).dtype == (
        torch.float32
    )


@pytest.mark.parametrize(
    "options",
    [{"dtype": "int3"}, {"device": "nowhere"}, {"quantization": "2bit"}, {"max_batch_rows": 0}],
)
def test_senseless_options_are_refused(folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        load_model(folder, vocabulary=VOCABULARY, **options)


def test_a_missing_gpu_is_said(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ModelError, match="CUDA"):
        load_model(folder, vocabulary=VOCABULARY, device="cuda")
    assert load_model(folder, vocabulary=VOCABULARY, device="auto").device == "cpu"


def test_missing_models_say_where_they_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder"):
        load_model(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE") as caught:
        load_model("no/such")
    assert caught.value.exit_status == 69


def test_a_damaged_model_is_one_sentence(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load_model(folder, vocabulary=VOCABULARY)
    assert "\n" not in caught.value.message
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="JSON"):
        load_model(folder, vocabulary=VOCABULARY)


def test_own_code_is_not_run_unless_trusted(folder: Path) -> None:
    canary = folder / "canary"
    (folder / "modeling_own.py").write_text(
        f"from pathlib import Path\nPath({str(canary)!r}).touch()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    auto_map = {
        "AutoConfig": "modeling_own.OwnConfig",
        "AutoModelForCausalLM": "modeling_own.OwnModel",
    }
    change_config(folder, auto_map=auto_map, model_type="own")
    with pytest.raises(TrustError, match="own code"):
        load_model(folder, vocabulary=VOCABULARY)
    assert not canary.exists()
    with pytest.raises(TrustError, match="commit"):
        load_model("owner/name", trust_remote_code=True, revision="main")


def test_code_of_the_tokenizer_alone_counts_too(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(
        '{"auto_map": {"AutoTokenizer": ["own.T", null]}}'
    )
    with pytest.raises(TrustError, match="own code"):
        load_model(folder, vocabulary=VOCABULARY)


def test_pickled_weights_are_refused_unless_allowed(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no weights"):
        load_model(folder, vocabulary=VOCABULARY)
    torch.save(tiny_module("llama").state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(TrustError, match="pickled"):
        load_model(folder, vocabulary=VOCABULARY)
    model = load_model(folder, vocabulary=VOCABULARY, allow_pickle=True)
    assert model.next_logprobs(model.prefill([[4]])).shape == (1, WIDTH)


def test_loading_writes_nothing_to_the_terminal(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load_model(folder, vocabulary=VOCABULARY)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_trusted_code_of_a_folder_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # transformers copies such code into a cache, which is the user's otherwise.
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "modeling_own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    auto_map = {
        "AutoConfig": "modeling_own.OwnConfig",
        "AutoModelForCausalLM": "modeling_own.OwnModel",
    }
    change_config(folder, auto_map=auto_map, model_type="own")
    model = load_model(folder, vocabulary=VOCABULARY, trust_remote_code=True)
    assert type(model._module).__name__ == "OwnModel"


def write_index(folder: Path, shard: str) -> None:
    """Let an index name one file for all weights, as a sharded model's does."""
    names = dict.fromkeys(tiny_module("llama").state_dict(), shard)
    index = folder / "model.safetensors.index.json"
    index.write_bytes(orjson.dumps({"metadata": {"total_size": 1}, "weight_map": names}))


@pytest.mark.parametrize("shard", ["w.bin", "../outside.safetensors", "sub/w.safetensors", "w"])
def test_an_index_names_safetensors_of_the_folder_only(folder: Path, shard: str) -> None:
    weights = folder / "model.safetensors"
    weights.rename(folder / "dummy.safetensors")
    torch.save(tiny_module("llama").state_dict(), folder / "w.bin")
    write_index(folder, shard)
    with pytest.raises(TrustError, match=r"model\.safetensors\.index\.json"):
        load_model(folder, vocabulary=VOCABULARY)
    (folder / "dummy.safetensors").rename(folder / "w.safetensors")
    write_index(folder, "w.safetensors")
    assert load_model(folder, vocabulary=VOCABULARY).vocabulary.width == WIDTH


def test_an_index_that_is_allowed_pickles_stays_in_its_folder(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(tiny_module("llama").state_dict(), folder / "w.bin")
    (folder / "pytorch_model.bin.index.json").write_bytes(
        orjson.dumps({"metadata": {}, "weight_map": {"a": "../w.bin"}})
    )
    with pytest.raises(TrustError, match="own folder"):
        load_model(folder, vocabulary=VOCABULARY, allow_pickle=True)


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"weight_map": {"a": [1]}}', "{", '{"weight_map": {}}x']
)
def test_a_damaged_index_is_one_sentence(folder: Path, content: str) -> None:
    (folder / "model.safetensors").rename(folder / "w.safetensors")
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ModelError, match="no index of weights"):
        load_model(folder, vocabulary=VOCABULARY)


def test_weights_that_the_config_names_are_checked_like_those_of_an_index(folder: Path) -> None:
    torch.save(tiny_module("llama").state_dict(), folder / "adapter_model.bin")
    for named in ("adapter_model.bin", "../model.safetensors", 7):
        change_config(folder, transformers_weights=named)
        with pytest.raises(TrustError, match=r"config\.json of"):
            load_model(folder, vocabulary=VOCABULARY)
    change_config(folder, transformers_weights="model.safetensors")
    assert load_model(folder, vocabulary=VOCABULARY).vocabulary.width == WIDTH


def test_an_adapter_is_not_taken_for_its_model(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "../other"}')
    with pytest.raises(ModelError, match="adapter of another model"):
        load_model(folder, vocabulary=VOCABULARY)


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
@pytest.mark.parametrize("value", ["owner/kernel", {"": "owner/kernel@main:f"}])
def test_compiled_code_of_others_is_not_run(folder: Path, key: str, value: object) -> None:
    change_config(folder, **{key: value})
    with pytest.raises(TrustError, match="owner/kernel"):
        load_model(folder, vocabulary=VOCABULARY)
    change_config(folder, **{key: None}, text_config={key: value})
    with pytest.raises(TrustError, match="owner/kernel"):
        load_model(folder, vocabulary=VOCABULARY)


def test_a_config_cannot_ask_for_layers_without_end(folder: Path) -> None:
    change_config(folder, num_hidden_layers=10**9)
    with pytest.raises(ModelError, match="num_hidden_layers is 1000000000; at most 1024"):
        load_model(folder, vocabulary=VOCABULARY)


# --- The shipped models without transformers: scores, tokens and chats are those of transformers.

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


@pytest.mark.share(7)
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
    reference = wrap_module(theirs("target"), ours.vocabulary, budget=Budget(key_value_bytes=0))
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


@pytest.mark.share(8)
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
    prints = {load_model(name).fingerprint() for name in ("embedded", "embedded-draft")}
    assert len(prints) == 2
    assert load_model("embedded").fingerprint() in prints


def test_weights_are_stored_once_and_not_learned() -> None:
    module = read_llama(embedded_model_path(), "cpu", None)
    assert not module.training
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float16}
    assert not any(parameter.requires_grad for parameter in module.parameters())
    stored = (Path(embedded_model_path()) / "model.safetensors").stat().st_size
    used = sum(parameter.nbytes for parameter in module.parameters())
    assert used <= stored < used + 10_000
