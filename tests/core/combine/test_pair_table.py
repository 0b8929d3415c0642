"""Pairs as numbers: equal pairs have equal numbers, in the order in which they are first seen."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.combine.wrapped import PairTable


def test_equal_pairs_have_equal_numbers() -> None:
    rng = np.random.default_rng(0)
    table, known = PairTable(), dict[tuple[int, int], int]()
    for _ in range(40):
        n = int(rng.integers(0, 400))
        left = rng.integers(-3, 30, n) << rng.integers(0, 40)
        right = rng.integers(-3, 30, n) << rng.integers(0, 40)
        numbers = table.intern(left, right)
        for pair in zip(left.tolist(), right.tolist(), strict=True):
            known.setdefault(pair, len(known))
        assert numbers.tolist() == [
            known[pair] for pair in zip(left.tolist(), right.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(np.stack(table.pairs(numbers)), [left, right])
    assert len(table) == len(known)
    with pytest.raises(IndexError):
        table.pairs(np.array([len(known)]))
