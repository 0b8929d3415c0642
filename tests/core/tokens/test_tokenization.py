"""Continuation text against independent encoders, and the laws of encoding and of its hash."""

from __future__ import annotations

import base64
import json
import lzma
import random
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from cdec.core.errors import EncodingError, UsageError
from cdec.core.tokens.tokenization import CHUNK
from cdec.core.tokens.vocabulary import Vocabulary

SPECIAL_LOOKING = [
    "<s>",
    "a</s> b",
    "<unk>",
    "<|endoftext|>",
    "[INST] x [/INST]",
    "<0x41>",
    "<|fim_prefix|>",
    " special 1",
]
AWKWARD = [
    *("", " ", "  ", "\0", "\r\n", "\r\n\r\n x", "\t\t", " \n \n", "it's IT'S ıt'ſ", "1234567 x12"),
    *(
        "e\u0301\u0323",
        "👩‍👩‍👧 👍🏽",
        "\u200d",
        "\ufeff",
        "\u2028x\u00a0y\u3000",
        "日本語 テキスト 한국어",
        "עברית",
    ),
    *(" " * n + tail for n in range(1, 35) for tail in ("", "the", "x y")),
    *(
        unit * n
        for unit in ("a", "aa", "aba", "ha", "-", "=", "\n", "0", "é", "\t")
        for n in range(2, 22)
    ),
]
SCRAMBLE = " \t\nabeot hTHs.,'-0159éßñ日本한🙂\u200d\u0301\u00a0\x00\x85ſS"


@cache
def _vocabulary(path: Path) -> Vocabulary:
    return Vocabulary.from_tokenizer(path)


@pytest.fixture(scope="session")
def texts(shared: Path) -> list[str]:
    """Texts of many kinds: hostile strings, names, awkward runs, random mixtures."""
    found = [*AWKWARD, *SPECIAL_LOOKING]
    found += json.loads((shared / "data/unicode_strings/blns.json").read_text())
    utf8 = (shared / "data/unicode_strings/utf8tests.txt").read_bytes()
    found += utf8.decode(errors="ignore").splitlines()
    rng = random.Random(5)
    for name in ("wikipedia_titles_93k", "places_geonames_579k", "brands_operators_nsi"):
        with lzma.open(shared / f"data/entity_sets/{name}.txt.xz", "rt", encoding="utf-8") as file:
            names = [next(file).rstrip("\n") for _ in range(20_000)]
        found += [lead + text for text in rng.sample(names, 200) for lead in ("", " ")]
    found += ["".join(rng.choices(SCRAMBLE, k=rng.randint(1, 20))) for _ in range(1000)]
    return found


def assert_same_ids(
    vocabulary: Vocabulary, texts: list[str], reference: Callable[[str], list[int]]
) -> None:
    """The reference's ids for every text, the text back, and nothing special."""
    for text, ids in zip(texts, vocabulary.encode(texts), strict=True):
        assert ids == list(reference(text)), repr(text)
        assert vocabulary.decode(ids) == text.encode(), repr(text)
        assert vocabulary.special_token_ids.isdisjoint(ids), repr(text)


@pytest.mark.parametrize(
    "file", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"]
)
def test_sentencepiece_models_encode_as_sentencepiece_does(
    shared: Path, texts: list[str], file: str
) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    from sentencepiece import sentencepiece_model_pb2

    path = shared / "data/tokenizers/mistral" / file
    vocabulary = _vocabulary(path)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(path.read_bytes())
    proto.normalizer_spec.add_dummy_prefix = False
    reference = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    # The space mark itself reads as a space, in SentencePiece as here.
    plain = [text for text in texts if "\u2581" not in text]
    assert_same_ids(vocabulary, plain, reference.encode)
    with_prefix = sentencepiece.SentencePieceProcessor(model_file=str(path))
    led = [text for text in plain if len(text) > 1 and text[0] == " "]
    assert len(led) > 500
    assert_same_ids(vocabulary, led, lambda text: with_prefix.encode(text[1:]))


# tiktoken's own spelling of the patterns, possessive quantifiers and all.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


@pytest.mark.parametrize(
    ("name", "pattern"), [("r50k_base", GPT2), ("p50k_base", GPT2), ("cl100k_base", CL100K)]
)
def test_tiktoken_files_encode_as_tiktoken_does(
    shared: Path, texts: list[str], name: str, pattern: str
) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    path = shared / f"data/tokenizers/tiktoken/{name}.tiktoken.xz"
    pairs = [line.split() for line in lzma.decompress(path.read_bytes()).splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    reference = tiktoken.Encoding(
        name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 100257}
    )
    assert_same_ids(_vocabulary(path), texts, reference.encode_ordinary)
    if name == "r50k_base":
        gpt2 = _vocabulary(shared / "data/tokenizers/gpt2/encoder.json")
        assert_same_ids(gpt2, texts, reference.encode_ordinary)
        assert gpt2.vocabulary_hash == _vocabulary(path).vocabulary_hash


