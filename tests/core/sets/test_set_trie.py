"""The trie of a set, and the index of its texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cdec.core.errors import EmptySetError, UsageError
from cdec.core.mask import unpack_mask
from cdec.core.sets.members import TextIndex, build_text_index, hash_texts
from cdec.core.sets.trie import DENSE_DEGREE, DTYPES, END, SetArrays, build_trie
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.sets.set_cases import Row, flat_rows

# --- The trie builder: levels, links, counts and what it refuses.

ROWS = st.sets(st.lists(st.integers(0, 4), max_size=6).map(tuple), min_size=1, max_size=40)


def leaves(arrays: SetArrays) -> list[tuple[Row, Row, int]]:
    """Return (prefix, rest of the row, row) of all leaves, depth first."""
    found = []
    stack: list[tuple[int, Row]] = [(0, ())]
    while stack:
        node, prefix = stack.pop()
        row, link = int(arrays.node_row[node]), int(arrays.node_link[node])
        degree = int(arrays.node_degree[node])
        if not degree:
            rest = arrays.tokens[link : arrays.row_offsets[row + 1]]
            found.append((prefix, tuple(rest.tolist()), row))
        for child in range(link + degree - 1, link - 1, -1) if degree else ():
            token = int(arrays.node_token[child])
            stack.append((child, prefix if token == END else (*prefix, token)))
    return found


@given(ROWS)
@settings(max_examples=150, deadline=None)
def test_leaves_spell_the_rows_in_order(rows: set[Row]) -> None:
    arrays = build_trie(*flat_rows(rows))
    spelled = [(prefix + rest, row) for prefix, rest, row in leaves(arrays)]
    assert spelled == [(row, i) for i, row in enumerate(sorted(rows))]


@given(ROWS)
@settings(max_examples=150, deadline=None)
def test_trie_is_cut_at_the_first_unique_row(rows: set[Row]) -> None:
    arrays = build_trie(*flat_rows(rows))
    for prefix, rest, row in leaves(arrays):
        sharers = [r for r in rows if r[: len(prefix)] == prefix]
        assert len(sharers) == 1 or (rest == () and prefix == sorted(rows)[row])
        if prefix and len(sharers) == 1:
            assert sum(r[: len(prefix) - 1] == prefix[:-1] for r in rows) > 1


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_nodes_stand_in_level_order_with_sorted_children(rows: set[Row]) -> None:
    arrays = build_trie(*flat_rows(rows))
    next_child = 1
    for node in range(arrays.n_nodes):
        degree = int(arrays.node_degree[node])
        if not degree:
            assert arrays.node_count[node] == 1
            continue
        assert arrays.node_link[node] == next_child > node
        children = slice(next_child, next_child + degree)
        assert (np.diff(arrays.node_token[children]) > 0).all()
        assert arrays.node_count[children].sum() == arrays.node_count[node] > 1
        assert arrays.node_row[next_child] == arrays.node_row[node]
        next_child += degree
    assert next_child == arrays.n_nodes


def test_worked_example_of_the_module() -> None:
    arrays = build_trie(*flat_rows([[5], [5, 7], [5, 8, 9], [6, 2]]))
    assert arrays.node_token.tolist() == [END, 5, 6, END, 7, 8]
    assert arrays.node_degree.tolist() == [2, 3, 0, 0, 0, 0]
    assert arrays.node_link.tolist() == [1, 3, 7, 1, 3, 5]
    assert arrays.node_row.tolist() == [0, 0, 3, 0, 1, 2]
    assert arrays.node_count.tolist() == [4, 3, 1, 1, 1, 1]


def test_single_row_is_a_root_without_children() -> None:
    arrays = build_trie(*flat_rows([[3, 1, 2]]))
    assert arrays.n_nodes == 1
    assert arrays.node_degree.tolist() == [0] and arrays.node_link.tolist() == [0]


def test_only_nodes_of_high_degree_have_dense_masks() -> None:
    wide = [[0, token] for token in range(0, 2 * DENSE_DEGREE, 2)]
    narrow = [[1, token] for token in range(DENSE_DEGREE - 1)]
    arrays = build_trie(*flat_rows([*wide, *narrow, [0]]), vocabulary_size=777)
    assert arrays.node_token[arrays.dense_nodes].tolist() == [0]
    assert arrays.dense_words == 25
    bits = unpack_mask(arrays.dense_masks.reshape(1, -1), 800)[0]
    assert bits.nonzero()[0].tolist() == [token for _, token in wide]


def test_arrays_are_read_only_and_of_the_documented_types() -> None:
    arrays = build_trie(*flat_rows([[1], [2]])).to_mapping()
    assert {name: array.dtype.name for name, array in arrays.items()} == dict(DTYPES)
    assert not any(array.flags.writeable for array in arrays.values())


@pytest.mark.parametrize(
    "rows", [[[2], [1]], [[1], [1]], [[1, 2], [1]], [[1, 2, 3], [1, 2, 2]], [[], []]]
)
def test_rows_out_of_order_are_refused(rows: list[list[int]]) -> None:
    tokens = np.array([token for row in rows for token in row], np.int32)
    with pytest.raises(UsageError, match="row 1 does not come after row 0"):
        build_trie(tokens, np.cumsum([0, *map(len, rows)]))


def test_no_rows_are_refused() -> None:
    with pytest.raises(EmptySetError):
        build_trie(np.empty(0, np.int32), np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("tokens", "offsets"),
    [([1, 2], [0, 3]), ([1, 2], [1, 2]), ([1, 2, 3], [0, 2, 1, 3]), ([-1, 2], [0, 2])],
)
def test_rows_that_make_no_sense_are_refused(tokens: list[int], offsets: list[int]) -> None:
    with pytest.raises(UsageError):
        build_trie(np.array(tokens, np.int32), np.array(offsets))


def test_token_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(UsageError, match="token id 9"):
        build_trie(*flat_rows([[1, 9]]), vocabulary_size=9)


# --- The text index finds exactly the rows of a text, also where hashes collide.

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
