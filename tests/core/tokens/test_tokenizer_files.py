"""Tokenizer files and where they are found."""

from __future__ import annotations

import base64
import io
import json
import lzma
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import CdecError, ExtraMissingError, LimitError, ModelError, TrustError
from cdec.core.models.loading import load_model
from cdec.core.tokens.files import rank_spec, read_bounded
from cdec.core.tokens.locations import ANSWERS_WITHIN, hub_unavailable, located
from cdec.core.tokens.vocabulary import Vocabulary

# --- Tokenizers from folders, files and transformers: equal fingerprints, special ids, refusals.


@pytest.fixture
def stories(shared: Path, tmp_path: Path) -> Path:
    """A folder of a model's tokenizer that a test may change."""
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(shared / "data/model_stories260k/hf" / name, tmp_path / name)
    return tmp_path


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def fingerprints(vocabulary: Vocabulary) -> tuple[object, ...]:
    return (
        vocabulary.vocabulary_hash,
        vocabulary.tokenization_hash,
        vocabulary.eos_token_ids,
        vocabulary.bos_token_id,
        vocabulary.special_token_ids,
    )


def test_folder_file_and_transformers_object_are_one_vocabulary(stories: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(stories)
    sources = (stories, str(stories), stories / "tokenizer.json", tokenizer)
    assert len({fingerprints(Vocabulary.from_tokenizer(source)) for source in sources}) == 1
    vocabulary = Vocabulary.from_tokenizer(stories)
    assert (vocabulary.eos_token_ids, vocabulary.bos_token_id) == ((2,), 1)
    assert vocabulary.special_token_ids == {0, 1, 2}


def test_a_tokenizer_that_transformers_rebuilds_hashes_as_its_file_does(stories: Path) -> None:
    file = Vocabulary.from_tokenizer(stories / "tokenizer.json")
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}
    (stories / "tokenizer_config.json").write_text(json.dumps(config | {"unk_token": "<unk>"}))
    assert fingerprints(Vocabulary.from_tokenizer(stories)) == fingerprints(file)


@pytest.mark.slow
def test_a_sentencepiece_model_in_a_folder_is_the_same_as_alone(
    shared: Path, tmp_path: Path
) -> None:
    pytest.importorskip("sentencepiece")
    file = shared / "data/tokenizers/mistral/tokenizer.model.v1"
    shutil.copyfile(file, tmp_path / "tokenizer.model")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    alone, folder = Vocabulary.from_tokenizer(file), Vocabulary.from_tokenizer(tmp_path)
    assert fingerprints(folder) == fingerprints(alone)
    # One of the texts that a conversion with the merges in another order gets wrong.
    (ids,) = folder.encode(["a  the cat"])
    assert [folder.token_bytes[i] for i in ids] == [b"a", b" ", b" the", b" cat"]


def test_adding_a_pad_token_changes_no_hash(stories: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(stories)
    before = Vocabulary.from_tokenizer(tokenizer)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    after = Vocabulary.from_tokenizer(tokenizer, width=600)
    assert (after.size, after.width) == (513, 600)
    assert 512 in after.special_token_ids
    assert after.vocabulary_hash == before.vocabulary_hash
    assert after.tokenization_hash == before.tokenization_hash
    tokenizer.add_tokens(["tool"])
    assert Vocabulary.from_tokenizer(tokenizer).vocabulary_hash != before.vocabulary_hash


def test_generation_config_adds_end_ids_even_ordinary_ones(stories: Path) -> None:
    plain = Vocabulary.from_tokenizer(stories)
    newline = plain.token_bytes.index(b"\n")
    edit(stories / "generation_config.json", eos_token_id=[2, newline])
    for source in (stories, stories / "tokenizer.json"):
        vocabulary = Vocabulary.from_tokenizer(source)
        assert vocabulary.eos_token_ids == (2, newline)
        assert vocabulary.tokenization_hash == plain.tokenization_hash
        assert vocabulary.encode(["\n"]) == [[newline]]
    edit(stories / "generation_config.json", eos_token_id=1 << 40)
    with pytest.raises(ModelError, match="special token has the id"):
        Vocabulary.from_tokenizer(stories)


def test_a_packed_file_reads_as_the_plain_one(stories: Path) -> None:
    plain = Vocabulary.from_tokenizer(stories / "tokenizer.json")
    packed = stories / "other.json.xz"
    packed.write_bytes(lzma.compress((stories / "tokenizer.json").read_bytes()))
    assert fingerprints(Vocabulary.from_tokenizer(packed)) == fingerprints(plain)


def test_a_packed_file_that_grows_past_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.xz"
    path.write_bytes(lzma.compress(bytes(1 << 20)))
    assert len(read_bounded(path)) == 1 << 20
    for limit in ((1 << 20) - 1, 100):
        with pytest.raises(LimitError, match=f"more than {limit} bytes"):
            read_bounded(path, limit)


def _tokens(pieces: list[bytes]) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
        for rank, piece in enumerate(pieces)
    ]


