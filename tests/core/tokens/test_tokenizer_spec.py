"""Small tokenizers, one trap each: what becomes continuation text, bytes, and equal hashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from cdec.core.errors import ModelError, UntokenizableError, UsageError
from cdec.core.tokens.token_bytes import byte_alphabet
from cdec.core.tokens.vocabulary import Vocabulary


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
