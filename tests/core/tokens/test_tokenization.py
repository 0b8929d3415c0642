"""Tokenization of texts beside the tokenizers library."""

from __future__ import annotations

import base64
import json
import lzma
import random
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from cdec.core.errors import EncodingError, ModelError, UntokenizableError, UsageError
from cdec.core.tokens.spec import CHUNK, byte_alphabet
from cdec.core.tokens.vocabulary import Vocabulary

# --- Continuation text against independent encoders, and the laws of encoding and of its hash.

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.share(2)
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


# --- Small tokenizers, one trap each: what becomes continuation text, bytes, and equal hashes.


def byte_level(*, prefix_space: bool = False, **model: Any) -> Tokenizer:
    """All bytes (ids 0 to 255), "ab" and "<s>" by merges."""
    vocab = {char: i for i, char in enumerate(byte_alphabet())}
    vocab |= {"ab": 256, "<s": 257, "<s>": 258}
    merges = [("a", "b"), ("<", "s"), ("<s", ">")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, **model))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    return tokenizer


def sentencepiece_like(*, metaspace: bool) -> Tokenizer:
    """Byte tokens, "▁", "a", "▁a", in either of the two spellings of space escaping."""
    vocab = {f"<0x{i:02X}>": i for i in range(256)} | {"▁": 256, "a": 257, "▁a": 258, "</s>": 259}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=[("▁", "a")], byte_fallback=True, unk_token=None)
    )
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    return tokenizer


def unigram(pieces: list[tuple[str, float]], *, unk_id: int | None) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unk_id, byte_fallback=False))
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return tokenizer


PIECES = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("a", -2.0), ("▁a", -3.0)]
PIECES += [(char, -5.0) for char in "</s>"]


def test_prefix_space_truncation_padding_and_special_tokens_are_left_out() -> None:
    tokenizer = byte_level(prefix_space=True)
    tokenizer.add_special_tokens(["<|bos|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", 259)]
    )
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=7)
    before = tokenizer.to_str()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.encode(["ab", " abab", ""]) == [[256], [0x20, 256, 256], []]
    assert tokenizer.to_str() == before
    assert tokenizer.encode_special_tokens is False
    assert tokenizer.encode("ab").ids[:3] == [259, 32, 0]


@pytest.mark.parametrize("metaspace", [True, False])
def test_dummy_prefix_is_dropped_and_byte_tokens_are_bytes(metaspace: bool) -> None:
    vocabulary = Vocabulary.from_tokenizer(sentencepiece_like(metaspace=metaspace))
    assert vocabulary.encode(["a", " a", "  a", "é", "</s>"]) == [
        [257],
        [258],
        [256, 258],
        [0xC3, 0xA9],
        list(b"</s>"),
    ]
    assert vocabulary.token_bytes[0x0A] == b"\n"
    assert vocabulary.token_bytes[256:] == (b" ", b"a", b" a", b"")
    assert vocabulary.eos_token_ids == (259,)


@pytest.mark.parametrize("metaspace", [True, False])
def test_a_prompts_text_is_found_from_its_ids(metaspace: bool) -> None:
    tokenizer = sentencepiece_like(metaspace=metaspace)
    begin = tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="</s> $A", special_tokens=[("</s>", begin)]
    )
    tokenizer.encode_special_tokens = True
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    for text in ("a", " a", "a a", "", "</s>", "\u00e9", "  "):
        ids = tokenizer.encode(text).ids
        assert ids[0] == begin
        # subtle: one of the two spellings adds no space where there is one, so both texts are one.
        same = text == " a" and metaspace
        assert vocabulary.prompt_text(ids) == ("a" if same else text)
        # Without the token that begins texts it is another prompt.
        assert vocabulary.prompt_text(ids[1:]) is None
    # No text is spelt so: its first letter stands without the space before it.
    assert vocabulary.prompt_text([begin, 257]) is None
    # Half a character is no text.
    assert vocabulary.prompt_text([begin, 256, 0xC3]) is None


def test_two_spellings_of_space_escaping_hash_alike() -> None:
    one, other = (
        Vocabulary.from_tokenizer(sentencepiece_like(metaspace=metaspace))
        for metaspace in (True, False)
    )
    assert one.tokenization_hash == other.tokenization_hash
    assert one.vocabulary_hash == other.vocabulary_hash


def test_unigram_finds_no_special_token_in_text_and_keeps_edge_spaces() -> None:
    tokenizer = unigram(PIECES, unk_id=0)
    tokenizer.add_special_tokens(["</s>"])
    # Without care the model itself finds its piece of the highest score in the text.
    tokenizer.encode_special_tokens = True
    assert 1 in tokenizer.encode("a</s>").ids
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    for text in ("a</s>", " a", "a ", "</s>"):
        (ids,) = vocabulary.encode([text])
        assert vocabulary.special_token_ids.isdisjoint(ids)
        assert vocabulary.decode(ids) == text.encode()