def test_tekken_files_encode_as_mistral_common_does(texts: list[str]) -> None:
    mistral_common = pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    path = Path(mistral_common.__file__).parent / "data/tekken_240911.json"
    vocabulary, reference = Vocabulary.from_tokenizer(path), Tekkenizer.from_file(path)
    assert_same_ids(vocabulary, texts, lambda text: reference.encode(text, bos=False, eos=False))
    assert vocabulary.size == 131_072 == reference.n_words
    assert vocabulary.eos_token_ids == (reference.eos_id,)
    assert vocabulary.bos_token_id == reference.bos_id
    ordinary = range(1000, 131_072)
    assert all(reference.id_to_byte_piece(i) == vocabulary.token_bytes[i] for i in ordinary)


def test_a_hugging_face_tokenizer_encodes_as_itself_after_a_space(
    shared: Path, texts: list[str]
) -> None:
    path = shared / "data/model_stories260k/hf/tokenizer.json"
    reference = Tokenizer.from_file(str(path))
    reference.encode_special_tokens = True
    led = [text for text in texts if len(text) > 1 and text[0] == " " and "\u2581" not in text]

    def encode(text: str) -> list[int]:
        return list(reference.encode(text[1:], add_special_tokens=False).ids)

    assert_same_ids(_vocabulary(path), led, encode)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=8))
def test_decoding_gives_the_text_back(shared: Path, drawn: list[str]) -> None:
    folder = shared / "data"
    for path in ("tokenizers/gpt2/encoder.json", "model_stories260k/hf/tokenizer.json"):
        vocabulary = _vocabulary(folder / path)
        lossless = [text for text in drawn if "stories" not in path or "\u2581" not in text]
        encoded = vocabulary.encode(lossless)
        assert [vocabulary.decode(ids) for ids in encoded] == [t.encode() for t in lossless]
        ids, offsets = vocabulary.encode_flat(lossless)
        assert (ids.dtype, offsets.dtype) == (np.int32, np.int64)
        rows = [ids[start:stop].tolist() for start, stop in pairwise(offsets)]
        assert rows == encoded


@pytest.mark.parametrize(
    "path",
    [
        "tokenizers/gpt2/encoder.json",
        "tokenizers/tiktoken/p50k_base.tiktoken.xz",
        "tokenizers/mistral/tokenizer.model.v1",
        "tokenizers/neox_20b/tokenizer.json.xz",
        "model_stories260k/hf/tokenizer.json",
    ],
)
def test_every_byte_is_a_token(shared: Path, path: str) -> None:
    vocabulary = _vocabulary(shared / "data" / path)
    # GPT-NeoX has no tokens for the bytes that UTF-8 never uses.
    unused = {0xC0, 0xC1, *range(0xF5, 0x100)} if "neox" in path else set()
    missing = {byte for byte in range(256) if bytes([byte]) not in vocabulary.token_bytes}
    assert missing == unused


@pytest.mark.parametrize("path", ["gpt2/encoder.json", "mistral/tokenizer.model.v1"])
def test_a_prefix_space_comes_from_the_text_alone(shared: Path, path: str) -> None:
    vocabulary = _vocabulary(shared / "data/tokenizers" / path)
    led, inner = vocabulary.encode([" Paris", "Paris"])
    assert [vocabulary.token_bytes[token] for token in led] == [b" Paris"]
    assert vocabulary.decode(inner) == b"Paris"


def test_an_item_that_is_no_string_is_named(shared: Path) -> None:
    vocabulary = _vocabulary(shared / "data/model_stories260k/hf/tokenizer.json")
    for wrong in (("a", "b"), 3, b"x", None):
        with pytest.raises(UsageError, match="text 1 is of type"):
            vocabulary.encode(["fine", wrong])  # type: ignore[list-item]


def test_a_lone_surrogate_is_named(shared: Path) -> None:
    vocabulary = _vocabulary(shared / "data/model_stories260k/hf/tokenizer.json")
    with pytest.raises(EncodingError, match="text 1 has a lone surrogate at character 2"):
        vocabulary.encode_flat(["fine", "ab\ud800c"])


def test_chunks_of_texts_join_without_a_seam(shared: Path) -> None:
    vocabulary = _vocabulary(shared / "data/model_stories260k/hf/tokenizer.json")
    many = [f" text {number}" * (number % 3) for number in range(2 * CHUNK + 5)]
    ids, offsets = vocabulary.encode_flat(many)
    rows = [ids[start:stop].tolist() for start, stop in pairwise(offsets)]
    assert rows == vocabulary.encode(many)
    many[CHUNK + 3] = "\ud800"
    with pytest.raises(EncodingError, match=f"text {CHUNK + 3} has a lone surrogate"):
        vocabulary.encode_flat(many)


def test_no_texts_give_empty_arrays(shared: Path) -> None:
    vocabulary = _vocabulary(shared / "data/model_stories260k/hf/tokenizer.json")
    ids, offsets = vocabulary.encode_flat([])
    assert ids.size == 0 and offsets.tolist() == [0]
    assert vocabulary.encode([]) == []
