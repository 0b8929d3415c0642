"""Loops by their definition alone: every end, every period, byte by byte."""

from __future__ import annotations

from cdec.core.text_warnings import LONGEST_CYCLE, LOOP_BYTES, LOOP_REPEATS

_WHITE = b" \t\n\v\f\r"


def first_loop(text: bytes) -> tuple[int, int] | None:
    """Return where the first loop is complete, and its period (0 for white space)."""
    for end in range(LOOP_BYTES, len(text) + 1):
        if all(byte in _WHITE for byte in text[end - LOOP_BYTES : end]):
            return end, 0
        for period in range(1, LONGEST_CYCLE + 1):
            length = max(LOOP_BYTES, LOOP_REPEATS * period)
            if length <= end and repeats(text[end - length : end], period):
                return end, period
    return None


def repeats(text: bytes, period: int) -> bool:
    return text[period:] == text[: len(text) - period]


def all_loops(text: bytes) -> list[tuple[int, int, int]]:
    """Return first byte, bytes and period of every loop, each as far as it goes."""
    found, start = [], 0
    while (hit := first_loop(text[start:])) is not None:
        end, period = start + hit[0], hit[1]

        def belongs(first: int, last: int, period: int = period) -> bool:
            part = text[first:last]
            return not part.strip(_WHITE) if period == 0 else repeats(part, period)

        first = end - LOOP_BYTES
        while not belongs(first, end):
            first += 1
        while first > start and belongs(first - 1, end):
            first -= 1
        while end < len(text) and belongs(first, end + 1):
            end += 1
        found.append((first, end - first, period))
        start = end
    return found
