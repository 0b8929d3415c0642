"""Compiled passes of a step beside plain references: groups, sums of walks, forced tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdec.core.mask import allocate_mask, list_bits, unpack_mask
from cdec.core.native import library
from cdec.samplers.walks.candidates import TrajectoryBuffer
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.frontier import END, NONE
from cdec.samplers.walks.groups import distinct
from cdec.samplers.walks.masks import AllowedIds

_SMALL = st.integers(0, 3)


@given(st.lists(st.tuples(_SMALL, _SMALL, _SMALL), max_size=12))
def test_groups_are_those_of_a_stable_sort(walks: list[tuple[int, int, int]]) -> None:
    request, context, draw = np.array(walks, np.int64).reshape(-1, 3).T.copy()
    keys = list(zip(request.tolist(), context.tolist(), strict=True))
    group = distinct(context, request, draw)
    if group is None:
        assert keys == sorted(set(keys))
        return
    assert group.order.tolist() == np.lexsort((draw, context, request)).tolist()
    places = sorted(set(keys))
    assert [places[i] for i in group.of.tolist()] == keys
    firsts = [keys.index(place) for place in places]
    assert [keys[i] for i in group.first.tolist()] == [keys[i] for i in firsts]
    for place, first in zip(places, group.first.tolist(), strict=True):
        there = [i for i, key in enumerate(keys) if key == place]
        assert draw[first] == min(draw[i] for i in there)


def test_walks_are_summed_up_as_by_numpy_and_what_is_stuck_adds_nothing() -> None:
    rng = np.random.default_rng(0)
    walks, node = np.array([4, 1, 2]), np.array([0, 1, 1])
    log_z, missed = -rng.random(2), np.array([0.0, 0.25])
    tokens, log_p = np.array([7, NONE, END]), np.array([-1.5, -np.inf, -0.25])
    none = np.zeros(0)
    buffer = TrajectoryBuffer(5)
    buffer.add(walks, node, SampledEvents(tokens, log_p, log_z, missed, log_z, none))
    assert buffer.log_p.tolist() == [0, 0, -0.25, 0, -1.5]
    assert buffer.log_x.tolist() == [0, 0, log_z[1], 0, log_z[0]]
    assert buffer.log_kept.tolist() == [0, 0, np.log1p(-0.25), 0, 0]


@given(st.integers(1, 70), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_lists_of_masks_are_the_set_bits(width: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = allocate_mask(rows, width)
    mask[:] = rng.integers(-(2**31), 2**31, mask.shape)
    bits = unpack_mask(mask, 32 * mask.shape[1])
    offsets, ids = list_bits(mask)
    assert offsets.tolist() == [0, *np.cumsum(bits.sum(axis=1)).tolist()]
    assert ids.tolist() == np.nonzero(bits)[1].tolist()


def test_the_only_id_of_a_node_is_forced_unless_it_ends_the_text() -> None:
    is_end = np.zeros(9, np.bool_)
    is_end[8] = True
    offsets, ids = np.array([0, 1, 3, 4, 4]), np.array([5, 1, 2, 8], np.int32)
    which, lists = np.array([0, 2, 3, 4, 5]), np.array([1, 0, 2, 0, 3])
    allowed = AllowedIds(which, lists, offsets, ids, np.array([1]), np.zeros(6))
    assert allowed.only(is_end).tolist() == [-1, -1, 5, -1, 5, -1]
    assert AllowedIds.everything(2).only(is_end).tolist() == [-1, -1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.lists(st.integers(-2, 60), max_size=64, unique=True), st.integers(0, 99))
def test_masses_of_runs_of_ids_are_those_of_single_ones(
    dtype: type, wanted: list[int], seed: int
) -> None:
    ids = np.array(sorted(wanted), np.int32)
    row = np.random.default_rng(seed).standard_normal((1, 56)).astype(dtype)
    values, sums = np.empty(len(ids)), np.empty(1 + len(ids) // 16)
    library.gather_exp(row, 0.5, ids, values, sums)
    inside = (ids >= 0) & (ids < 56)
    expected = np.zeros(len(ids))
    expected[inside] = np.exp(row[0, ids[inside]].astype(np.float64) - 0.5)
    np.testing.assert_allclose(values, expected, rtol=1e-14)
