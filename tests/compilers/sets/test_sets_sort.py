"""Rows are sorted as Python sorts lists, equal rows in input order, however they are collected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cdec.compilers.sets.rows import merge_runs, sort_rows

Rows = list[list[int]]


def flat(rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    tokens = np.fromiter(chain.from_iterable(rows), np.int32)
    return tokens, np.cumsum([0, *map(len, rows)]).astype(np.int64)


def sorted_order(rows: Rows) -> list[int]:
    return sorted(range(len(rows)), key=lambda i: (rows[i], i))


def check(rows: Rows, vocabulary_size: int) -> None:
    assert sort_rows(*flat(rows), vocabulary_size).tolist() == sorted_order(rows)


def check_merge(rows: Rows, cuts: Sequence[int]) -> None:
    """Sort the pieces between cuts for themselves, then merge them."""
    bounds = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    pieces = [rows[a:b] for a, b in pairwise(bounds)]
    arranged = [piece[i] for piece in pieces for i in sorted_order(piece)]
    run_offsets = np.array(bounds, np.int64)
    assert merge_runs(*flat(arranged), run_offsets).tolist() == sorted_order(arranged)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=120),
    st.sampled_from([4, 300, 50_257, 2**20, 2**31 - 1]),
    st.lists(st.integers(0, 200), max_size=5),
)
def test_small_alphabets(rows: Rows, vocabulary_size: int, cuts: list[int]) -> None:
    check(rows, vocabulary_size)
    check_merge(rows, cuts)


@pytest.mark.parametrize("size", [2, 255, 256, 65_535, 65_536, 131_072, 2**31 - 1])
def test_largest_and_smallest_ids(size: int) -> None:
    rng = np.random.default_rng(size)
    ids = [0, 1, size // 2, size - 2, size - 1]
    rows = [rng.choice(ids, size=n).tolist() for n in rng.integers(0, 12, size=400).tolist()]
    check(rows, size)


def test_prefix_sorts_before_its_continuations() -> None:
    assert sort_rows(*flat([[5, 0], [5], [], [5, 0, 0]]), 9).tolist() == [2, 1, 0, 3]


def test_many_equal_rows_stay_in_input_order() -> None:
    rng = np.random.default_rng(0)
    kinds = [[7] * 3, [7] * 4, [7] * 40, [7, 8], []]
    check([kinds[i] for i in rng.integers(len(kinds), size=3000).tolist()], 50_257)


def test_long_shared_prefixes() -> None:
    rng = np.random.default_rng(1)
    stem = rng.integers(0, 50_000, size=500).tolist()
    rows = [[*stem[: rng.integers(400, 500)], int(rng.integers(0, 3))] for _ in range(2000)]
    check([[9] * 10 + row for row in rows], 50_257)


def test_one_row() -> None:
    assert sort_rows(*flat([[]]), 5).tolist() == [0]
    assert sort_rows(*flat([[1, 2]]), 5).tolist() == [0]
    assert merge_runs(*flat([[1, 2]]), np.array([0, 0, 1, 1])).tolist() == [0]
