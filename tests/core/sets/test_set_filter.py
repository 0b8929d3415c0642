"""Row filters, deny-lists and candidates: smaller sets made of a compiled one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import EmptySetError, FieldError, UsageError
from cdec.core.sets.filter import RowFilter, intersect
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.sets.set_cases import PlainSet, Row, byte_vocabulary, make_set
from tests.laws.sessions import assert_allowed_is, assert_session_laws, states_after

DEVICES = ("cpu", "torch:cpu")
ROWS = st.sets(st.lists(st.integers(0, 4), max_size=5).map(tuple), min_size=1, max_size=90)


@given(st.lists(st.booleans(), min_size=1, max_size=300))
@settings(max_examples=80, deadline=None)
def test_rank_counts_the_kept_rows_below(bits: list[bool]) -> None:
    kept = np.array([*bits, True])
    row_filter = RowFilter.from_kept(kept)
    below = np.concatenate([[0], np.cumsum(kept)])
    np.testing.assert_array_equal(row_filter.below(np.arange(len(kept) + 1)), below)
    np.testing.assert_array_equal(row_filter.kept, kept)
    np.testing.assert_array_equal(row_filter.keeps(np.arange(len(kept))), kept)
    assert row_filter.n_kept == kept.sum()


@given(ROWS, st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_restricted_set_is_the_set_of_the_kept_rows(rows: set[Row], seed: int, twice: bool) -> None:
    rng = np.random.default_rng(seed)
    ordered = sorted(rows)
    vocabulary = byte_vocabulary(5, ends=2, padding=30)
    constraint = make_set(ordered, vocabulary)
    kept = rng.random(len(ordered)) < 0.6
    kept[rng.integers(len(ordered))] = True
    smaller = constraint.restrict(kept)
    if twice:
        also = rng.random(len(ordered)) < 0.7
        also[rng.choice(kept.nonzero()[0])] = True
        smaller, kept = smaller.restrict(also), kept & also
    members = [row for row, keep in zip(ordered, kept, strict=True) if keep]
    assert smaller.n_rows == len(members)
    assert smaller.max_tokens == max(map(len, members))
    assert_session_laws(smaller, members, rng, max_states=60)
    plain = PlainSet(members, vocabulary.eos_token_ids, ends_itself=False)
    for device in DEVICES:
        session = smaller.session(device)
        assert_allowed_is(session, plain.prefixes(), plain.allowed, vocabulary.width)
    for row, keep in zip(ordered, kept, strict=True):
        assert smaller.accepts(vocabulary.decode(row)) == keep


@pytest.mark.parametrize("device", DEVICES)
def test_masks_of_dense_nodes_are_filtered(device: str) -> None:
    rng = np.random.default_rng(1)
    rows = [[0, token] for token in range(600)] + [[token, 1, token] for token in range(1, 500)]
    rows += [[2, token] for token in range(300)] + [[2]]
    vocabulary = byte_vocabulary(600, ends=2, padding=71)
    constraint = make_set(rows, vocabulary)
    ordered = sorted({tuple(row) for row in rows})
    kept = rng.random(len(ordered)) < 0.5
    smaller = constraint.restrict(kept)
    members = [row for row, keep in zip(ordered, kept, strict=True) if keep]
    plain = PlainSet(members, vocabulary.eos_token_ids, ends_itself=False)
    for session in (smaller.session(device), smaller.session(device)):
        assert_allowed_is(session, [(), (0,), (2,), ()], plain.allowed, vocabulary.width)
    some = [members[i] for i in rng.choice(len(members), 20)]
    assert_session_laws(smaller, some, rng, devices=[device], max_states=60)
    full = PlainSet(ordered, vocabulary.eos_token_ids, ends_itself=False)
    assert_allowed_is(constraint.session(device), [(), (0,), (2,)], full.allowed, vocabulary.width)


def test_denied_texts_are_gone_and_unknown_ones_counted() -> None:
    vocabulary = byte_vocabulary(9)
    constraint = make_set([[1, 2], [1, 3], [4]], vocabulary)
    smaller = constraint.deny_texts([b"<1><3>", b"<7>", b"nothing"])
    assert smaller.denied_unknown == 2 and smaller.n_rows == 2
    assert not smaller.accepts(b"<1><3>") and constraint.accepts(b"<1><3>")
    assert_session_laws(smaller, [[1, 2], [4]], np.random.default_rng(2))
    assert states_after(smaller.session(), [[1, 3]]).tolist() == [-1]


def test_denied_texts_are_normalised_as_the_members_were() -> None:
    vocabulary = Vocabulary(["\u00e9".encode(), b"e", b"\xff", b""], [3])
    constraint = make_set([[0], [1]], vocabulary, options={"normalize": "nfc"})
    smaller = constraint.deny_texts(["e\u0301".encode(), b"\xff"])
    assert (smaller.denied_unknown, smaller.n_rows) == (1, 1)
    assert smaller.accepts(b"e")


def test_denying_everything_is_an_empty_set() -> None:
    constraint = make_set([[1], [2]], byte_vocabulary(9))
    with pytest.raises(EmptySetError):
        constraint.deny_texts([b"<1>", b"<2>"])
    with pytest.raises(EmptySetError):
        constraint.restrict(np.array([True, False])).restrict(np.array([False, True]))


@pytest.mark.parametrize(
    "kept", [np.ones(3, np.bool_), np.ones(2, np.int64), np.ones((2, 1), bool)]
)
def test_filter_of_another_shape_or_type_is_refused(kept: np.ndarray) -> None:
    with pytest.raises(UsageError, match="bool"):
        intersect(None, kept, 2)


@given(ROWS, st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_candidates_are_the_set_of_these_members(rows: set[Row], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ordered = sorted(rows)
    vocabulary = byte_vocabulary(5, ends=2)
    constraint = make_set(ordered, vocabulary)
    members = [ordered[i] for i in rng.choice(len(ordered), rng.integers(1, 9))]
    smaller = constraint.candidates([vocabulary.decode(row).decode() for row in members])
    assert_session_laws(smaller, members, rng, max_states=60)
    for row, entity in zip(ordered, range(1, len(ordered) + 1), strict=True):
        text = vocabulary.decode(row)
        assert smaller.accepts(text) == (row in members)
        expected = [str(entity)] if row in members else []
        assert smaller.annotations(text) == {"entity_ids": expected}


def test_candidates_may_be_entity_ids_of_the_whole_set() -> None:
    vocabulary = byte_vocabulary(9)
    ids = [["Q1", "Q9"], ["Q2"], ["Q3"], ["Q2"]]
    constraint = make_set([[1], [1, 2], [1, 3], [4]], vocabulary, ids=ids)
    smaller = constraint.candidates(["Q2", "Q9", "<1><3>"])
    assert sorted(map(tuple, rows_of(smaller))) == [(1,), (1, 2), (1, 3), (4,)]
    assert rows_of(constraint.candidates(["Q2"])) == [[1, 2], [4]]
    assert smaller.annotations(b"<1>") == {"entity_ids": ["Q1", "Q9"]}
    assert constraint.candidates(["Q2"]).rows.entity_ids(np.array([1])) == ["Q2"]


def test_candidates_without_ids_are_named_by_line() -> None:
    constraint = make_set([[1], [1, 2], [4]], byte_vocabulary(9))
    assert rows_of(constraint.candidates(["2"])) == [[1, 2]]


def test_unknown_candidates_are_named() -> None:
    constraint = make_set([[1], [2]], byte_vocabulary(9))
    with pytest.raises(FieldError, match="'<7>'") as caught:
        constraint.candidates(["<1>", "<7>", "Q1"])
    assert caught.value.details["unknown"] == ["<7>", "Q1"]
    with pytest.raises(FieldError, match="empty"):
        constraint.candidates([])
    with pytest.raises(FieldError, match="'<2>'"):
        constraint.deny_texts([b"<2>"]).candidates(["<2>"])
    with pytest.raises(FieldError):
        constraint.candidates(["\ud800"])


def test_smaller_sets_nest() -> None:
    vocabulary = byte_vocabulary(9)
    rows = [[1], [1, 2], [1, 3], [4], [4, 5]]
    constraint = make_set(rows, vocabulary)
    nested = constraint.candidates(["<1><2>", "<4>", "<4><5>"]).deny_texts([b"<4>", b"<1>"])
    assert nested.denied_unknown == 1
    nested = nested.candidates(["<4><5>", "2"])
    assert rows_of(nested) == [[1, 2], [4, 5]]
    assert nested.annotations(b"<4><5>") == {"entity_ids": ["5"]}
    assert_session_laws(nested, [[1, 2], [4, 5]], np.random.default_rng(3))


def rows_of(constraint: object) -> list[list[int]]:
    arrays = constraint.arrays  # type: ignore[attr-defined]
    return [arrays.row(row).tolist() for row in range(arrays.n_rows)]
