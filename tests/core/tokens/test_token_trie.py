"""Vocabularies and the trie of their tokens."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import UsageError
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

# --- The vocabulary's byte trie against a sorted list, and what becomes of a damaged cache.

TOKENS = [
    b"",
    b"ab",
    b"a",
    b"\x00",
    b"ab",
    b"a\x00",
    b"abcdefgh",
    b"abcdefgh\x00",
    b"\xff\xfe",
    b"b",
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path))
    return tmp_path


def check(trie: TokenTrie, vocabulary: Vocabulary) -> None:
    """Check every array of a trie against plain Python."""
    tokens = vocabulary.token_bytes
    ordinary = sorted((tokens[i], i) for i in range(vocabulary.size) if tokens[i])
    assert trie.token_ids.tolist() == [i for _, i in ordinary]
    nodes = sorted({text[:n] for text, _ in ordinary for n in range(1, len(text) + 1)})
    assert trie.node_byte.tolist() == [node[-1] for node in nodes]
    assert trie.depth.tolist() == [len(node) for node in nodes]
    for i, node in enumerate(nodes):
        below = sum(other.startswith(node) for other in nodes)
        assert trie.skip[i] == i + below
        held = trie.token_ids[trie.token_offsets[i] : trie.token_offsets[i + 1]].tolist()
        assert held == [t for text, t in ordinary if text == node]
    assert trie.max_depth == max(map(len, nodes), default=0)


TEXTS = st.binary(max_size=3) | st.text("ab\x00", max_size=20).map(str.encode)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=40))
def test_trie_holds_every_ordinary_token_in_byte_order(tokens: list[bytes]) -> None:
    vocabulary = Vocabulary([b"<end>", *tokens], [0])
    check(TokenTrie.build(vocabulary), vocabulary)


def test_trie_is_read_back_from_the_cache(cache: Path) -> None:
    vocabulary = Vocabulary(TOKENS, [0])
    built = TokenTrie.of(vocabulary)
    (file,) = (cache / "tries").iterdir()
    stamp = file.stat().st_mtime_ns
    again = TokenTrie.of(vocabulary)
    assert file.stat().st_mtime_ns == stamp
    for a, b in zip(built.arrays(), again.arrays(), strict=True):
        assert np.array_equal(a, b) and a.dtype == b.dtype


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "header"])
def test_damaged_cache_is_built_again(cache: Path, damage: str) -> None:
    vocabulary = Vocabulary(TOKENS, [0])
    TokenTrie.of(vocabulary)
    (file,) = (cache / "tries").iterdir()
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[:-5])
    elif damage == "flipped":
        file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "other":
        file.write_bytes(b"what another program keeps there")
    else:
        words = np.frombuffer(bytearray(whole), np.int32)
        words[1] += 1 << 20
        file.write_bytes(words.tobytes())
    check(TokenTrie.of(vocabulary), vocabulary)
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path) -> None:
    (cache / "tries").write_bytes(b"a file where the folder should be")
    vocabulary = Vocabulary(TOKENS, [0])
    check(TokenTrie.of(vocabulary), vocabulary)


def test_cache_keeps_a_bounded_number_of_tries(cache: Path) -> None:
    for i in range(20):
        TokenTrie.of(Vocabulary([b"<end>", b"%d" % i], [0]))
    assert len(list((cache / "tries").iterdir())) == 16


def test_other_special_ids_use_the_same_trie_only_if_the_tokens_agree(cache: Path) -> None:
    TokenTrie.of(Vocabulary([b"<end>", b"a", b"b"], [0]))
    vocabulary = Vocabulary([b"<end>", b"a", b"b"], [0], [2])
    check(TokenTrie.of(vocabulary), vocabulary)
    assert len(list((cache / "tries").iterdir())) == 2


# --- Vocabulary given by its bytes: ids, widths, decoding, fingerprints, and what it refuses.

FEW_TOKENS = [b"a", b"b", b" bc", b"", b"<end>", b"b"]


def toy(**changes: object) -> Vocabulary:
    arguments: dict[str, object] = {"eos_token_ids": [4], **changes}
    return Vocabulary(FEW_TOKENS, **arguments)  # type: ignore[arg-type]


def test_special_and_unused_ids_have_no_bytes() -> None:
    vocabulary = toy(special_token_ids=[1])
    assert list(vocabulary.token_bytes) == [b"a", b"", b" bc", b"", b"", b"b"]
    assert vocabulary.special_token_ids == {1, 4}
    assert vocabulary.is_ordinary.tolist() == [True, False, True, False, False, True]


def test_padding_ids_are_not_ordinary_and_decode_to_nothing() -> None:
    vocabulary = toy(width=9)
    assert (vocabulary.size, vocabulary.width) == (6, 9)
    assert vocabulary.is_ordinary.shape == (9,) and not vocabulary.is_ordinary[6:].any()
    assert vocabulary.decode([0, 8, 4, 1]) == b"ab"


def test_end_of_sequence_ids_are_sorted_distinct_and_special() -> None:
    vocabulary = toy(eos_token_ids=[4, 3, 4])
    assert vocabulary.eos_token_ids == (3, 4)
    assert {3, 4} <= vocabulary.special_token_ids


def test_flat_bytes_hold_every_token_at_its_offset() -> None:
    vocabulary = toy()
    flat, offsets = vocabulary.flat_bytes.tobytes(), vocabulary.byte_offsets
    assert [flat[a:b] for a, b in pairwise(offsets)] == list(vocabulary.token_bytes)
    assert vocabulary.byte_lengths.tolist() == [1, 1, 3, 0, 0, 1]
    assert len(flat) == offsets[-1]


def test_cached_arrays_cannot_be_written() -> None:
    vocabulary = toy()
    for array in (vocabulary.is_ordinary, vocabulary.byte_lengths, vocabulary.byte_offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert not vocabulary.flat_bytes.flags.writeable


@given(st.lists(st.integers(0, 5)))
def test_decode_concatenates_the_tokens_bytes(ids: list[int]) -> None:
    vocabulary = toy()
    expected = b"".join(vocabulary.token_bytes[i] for i in ids)
    assert vocabulary.decode(ids) == expected
    assert vocabulary.decode(np.array(ids, dtype=np.int32)) == expected


@pytest.mark.parametrize("wrong", [-1, 6, 1 << 40])
def test_decode_names_an_id_that_is_out_of_range(wrong: int) -> None:
    with pytest.raises(UsageError, match=f"token id {wrong} "):
        toy().decode([0, wrong])


def test_with_width_and_with_eos_change_nothing_else() -> None:
    vocabulary = toy(bos_token_id=3, name="toy")
    wide = vocabulary.with_width(64)
    other = vocabulary.with_eos([3])
    assert (wide.width, wide.size, wide.eos_token_ids) == (64, 6, (4,))
    assert (other.width, other.eos_token_ids, other.special_token_ids) == (6, (3,), {3, 4})
    assert (wide.bos_token_id, other.name) == (3, "toy")
    assert vocabulary.width == 6 and vocabulary.eos_token_ids == (4,)


def test_hash_ignores_special_ids_padding_and_name() -> None:
    base = toy().vocabulary_hash
    padded = Vocabulary([*FEW_TOKENS, b"<pad>"], eos_token_ids=[4], special_token_ids=[6])
    assert padded.vocabulary_hash == base
    assert toy(width=128, name="other", bos_token_id=3).vocabulary_hash == base
    assert toy(eos_token_ids=[3, 4]).vocabulary_hash == base


@pytest.mark.parametrize(
    "tokens",
    [
        [b"b", b"a", b" bc", b"", b"", b"b"],
        [b"a", b"b", b" b", b"c", b"", b"b"],
        [b"a", b"b", b" bc", b"b", b"", b""],
        [b"a", b"b", b" bc", b"", b"", b"b", b"x"],
    ],
)
def test_hash_changes_with_the_bytes_or_ids_of_ordinary_tokens(tokens: list[bytes]) -> None:
    assert Vocabulary(tokens, eos_token_ids=[4]).vocabulary_hash != toy().vocabulary_hash


@pytest.mark.parametrize(
    ("tokens", "arguments", "expected"),
    [
        ([], {}, "at least one token"),
        ([b"a", "b"], {}, "token 1 is of type str"),
        ([b"a", bytearray(b"b")], {}, "token 1 is of type bytearray"),
        ([b"a"], {"width": 0}, "logits width is 0"),
        ([b"a"], {"eos_token_ids": [1]}, "eos_token_ids has the id 1"),
        ([b"a"], {"special_token_ids": [-1]}, "special_token_ids has the id -1"),
        ([b"a"], {"bos_token_id": 7}, "bos_token_id has the id 7"),
    ],
)
def test_what_makes_no_vocabulary_is_refused(
    tokens: list[bytes], arguments: dict[str, object], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        Vocabulary(tokens, **{"eos_token_ids": [], **arguments})  # type: ignore[arg-type]


def test_a_vocabulary_without_end_is_allowed() -> None:
    assert Vocabulary([b"a"], eos_token_ids=[]).eos_token_ids == ()


def test_encoding_without_a_tokenizer_says_what_to_do() -> None:
    vocabulary = toy()
    assert vocabulary.tokenization_hash is None
    for encode in (vocabulary.encode, vocabulary.encode_flat):
        with pytest.raises(UsageError, match="no tokenizer") as caught:
            encode(["a"])
        assert caught.value.hint is not None and "from_tokenizer" in caught.value.hint
