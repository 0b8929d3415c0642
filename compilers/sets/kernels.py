"""Compiled loops over texts and token rows: checks, offsets, copies of picked rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel

FINE, NOT_ORDINARY, NOT_THE_TEXT = 0, 1, 2
"""Verdicts of ``check_rows``."""


@kernel
def text_offsets(
    data: NDArray[np.uint8], characters: NDArray[np.int64], offsets: NDArray[np.int64]
) -> None:
    """Turn lengths in characters into offsets in bytes.

    Args:
        data: uint8[...] UTF-8 of all texts, one after another.
        characters: int64[n] length of each text in characters.
        offsets: int64[n + 1], written.
    """
    at = 0
    offsets[0] = 0
    for i in range(len(characters)):
        left = characters[i]
        while left > 0:
            first = data[at]
            at += 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            left -= 1
        offsets[i + 1] = at


@kernel
def find_blank(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], blank: NDArray[np.bool_]
) -> int:
    """Mark the texts that hold nothing but ASCII white space; return how many there are."""
    found = 0
    for i in range(len(blank)):
        blank[i] = True
        for k in range(offsets[i], offsets[i + 1]):
            if data[k] != 32 and (data[k] < 9 or data[k] > 13):
                blank[i] = False
                break
        found += blank[i]
    return found


@inner
def _differs(
    expected: NDArray[np.uint8], start: int, stop: int, data: NDArray[np.uint8], at: int
) -> int:
    """Compare ``expected[start:stop]`` with ``data`` at ``at``; number of equal leading bytes."""
    n = min(stop - start, len(data) - at)
    for k in range(n):
        if expected[start + k] != data[at + k]:
            return k
    return n


@kernel
def check_rows(
    tokens: NDArray[np.int32],
    row_offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    head: NDArray[np.uint8],
    empty_head: NDArray[np.uint8],
    tail: NDArray[np.uint8],
    flat: NDArray[np.uint8],
    byte_offsets: NDArray[np.int64],
    verdicts: NDArray[np.int8],
) -> int:
    """Check that every row consists of ordinary tokens and decodes to head + text + tail.

    Args:
        tokens: int32[T] flat tokens of the rows.
        row_offsets: int64[n + 1].
        data: uint8[...] texts; text i is ``data[offsets[i]:offsets[i + 1]]``.
        offsets: int64[n + 1].
        head: uint8[...] bytes before every text.
        empty_head: uint8[...] bytes before an empty text; no longer than ``head``.
        tail: uint8[...] bytes after it.
        flat: uint8[...] bytes of all token ids.
        byte_offsets: int64[V + 1]; an id without bytes is no ordinary token.
        verdicts: int8[n], written.

    Returns:
        Number of rows that are not FINE. O(T + bytes).
    """
    bad = 0
    longest = 0
    for i in range(len(verdicts)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    expected = np.empty(longest + len(head) + len(tail), np.uint8)
    for i in range(len(verdicts)):
        before = head if offsets[i + 1] > offsets[i] else empty_head
        size = len(before)
        for k in range(size):
            expected[k] = before[k]
        for k in range(offsets[i], offsets[i + 1]):
            expected[size] = data[k]
            size += 1
        for k in range(len(tail)):
            expected[size] = tail[k]
            size += 1
        at = 0
        verdict = FINE
        for k in range(row_offsets[i], row_offsets[i + 1]):
            token = tokens[k]
            if token < 0 or token + 1 >= len(byte_offsets):
                verdict = NOT_ORDINARY
                break
            begin = byte_offsets[token]
            length = byte_offsets[token + 1] - begin
            if length == 0:
                verdict = NOT_ORDINARY
                break
            if at + length > size or _differs(flat, begin, begin + length, expected, at) < length:
                verdict = NOT_THE_TEXT
                break
            at += length
        if verdict == FINE and at != size:
            verdict = NOT_THE_TEXT
        verdicts[i] = verdict
        bad += verdict != FINE
    return bad


@kernel
def spell_rows(
    tokens: NDArray[np.int32],
    row_offsets: NDArray[np.int64],
    flat: NDArray[np.uint8],
    byte_offsets: NDArray[np.int64],
    verdicts: NDArray[np.int8],
) -> Any:
    """Write out the bytes of token rows: uint8[...] and offsets int64[n + 1].

    A row with a token that is not ordinary (see ``check_rows``) gives no bytes.
    """
    offsets = np.zeros(len(verdicts) + 1, np.int64)
    for i in range(len(verdicts)):
        size = 0
        verdicts[i] = FINE
        for k in range(row_offsets[i], row_offsets[i + 1]):
            token = tokens[k]
            if token < 0 or token + 1 >= len(byte_offsets):
                verdicts[i] = NOT_ORDINARY
                break
            length = byte_offsets[token + 1] - byte_offsets[token]
            if length == 0:
                verdicts[i] = NOT_ORDINARY
                break
            size += length
        offsets[i + 1] = offsets[i] + (size if verdicts[i] == FINE else 0)
    data = np.empty(offsets[-1], np.uint8)
    for i in range(len(verdicts)):
        at = offsets[i]
        if verdicts[i] != FINE:
            continue
        for k in range(row_offsets[i], row_offsets[i + 1]):
            for b in range(byte_offsets[tokens[k]], byte_offsets[tokens[k] + 1]):
                data[at] = flat[b]
                at += 1
    return data, offsets


@kernel
def mark_distinct(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    first: NDArray[np.bool_],
) -> int:
    """Mark, in sorted order, the first of each run of equal rows; return how many there are."""
    found = 0
    for i in range(len(order)):
        first[i] = True
        if i > 0:
            a, b = offsets[order[i - 1]], offsets[order[i]]
            size = offsets[order[i] + 1] - b
            if offsets[order[i - 1] + 1] - a == size:
                k = 0
                while k < size and tokens[a + k] == tokens[b + k]:
                    k += 1
                first[i] = k < size
        found += first[i]
    return found


@kernel
def gather_offsets(
    offsets: NDArray[np.int64], picked: NDArray[np.int64], result: NDArray[np.int64]
) -> None:
    """Write the offsets, int64[n + 1], that the picked pieces have one after another."""
    result[0] = 0
    for i in range(len(picked)):
        result[i + 1] = result[i] + offsets[picked[i] + 1] - offsets[picked[i]]


@kernel
def gather(values: Any, offsets: NDArray[np.int64], picked: NDArray[np.int64], result: Any) -> None:
    """Copy the picked pieces of a flat array one after another into ``result``."""
    at = 0
    for i in range(len(picked)):
        for k in range(offsets[picked[i]], offsets[picked[i] + 1]):
            result[at] = values[k]
            at += 1
