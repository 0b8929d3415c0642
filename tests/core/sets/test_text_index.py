"""The text index finds exactly the rows of a text, also where hashes collide."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cdec.core.sets.text_index import TextIndex, build_text_index, hash_texts
from cdec.core.tokens.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([i]) for i in range(256)] + [b""], eos_token_ids=[256])


def hashes_of(texts: list[bytes]) -> NDArray[np.uint64]:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return hash_texts(np.frombuffer(b"".join(texts), np.uint8), offsets)


def make_index(
    texts: list[bytes],
    rows: list[bytes] | None = None,
    hashes: NDArray[np.uint64] | None = None,
    heads: tuple[bytes, ...] = (b"",),
    tail: bytes = b"",
) -> TextIndex:
    """Index member texts whose rows spell ``rows`` (default: head + text + tail)."""
    rows = [heads[0] + text + tail for text in texts] if rows is None else rows
    text_hash, text_row = build_text_index(hashes_of(texts) if hashes is None else hashes)
    tokens = np.frombuffer(b"".join(rows), np.uint8).astype(np.int32)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return TextIndex(text_hash, text_row, tokens, offsets, BYTES, heads=heads, tail=tail)


def test_hash_is_fnv_1a_with_the_murmur_finaliser() -> None:
    def plain(text: bytes) -> int:
        value = 0xCBF29CE484222325
        for byte in text:
            value = (value ^ byte) * 0x100000001B3 % 2**64
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            value = (value ^ value >> 33) * factor % 2**64
        return value ^ value >> 33

    texts = [b"", b"a", b"foobar", bytes(range(256))]
    assert hashes_of(texts).tolist() == [plain(text) for text in texts]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=6), min_size=1, unique=True), st.binary(max_size=6))
def test_lookup_agrees_with_a_dict(texts: list[bytes], other: bytes) -> None:
    index = make_index(texts)
    rows = {text: [row] for row, text in enumerate(texts)}
    for text in [*texts, other]:
        assert index.lookup(text).tolist() == rows.get(text, [])


def test_texts_with_one_hash_are_told_apart() -> None:
    texts = [b"ab", b"cd", b"ef"]
    equal = np.full(3, hashes_of([b"cd"])[0], np.uint64)
    index = make_index(texts, hashes=equal)
    assert index.lookup(b"cd").tolist() == [1]
    assert index.lookup(b"ab").tolist() == []


def test_prefix_and_extension_of_a_member_are_not_members() -> None:
    equal = np.full(3, hashes_of([b"abc"])[0], np.uint64)
    assert make_index([b"ab", b"abcd", b"a"], hashes=equal).lookup(b"abc").tolist() == []


def test_head_and_tail_surround_the_member() -> None:
    index = make_index([b"x", b"y"], heads=(b"<< ",), tail=b">")
    assert index.lookup(b"y").tolist() == [1]
    assert index.lookup(b"<< y>").tolist() == []


def test_both_forms_of_a_member_are_found() -> None:
    rows = [b" x", b"x", b" y", b"y"]
    index = make_index([b"x", b"x", b"y", b"y"], rows, heads=(b"", b" "))
    assert index.lookup(b"x").tolist() == [0, 1]
    assert index.lookup(b"y").tolist() == [2, 3]
    assert index.lookup(b" y").tolist() == []


def test_empty_member_has_no_leading_space() -> None:
    index = make_index([b"", b"x"], rows=[b"p", b"p x"], heads=(b"p ",))
    assert index.lookup(b"").tolist() == []
    index.empty_head = b"p"
    assert index.lookup(b"").tolist() == [0]


def test_rows_of_equal_hashes_are_ascending() -> None:
    hashes = np.array([9, 5, 1, *[5] * 40], np.uint64)
    text_hash, rows = build_text_index(hashes)
    assert text_hash.tolist() == sorted(hashes.tolist())
    assert rows.tolist() == [2, 1, *range(3, 43), 0]


def test_damaged_row_is_no_member_and_no_crash() -> None:
    index = make_index([b"ab"])
    damaged = np.array([97, 10**9], np.int32)
    text_hash, text_row = build_text_index(hashes_of([b"ab"]))
    index = TextIndex(text_hash, text_row, damaged, np.array([0, 2]), BYTES)
    assert index.lookup(b"ab").tolist() == []
