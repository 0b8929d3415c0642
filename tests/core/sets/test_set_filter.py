"""Filters of rows, large sets, sets on torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import EmptySetError, FieldError, UsageError
from cdec.core.mask import allocate_mask
from cdec.core.sets.rows import RowFilter, intersect
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import build_trie
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.sets.set_cases import PlainSet, Row, byte_vocabulary, make_set, source_columns
from tests.laws.sessions import (
    assert_allowed_is,
    assert_session_laws,
    assert_states_agree,
    state_masks,
    states_after,
)
from tools.benchmarks.sets.token_rows import title_rows

# --- Row filters, deny-lists and candidates: smaller sets made of a compiled one.

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


@pytest.mark.slow
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
    assert smaller.facts.denied_unknown == 2 and smaller.n_rows == 2
    assert not smaller.accepts(b"<1><3>") and constraint.accepts(b"<1><3>")
    assert_session_laws(smaller, [[1, 2], [4]], np.random.default_rng(2))
    assert states_after(smaller.session(), [[1, 3]]).tolist() == [-1]


def test_denied_texts_are_normalised_as_the_members_were() -> None:
    vocabulary = Vocabulary(["\u00e9".encode(), b"e", b"\xff", b""], [3])
    constraint = make_set([[0], [1]], vocabulary, options={"normalize": "nfc"})
    smaller = constraint.deny_texts(["e\u0301".encode(), b"\xff"])
    assert (smaller.facts.denied_unknown, smaller.n_rows) == (1, 1)
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


@pytest.mark.slow
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
    assert nested.facts.denied_unknown == 1
    nested = nested.candidates(["<4><5>", "2"])
    assert rows_of(nested) == [[1, 2], [4, 5]]
    assert nested.annotations(b"<4><5>") == {"entity_ids": ["5"]}
    assert_session_laws(nested, [[1, 2], [4, 5]], np.random.default_rng(3))


def rows_of(constraint: object) -> list[list[int]]:
    arrays = constraint.arrays  # type: ignore[attr-defined]
    return [arrays.row(row).tolist() for row in range(arrays.n_rows)]


# --- A set of a million members: random states against binary searches in the sorted rows.

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# --- The torch session: no waiting for the device, static shapes, the same on CUDA if there is
# any.

WAITS = ("_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "is_nonzero", "equal")
"""Operators that copy a value to the host, or whose result's shape is known there only."""


class NoWaiting(TorchDispatchMode):
    """Fails on operators that wait for the device, and records the shapes of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert not name.startswith(WAITS), f"{name} waits for the device"
        if name.startswith(("index", "_index")):
            indices = [i for i in args[1] if i is not None] if isinstance(args[1], list) else []
            assert all(i.dtype not in (torch.bool, torch.uint8) for i in indices), "boolean index"
        result = func(*args, **(kwargs or {}))
        self.calls.append((name, tuple(getattr(result, "shape", ()))))
        return result


def example(*, filtered: bool, ends_itself: bool = False) -> SetConstraint:
    rows = [[0, token, 7] for token in range(300)] + [[token, 3] for token in range(290)]
    rows += [[5, 5, 5, 5, 5]] + ([] if ends_itself else [[0], [0, 4]])
    options = {"suffix_bytes": "3e"} if ends_itself else {}
    constraint = make_set(rows, byte_vocabulary(300, ends=2, padding=50), options=options)
    kept = np.arange(constraint.arrays.n_rows) % 3 != 1
    return constraint.restrict(kept) if filtered else constraint


def step_calls(session: Any, states: torch.Tensor) -> dict[str, Callable[[], object]]:
    n = len(states)
    tokens = torch.arange(n, device=states.device) % 8
    proposed = torch.arange(n * 6, device=states.device).reshape(n, 6) % 300
    mask = allocate_mask(n, 352, session.device)
    return {
        "advance": lambda: session.advance(states, tokens),
        "fill_mask": lambda: session.fill_mask(states, mask),
        "check": lambda: session.check(states, proposed),
        "is_complete": lambda: session.is_complete(states),
    }


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", ["advance", "fill_mask", "check", "is_complete"])
def test_steps_never_wait_and_have_static_shapes(name: str, filtered: bool) -> None:
    session = example(filtered=filtered).session("torch:cpu")
    mixed = states_after(session, [[], [0], [0, 2], [5, 5], [0, 2, 7]])
    batches = [mixed, np.zeros(5, np.int64), np.array([DONE, DEAD, DONE, mixed[3], mixed[4]])]
    traces = []
    for batch in batches:
        call = step_calls(session, torch.from_numpy(batch))[name]
        with NoWaiting() as watch:
            call()
        traces.append(watch.calls)
    assert traces[0] and traces[0] == traces[1] == traces[2]


def test_watch_notices_an_operator_that_waits() -> None:
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        torch.ones(3).nonzero()
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        torch.ones(1).item()
    with NoWaiting(), pytest.raises(AssertionError, match="boolean index"):
        torch.ones(3)[torch.tensor([True, False, True])]


def test_states_mean_the_same_on_every_device() -> None:
    constraint = example(filtered=False)
    prefixes = [[], [0], [0, 4], [0, 4, 7], [5, 5, 5], [8, 3], [8, 3, 300], [9, 9]]
    on_cpu = states_after(constraint.session(), prefixes)
    assert states_after(constraint.session("torch:cpu"), prefixes).tolist() == on_cpu.tolist()


def test_restrictions_share_the_trie_of_a_device() -> None:
    constraint = example(filtered=False)
    whole: Any = constraint.session("torch:cpu")
    again: Any = constraint.session("torch:cpu")
    smaller: Any = constraint.restrict(np.arange(constraint.n_rows) > 3).session("torch:cpu")
    assert whole._trie is again._trie is smaller._trie


def test_results_are_tensors_of_the_documented_types() -> None:
    session: Any = example(filtered=False).session("torch:cpu")
    states = session.start(3)
    assert states.dtype == torch.int64
    assert session.advance(states, torch.tensor([0, 1, 299])).dtype == torch.int64
    assert session.check(states, torch.zeros((3, 2), dtype=torch.int32)).dtype == torch.bool
    for offsets, ids in (session.allowed(states), session.forced(states)):
        assert offsets.dtype == torch.int64 and ids.dtype == torch.int32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("ends_itself", [False, True])
def test_laws_hold_on_cuda_without_synchronisation(filtered: bool, ends_itself: bool) -> None:
    constraint = example(filtered=filtered, ends_itself=ends_itself)
    rng = np.random.default_rng(1)
    members = rows_of(constraint)[:9]
    assert_session_laws(constraint, members, rng, devices=["cpu", "cuda"], max_states=60)
    session: Any = constraint.session("cuda")
    states = torch.from_numpy(states_after(session, [[], [0], [0, 6]])).cuda()
    calls = step_calls(session, states)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for call in calls.values():
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_device_has_one_session_a_restriction() -> None:
    constraint = example(filtered=False)
    smaller = constraint.restrict(np.arange(constraint.n_rows) > 3)
    for one in (constraint, smaller):
        assert one.session("torch:cpu") is one.session("torch:cpu")
    assert smaller.session("torch:cpu") is not constraint.session("torch:cpu")