def test_tekken_ids_follow_the_special_ones(tmp_path: Path) -> None:
    pieces = [bytes([value]) for value in range(256)] + [b"ab", b"<s", b"<s>", b"past the size"]
    config = {"pattern": r"\w+|\W+", "default_vocab_size": 262, "default_num_special_tokens": 3}
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps({"config": config, "vocab": _tokens(pieces)}))
    vocabulary = Vocabulary.from_tokenizer(tmp_path)
    assert vocabulary.size == 262
    assert (vocabulary.eos_token_ids, vocabulary.bos_token_id) == ((2,), 1)
    assert vocabulary.encode(["ab <s"]) == [[259, 3 + ord(" "), 3 + ord("<"), 3 + ord("s")]]
    # An ordinary token that is spelt as a special one stays ordinary.
    assert vocabulary.token_bytes[261] == b"<s>"


def test_a_pattern_that_would_be_misread_is_refused() -> None:
    with pytest.raises(ModelError, match="possessive interval"):
        rank_spec({b"a": 0}, r"\p{N}{1,3}+", [])


def _train(**options: Any) -> bytes:
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = ["the cat sat on a mat", "a dog sat there", "cats and dogs  sit", "that is all"] * 20
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, minloglevel=5, **options
    )
    return model.getvalue()


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_small_sentencepiece_models_encode_as_sentencepiece_does(kind: str, tmp_path: Path) -> None:
    data = _train(
        model_type=kind,
        vocab_size=310,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        user_defined_symbols=["<sep>", "▁ca", "  "] + ["▁▁▁"] * (kind == "bpe"),
    )
    from sentencepiece import SentencePieceProcessor

    path = tmp_path / "spiece.model"
    path.write_bytes(data)
    reference = SentencePieceProcessor(model_proto=data)
    vocabulary = Vocabulary.from_tokenizer(path)
    texts = ["the cat", " the cats", "a<sep>b", "<sep>", "a  b   c    d", "é\n\0", "</s>", "", " "]
    for text, ids in zip(texts, vocabulary.encode(texts), strict=True):
        assert ids == reference.encode(text), text
        assert vocabulary.decode(ids) == text.encode()
    assert vocabulary.eos_token_ids == (reference.eos_id(),)


def test_sentencepiece_models_of_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "word.model"
    path.write_bytes(_train(model_type="word", vocab_size=12, hard_vocab_limit=False))
    with pytest.raises(ModelError, match="SentencePiece model of type 3"):
        Vocabulary.from_tokenizer(path)


def test_sentencepiece_without_the_extra_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"\n\x00")
    with pytest.raises(ExtraMissingError) as caught:
        Vocabulary.from_tokenizer(path)
    assert caught.value.hint is not None and "cdec[sentencepiece]" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("tokenizer.json", b'{"model": ', "not valid JSON"),
        ("tokenizer.json", b'{"model": {}}', "is no tokenizer.json"),
        ("tokenizer.json", b"{}", "no tokenizer of a known form"),
        (
            "tokenizer.json",
            b'{"model": {"type": "BPE", "vocab": {"a": "x"}, "merges": []}}',
            "damaged",
        ),
        ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}', "or none"),
        (
            "tokenizer.json",
            b'{"model": {"type": "BPE", "vocab": {"a": -4}, "merges": []}}',
            "outside",
        ),
        (
            "tokenizer.json",
            b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "normalizer": {}}',
            "damaged: KeyError",
        ),
        (
            "tokenizer.json",
            b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}',
            "library refuses",
        ),
        ("tokenizer.json.xz", lzma.compress(b"{}" * 99)[:-20], "damaged"),
        ("encoder.json", b"{}", "vocab.bpe cannot be read"),
        ("tekken.json", b'{"config": {}, "vocab": []}', "no tekken vocabulary"),
        ("o200k_base.tiktoken", b"", "'o200k_base' is not known"),
        ("r50k_base.tiktoken", b"IQ== 0\nIg==\n", "line 2: expected base64"),
        ("tokenizer.model", b"version https://git-lfs", "no SentencePiece model"),
        ("tokenizer.model", b"", "no SentencePiece model"),
        ("weights.safetensors", b"\x00\x01", "no tokenizer of a known form"),
    ],
)
def test_damaged_files_are_errors_that_say_what_is_wrong(
    tmp_path: Path, name: str, data: bytes, expected: str
) -> None:
    if name.endswith(".model"):
        pytest.importorskip("sentencepiece")
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ModelError, match=expected) as caught:
        Vocabulary.from_tokenizer(path)
    assert caught.value.hint


