"""Packed token masks: the only file that knows the bit layout.

A mask is ``int32[batch, ceil(width / 32)]``; token ``i`` is bit ``i % 32`` of word ``i // 32``, the
layout serving engines use. ``width`` is the logits width; bits past the vocabulary are never set.
The arrays are numpy on the CPU and torch tensors on a device; both kinds hold the same bits. What
a numpy mask allows is listed here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.native import library

WORD_BITS = 32
_MASK_BYTES = 4 << 20
"""Bytes of masks that are filled at once."""

Fill = Callable[[NDArray[np.int64], NDArray[np.int32]], None]
"""A session's ``fill_mask``."""


def mask_words(width: int) -> int:
    """Return how many int32 words hold ``width`` bits."""
    return (width + WORD_BITS - 1) // WORD_BITS


def allocate_mask(n: int, width: int, device: str = "cpu") -> Any:
    """Return an all-zero mask (nothing allowed) for ``n`` states.

    Args:
        n: Number of rows.
        width: Logits width, in tokens.
        device: ``cpu`` for a numpy array, else a torch device (``cuda``, ``torch:cpu``).

    Returns:
        int32[n, ceil(width / 32)].
    """
    shape = (n, mask_words(width))
    if device == "cpu":
        return np.zeros(shape, dtype=np.int32)
    import torch

    return torch.zeros(shape, dtype=torch.int32, device=device.removeprefix("torch:"))


def pack_mask(allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Pack booleans ``bool[n, width]`` into a mask ``int32[n, words]``."""
    n, width = allowed.shape
    padded = np.zeros((n, mask_words(width) * WORD_BITS), dtype=np.bool_)
    padded[:, :width] = allowed
    packed = np.packbits(padded, axis=1, bitorder="little")
    return packed.view("<i4").astype(np.int32, copy=False)


def unpack_mask(mask: Any, width: int) -> Any:
    """Return a mask as booleans, ``bool[n, width]``, of the mask's own kind."""
    if isinstance(mask, np.ndarray):
        little = np.ascontiguousarray(mask).astype("<i4", copy=False).view(np.uint8)
        return np.unpackbits(little, axis=1, count=width, bitorder="little").astype(np.bool_)
    import torch

    shifts = torch.arange(WORD_BITS, dtype=torch.int32, device=mask.device)
    bits = (mask.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(1)[:, :width].bool()


def apply_mask(logits: Any, mask: Any) -> Any:
    """Set the logits of tokens that are not allowed to -inf, in place.

    Args:
        logits: float[n, width], numpy or torch, any device.
        mask: int32[n, ceil(width / 32)], numpy or torch.

    Returns:
        ``logits``. Cost: one pass over it. A sampler that needs allowed tokens only should gather
        them with ``Session.allowed`` instead and never touch the rest.
    """
    width = int(logits.shape[-1])
    if isinstance(logits, np.ndarray):
        host = mask if isinstance(mask, np.ndarray) else mask.cpu().numpy()
        np.copyto(logits, -np.inf, where=~unpack_mask(host, width))
        return logits
    import torch

    if isinstance(mask, np.ndarray) and logits.device.type == "cpu":
        # numpy unpacks bits several times as fast; a device gets them packed.
        blocked = torch.from_numpy(~unpack_mask(mask, width))
    else:
        tensor = torch.from_numpy(mask) if isinstance(mask, np.ndarray) else mask
        blocked = ~unpack_mask(tensor.to(logits.device, non_blocking=True), width)
    return logits.masked_fill_(blocked, float("-inf"))


def count_bits(mask: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return how many tokens each row of a mask ``int32[n, words]`` allows, int64[n].

    Args:
        mask: C-contiguous.
    """
    return np.diff(_bit_offsets(mask))


def _bit_offsets(mask: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the running totals of the tokens that the rows of a mask allow, int64[n + 1]."""
    offsets = np.empty(len(mask) + 1, np.int64)
    library.count_bits(mask.view(np.uint32), offsets)
    return offsets


def list_bits(mask: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the tokens that masks allow: offsets int64[n + 1], ids int32[...] ascending by row.

    Args:
        mask: int32[n, words], C-contiguous.
    """
    offsets = _bit_offsets(mask)
    ids = np.empty(offsets[-1], np.int32)
    library.list_bits(mask.view(np.uint32), offsets, ids)
    return offsets, ids


def find_only(mask: NDArray[np.int32], end_ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the only event that each row of a mask allows, int32[n]; -1 for none or a choice.

    Args:
        mask: int32[n, words], C-contiguous.
        end_ids: int64[E] ascending: they count as one event, given as the smallest that is set.
    """
    only = np.empty(len(mask), np.int32)
    library.find_only(mask.view(np.uint32), end_ids, only)
    return only


def allowed_of_masks(
    fill: Fill, states: NDArray[np.int64], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what a session's ``allowed`` does, read off its masks of ``words`` int32 each."""
    parts = [list_bits(mask) for mask in _masks(fill, states, words)]
    if len(parts) == 1:
        return parts[0]
    offsets = offsets_of([n for starts, _ in parts for n in np.diff(starts).tolist()])
    return offsets, np.concatenate([ids for _, ids in parts] or [np.empty(0, np.int32)])


def forced_of_masks(
    fill: Fill, states: NDArray[np.int64], words: int, end_ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what a session's ``forced`` does, read off its masks of ``words`` int32 each."""
    parts = [find_only(mask, end_ids) for mask in _masks(fill, states, words)]
    return forced_rows(np.concatenate(parts or [np.empty(0, np.int32)]))


def forced_rows(only: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what ``forced`` does of the only event of each state, int32[n], -1 for none."""
    return offsets_of(only >= 0), only[only >= 0]


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where ranges of these lengths, [n], begin and the last ends, int64[n + 1]."""
    counts = np.asarray(lengths)
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _masks(fill: Fill, states: NDArray[np.int64], words: int) -> Iterator[NDArray[np.int32]]:
    """Yield the masks of the states in their order, some at a time."""
    step = max(1, _MASK_BYTES // (4 * words))
    for first in range(0, len(states), step):
        some = states[first : first + step]
        mask = np.empty((len(some), words), np.int32)
        fill(some, mask)
        yield mask
