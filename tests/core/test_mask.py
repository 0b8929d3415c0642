"""Packed masks: the layout, and that numpy and torch agree on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from cdec.core.mask import allocate_mask, apply_mask, mask_words, pack_mask, unpack_mask

BOOLEANS = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=100))


@pytest.mark.parametrize(("width", "words"), [(1, 1), (31, 1), (32, 1), (33, 2), (131072, 4096)])
def test_words_cover_the_width(width: int, words: int) -> None:
    assert mask_words(width) == words


def test_token_i_is_bit_i_mod_32_of_word_i_div_32() -> None:
    width = 100
    for token in (0, 1, 30, 31, 32, 63, 64, 99):
        allowed = np.zeros((1, width), dtype=np.bool_)
        allowed[0, token] = True
        expected = np.zeros(4, dtype=np.uint32)
        expected[token // 32] = np.uint32(1) << np.uint32(token % 32)
        packed = pack_mask(allowed)
        assert packed.dtype == np.int32
        assert packed.tolist() == [expected.view(np.int32).tolist()]


def test_allocated_mask_allows_nothing() -> None:
    host = allocate_mask(3, 70)
    device = allocate_mask(3, 70, "torch:cpu")
    assert isinstance(host, np.ndarray) and host.dtype == np.int32 and host.shape == (3, 3)
    assert isinstance(device, torch.Tensor) and device.dtype == torch.int32
    assert not host.any() and not device.any()


@settings(max_examples=100, deadline=None)
@given(BOOLEANS)
def test_unpacking_gives_back_what_was_packed(allowed: np.ndarray) -> None:
    assert np.array_equal(unpack_mask(pack_mask(allowed), allowed.shape[1]), allowed)


@settings(max_examples=100, deadline=None)
@given(BOOLEANS)
def test_bits_past_the_width_are_never_set(allowed: np.ndarray) -> None:
    packed = pack_mask(allowed)
    whole = unpack_mask(packed, packed.shape[1] * 32)
    assert not whole[:, allowed.shape[1] :].any()


@settings(max_examples=100, deadline=None)
@given(BOOLEANS)
def test_torch_unpacks_as_numpy_does(allowed: np.ndarray) -> None:
    tensor = torch.from_numpy(pack_mask(allowed))
    unpacked = unpack_mask(tensor, allowed.shape[1])
    assert unpacked.dtype == torch.bool
    assert np.array_equal(unpacked.numpy(), allowed)


@settings(max_examples=60, deadline=None)
@given(BOOLEANS, st.integers(0, 2**32 - 1))
def test_blocked_logits_become_minus_infinity_and_the_others_stay(
    allowed: np.ndarray, seed: int
) -> None:
    logits = np.random.default_rng(seed).normal(size=allowed.shape).astype(np.float32)
    expected = np.where(allowed, logits, np.float32(-np.inf))
    mask = pack_mask(allowed)
    tensor = torch.from_numpy(logits.copy())
    assert apply_mask(tensor, mask) is tensor
    assert np.array_equal(tensor.numpy(), expected)
    mixed = apply_mask(logits.copy(), torch.from_numpy(mask))
    assert np.array_equal(mixed, expected)
    assert apply_mask(logits, mask) is logits
    assert np.array_equal(logits, expected)


def test_apply_takes_half_precision_and_a_torch_mask() -> None:
    logits = torch.zeros((1, 40), dtype=torch.bfloat16)
    allowed = np.arange(40)[None] % 3 == 0
    apply_mask(logits, torch.from_numpy(pack_mask(allowed)))
    assert np.array_equal(torch.isfinite(logits).numpy(), allowed)


def test_rows_of_a_non_contiguous_mask_unpack_alike() -> None:
    allowed = np.random.default_rng(0).random((6, 77)) < 0.5
    packed = pack_mask(allowed)
    assert np.array_equal(unpack_mask(packed[::2], 77), allowed[::2])
    assert np.array_equal(unpack_mask(torch.from_numpy(packed)[::2], 77).numpy(), allowed[::2])


def test_mask_without_rows_unpacks_on_both_kinds() -> None:
    assert unpack_mask(allocate_mask(0, 70), 70).shape == (0, 70)
    assert tuple(unpack_mask(allocate_mask(0, 70, "torch:cpu"), 70).shape) == (0, 70)