def test_a_truncated_file_is_an_error_wherever_it_ends(shared: Path, tmp_path: Path) -> None:
    whole = (shared / "data/model_stories260k/hf/tokenizer.json").read_bytes()
    path = tmp_path / "tokenizer.json"
    for cut in range(0, len(whole) - 2, 1999):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelError):
            Vocabulary.from_tokenizer(path)


def test_a_folder_with_a_model_and_no_tokenizer_is_refused(shared: Path) -> None:
    with pytest.raises(ModelError, match="has no tokenizer"):
        Vocabulary.from_tokenizer(shared / "data/model_rwkv_tiny/hf")


def test_a_folder_with_several_tokenizers_asks_which(shared: Path) -> None:
    with pytest.raises(ModelError, match=r"several tokenizers: cl100k_base.tiktoken, p50k"):
        Vocabulary.from_tokenizer(shared / "data/tokenizers/tiktoken")


@pytest.mark.parametrize("name", ["/no/such/folder", "./missing", "a/b/c", "", "nobody/nothing"])
def test_a_tokenizer_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(CdecError) as caught:
        Vocabulary.from_tokenizer(name)
    assert isinstance(caught.value, ModelError)
    assert repr(name) in caught.value.message or name in caught.value.message
    assert caught.value.hint


def test_a_tokenizer_that_runs_its_own_code_is_not_trusted(tmp_path: Path) -> None:
    config = {"auto_map": {"AutoTokenizer": ["own.Own", None]}, "tokenizer_class": "Own"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "vocab.json").write_text("{}")
    (tmp_path / "own.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(TrustError, match="run its own code"):
        Vocabulary.from_tokenizer(tmp_path)


@pytest.mark.parametrize("name", ["embedded", "embedded-draft"])
def test_a_shipped_tokenizer_is_what_transformers_reads_and_needs_no_import(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    read = Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(located(name)))
    monkeypatch.setitem(sys.modules, "transformers", None)
    shipped = Vocabulary.from_tokenizer(name)
    assert fingerprints(shipped) == fingerprints(read)


# --- The hub of models: asked once and shortly, or not at all.


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub on a port at which nobody listens; no variable forbids to ask it."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield endpoint


def test_a_hub_that_answers_is_not_away(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub_unavailable() is None


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_a_variable_forbids_to_ask(variable: str) -> None:
    unavailable = hub_unavailable({variable: "1"})
    assert (
        unavailable is not None
        and variable in unavailable.reason
        and f"unset {variable}" in unavailable.hint
    )


def test_a_proxy_is_asked_in_the_hubs_place(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    monkeypatch.setenv("https_proxy", closed)
    assert hub_unavailable() is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{server.getsockname()[1]}")
        assert hub_unavailable() is None


def test_models_and_tokenizers_are_refused_at_once_where_the_hub_is_away(
    closed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for load in (Vocabulary.from_tokenizer, load_model):
        started = time.monotonic()
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            load("nobody/nothing-at-all")
        # The wait, and the import of the libraries, with room for a busy machine.
        assert time.monotonic() - started < ANSWERS_WITHIN + 20
        assert caught.value.hint is not None
        assert "HF_HUB_OFFLINE" in caught.value.hint and "local folder" in caught.value.hint
    assert "Retrying" not in "".join(capfd.readouterr())


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    import cdec.core

    assert cdec.core.__version__ == version("cdec")