def test_unknown_characters_are_visible() -> None:
    with_unknown = Vocabulary.from_tokenizer(unigram(PIECES, unk_id=0))
    (ids,) = with_unknown.encode(["aé"])
    assert ids[-1] == 0 and 0 in with_unknown.special_token_ids
    assert with_unknown.decode(ids) == b"a"
    with pytest.raises(UntokenizableError, match="refuses one of the texts"):
        Vocabulary.from_tokenizer(unigram(PIECES, unk_id=None)).encode(["aé"])


@pytest.mark.parametrize("ignore_merges", [True, False])
def test_merges_never_build_a_special_token(ignore_merges: bool) -> None:
    tokenizer = byte_level(ignore_merges=ignore_merges)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.encode_special_tokens = True
    assert tokenizer.encode("<s>").ids == [258]
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.encode(["<s>", " special 258"]) == [
        [257, ord(">")],
        list(b" special 258"),
    ]
    assert vocabulary.token_bytes[258] == b""
    assert vocabulary.bos_token_id == 258


def test_added_tokens_that_are_not_special_are_text() -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("<é tool>", normalized=False)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[259] == "<é tool>".encode()
    assert vocabulary.encode(["x<é tool>y"]) == [[ord("x"), 259, ord("y")]]
    assert vocabulary.is_ordinary[259]


def _special(tokenizer: Tokenizer) -> None:
    tokenizer.add_special_tokens(["<|pad|>"])


def _settings(tokenizer: Tokenizer) -> None:
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding()
    tokenizer.post_processor = processors.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()


def _prefix_space(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, trim_offsets=False)


@pytest.mark.parametrize("change", [_special, _settings, _prefix_space])
def test_hashes_ignore_what_continuation_text_ignores(
    change: Callable[[Tokenizer], None],
) -> None:
    plain, changed = byte_level(), byte_level()
    change(changed)
    one, other = Vocabulary.from_tokenizer(plain), Vocabulary.from_tokenizer(changed)
    assert one.tokenization_hash == other.tokenization_hash
    assert one.vocabulary_hash == other.vocabulary_hash


def _edited(edit: Callable[[dict[str, Any]], None]) -> Vocabulary:
    spec = json.loads(byte_level().to_str())
    edit(spec)
    return Vocabulary.from_tokenizer(Tokenizer.from_str(json.dumps(spec)))


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: spec["model"]["merges"].reverse(),
        lambda spec: spec["model"]["merges"].pop(),
        lambda spec: spec["model"].update(ignore_merges=True),
        lambda spec: spec.update(normalizer={"type": "NFC"}),
        lambda spec: spec["pre_tokenizer"].update(use_regex=False),
        lambda spec: spec.update(
            added_tokens=[
                {"id": 259, "content": "tool", "single_word": False, "lstrip": False}
                | {"rstrip": False, "normalized": False, "special": False}
            ]
        ),
    ],
    ids=["order of merges", "merges", "flags", "normaliser", "pre-tokenizer", "added token"],
)
def test_tokenization_hash_changes_with_what_decides_the_ids(
    edit: Callable[[dict[str, Any]], None],
) -> None:
    assert _edited(edit).tokenization_hash != _edited(lambda spec: None).tokenization_hash


def test_defaults_and_merges_of_older_files_hash_alike() -> None:
    spec = json.loads(byte_level().to_str())
    for key in ("fuse_unk", "byte_fallback", "ignore_merges", "dropout"):
        del spec["model"][key]
    spec["model"]["merges"] = [" ".join(pair) for pair in spec["model"]["merges"]]
    del spec["pre_tokenizer"]["use_regex"]

    class Older:
        def to_str(self) -> str:
            return json.dumps(spec)

    older = Vocabulary.from_tokenizer(Older())
    assert older.tokenization_hash == Vocabulary.from_tokenizer(byte_level()).tokenization_hash
    assert older.encode(["ab"]) == [[256]]


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"), "WordPiece"),
        (models.WordLevel({"a": 0}, unk_token="a"), "WordLevel"),
        (models.BPE({"a</w>": 0}, [], end_of_word_suffix="</w>"), "'</w>'"),
    ],
)
def test_tokenizers_that_drop_spaces_are_refused(model: Any, kind: str) -> None:
    with pytest.raises(ModelError, match=kind) as caught:
        Vocabulary.from_tokenizer(Tokenizer(model))
    assert caught.value.hint


def test_what_is_no_tokenizer_is_refused() -> None:
    with pytest.raises(UsageError, match="a dict is no tokenizer"):
        Vocabulary.from_tokenizer({"a": 1})
    with pytest.raises(ModelError, match="no token that is text"):
        empty = Tokenizer(models.BPE({"<s>": 0}, []))
        empty.add_special_tokens(["<s>"])
        Vocabulary.from_tokenizer(empty)
