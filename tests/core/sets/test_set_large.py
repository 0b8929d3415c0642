"""A set of a million members: random states against binary searches in the sorted rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import build_trie
from tests.benchmarks.sets.token_rows import title_rows
from tests.core.sets.set_cases import byte_vocabulary, source_columns
from tests.laws.sessions import assert_states_agree, state_masks, states_after

SIZE = 30_011
MEMBERS = 1_000_000


class NoTexts:
    """No test here looks texts up."""

    heads = (b"",)
    tail = b""

    def lookup(self, text: bytes) -> NDArray[np.int64]:
        raise LookupError(text)


@pytest.fixture(scope="module")
def constraint() -> SetConstraint:
    tokens, offsets = title_rows(MEMBERS, SIZE, seed=1)
    arrays = build_trie(tokens, offsets, SIZE)
    vocabulary = byte_vocabulary(SIZE, ends=2, padding=14)
    return SetConstraint.from_arrays(
        arrays, NoTexts(), vocabulary, {}, source_columns(arrays.n_rows)
    )


def reference_mask(constraint: SetConstraint, prefix: list[int], row: int) -> NDArray[np.bool_]:
    """Return the mask after a prefix of ``row`` by looking at all rows that share the prefix."""
    arrays, depth = constraint.arrays, len(prefix)
    first = last = row
    while first > 0 and arrays.row(first - 1)[:depth].tolist() == prefix:
        first -= 1
    while last + 1 < arrays.n_rows and arrays.row(last + 1)[:depth].tolist() == prefix:
        last += 1
    mask = np.zeros(constraint.vocabulary.width, np.bool_)
    for r in range(first, last + 1):
        rest = arrays.row(r)[depth:]
        mask[[int(rest[0])] if len(rest) else list(constraint.vocabulary.eos_token_ids)] = True
    return mask


def sample_prefixes(
    constraint: SetConstraint, rng: np.random.Generator, n: int
) -> tuple[list[list[int]], NDArray[np.int64]]:
    rows = rng.integers(0, constraint.arrays.n_rows, n)
    whole = [constraint.arrays.row(row).tolist() for row in rows]
    return [row[: rng.integers(1, len(row) + 1)] for row in whole], rows


def test_a_million_members_have_the_masks_of_their_rows(constraint: SetConstraint) -> None:
    rng = np.random.default_rng(2)
    prefixes, rows = sample_prefixes(constraint, rng, 150)
    session = constraint.session()
    masks = state_masks(session, states_after(session, prefixes), constraint.vocabulary.width)
    for prefix, row, mask in zip(prefixes, rows.tolist(), masks, strict=True):
        np.testing.assert_array_equal(mask, reference_mask(constraint, prefix, row))
    firsts = np.unique(constraint.arrays.tokens[constraint.arrays.row_offsets[:-1]])
    root = state_masks(session, session.start(1), constraint.vocabulary.width)[0]
    np.testing.assert_array_equal(root.nonzero()[0], firsts)


def test_a_million_members_are_all_accepted(constraint: SetConstraint) -> None:
    arrays, session = constraint.arrays, constraint.session()
    states = session.start(arrays.n_rows)
    lengths = np.diff(arrays.row_offsets)
    for depth in range(int(lengths.max())):
        moving = np.flatnonzero(lengths > depth)
        tokens = arrays.tokens[arrays.row_offsets[moving] + depth]
        states[moving] = session.advance(states[moving], tokens)
    assert session.is_complete(states).all()
    assert len(np.unique(states)) == len(states)


def test_laws_hold_for_states_of_a_large_set(constraint: SetConstraint) -> None:
    rng = np.random.default_rng(3)
    prefixes, _ = sample_prefixes(constraint, rng, 24)
    smaller = constraint.restrict(rng.random(constraint.arrays.n_rows) < 0.5)
    for device in ("cpu", "torch:cpu"):
        states = states_after(constraint.session(device), prefixes)
        assert_states_agree(constraint.session(device), states, constraint.vocabulary)
        session = smaller.session(device)
        states = np.unique(states_after(session, prefixes))
        assert_states_agree(session, states, constraint.vocabulary)
