"""The benchmark of set masks runs, and its baselines agree with the trie; no timing is asserted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cdec.core.sets.session import SetSession, make_view
from cdec.core.sets.trie import build_trie
from tests.laws.sessions import state_masks
from tools.benchmarks.sets.masks import bench_verification, draw_batches, plain_vocabulary, run
from tools.benchmarks.sets.prefix_baselines import DictTrie
from tools.benchmarks.sets.token_rows import title_rows

SIZE = 400


def test_drawn_rows_are_sorted_distinct_and_prefix_each_other() -> None:
    tokens, offsets = title_rows(5000, SIZE)
    rows = [tuple(tokens[a:b]) for a, b in pairwise(offsets)]
    assert rows == sorted(set(rows)) and 4990 <= len(rows) <= 5000
    assert sum(b[: len(a)] == a for a, b in pairwise(rows)) > 100
    again, _ = title_rows(5000, SIZE)
    np.testing.assert_array_equal(tokens, again)


def test_baselines_allow_what_the_trie_allows() -> None:
    arrays = build_trie(*title_rows(3000, SIZE), SIZE)
    vocabulary = plain_vocabulary(SIZE)
    session = SetSession(make_view(arrays, vocabulary, None, ends_itself=False))
    batches = draw_batches(arrays, session, SIZE, 3)
    trie = DictTrie([arrays.row(row).tolist() for row in range(arrays.n_rows)], end=SIZE)
    scores = trie.processor(SIZE + 1, len(batches[0].states))(batches[0].prefixes)
    masks = state_masks(session, batches[0].states, SIZE + 1)
    np.testing.assert_array_equal((scores == 0).numpy(), masks)
    # Raises where a verified token differs from the trie's answer.
    assert bench_verification(arrays, batches, SIZE).rows == arrays.n_rows


def test_table_names_every_method_once() -> None:
    figures = run(2000, SIZE, n=2)
    names = [figure.method for figure in figures]
    assert len(set(names)) == len(names) and sum("mask" in name for name in names) >= 4
    assert {figure.rows for figure in figures} == {figures[0].rows}
