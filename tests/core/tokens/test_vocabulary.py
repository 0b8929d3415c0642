"""Vocabulary given by its bytes: ids, widths, decoding, fingerprints, and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdec.core.errors import UsageError
from cdec.core.tokens.vocabulary import Vocabulary

TOKENS = [b"a", b"b", b" bc", b"", b"<end>", b"b"]


def toy(**changes: object) -> Vocabulary:
    arguments: dict[str, object] = {"eos_token_ids": [4], **changes}
    return Vocabulary(TOKENS, **arguments)  # type: ignore[arg-type]


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
    padded = Vocabulary([*TOKENS, b"<pad>"], eos_token_ids=[4], special_token_ids=[6])
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
