"""The trie builder: levels, links, counts and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import EmptySetError, UsageError
from cdec.core.mask import unpack_mask
from cdec.core.sets.trie import DENSE_DEGREE, DTYPES, END, SetArrays, build_trie
from tests.core.sets.set_cases import Row, flat_rows

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
    assert {name: array.dtype.type for name, array in arrays.items()} == dict(DTYPES)
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
