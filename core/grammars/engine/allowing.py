"""Whether a token is allowed, without the stacks behind it: what masks and checks ask."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import call4, get, int32s, size, span, uint8s_at
from cdec.core.grammars.engine.readings import next_state, row_of, step_over
from cdec.core.grammars.engine.shifts import can_shift, can_shift_any
from cdec.core.kernels import inner

__all__ = ["compute_allowed", "is_allowed"]


@inner
def is_allowed(e: int, text: int, length: int, n: int) -> bool:
    """Say whether a token is allowed after the first n of READINGS; they are left before its end.

    No stack is made for a terminal that ends with the token, which may be most of the work.
    """
    return call4(get(e, f.CALL_ALLOWED), e, text, length, n) != 0


@inner
def compute_allowed(e: int, text: int, length: int, n: int) -> int:
    """Do the work of ``is_allowed``."""
    if length < 1:
        return 0
    lookahead, general = get(e, f.LOOKAHEAD), get(e, f.GENERAL) != 0
    n = step_over(e, text, length - 1, n)
    byte_class = int32s(e, f.BYTE_CLASS)[uint8s_at(text, 0)[length - 1]]
    readings, offsets = int32s(e, f.READINGS), int32s(e, f.MATCH_OFFSETS)
    for i in range(n):
        at, stack = next_state(e, readings[3 * i], byte_class), readings[3 * i + 1]
        if at < 0:
            continue
        low, high = span(offsets, row_of(e, at), size(e, f.MATCH_TERMINALS))
        if readings[3 * i + 2] <= lookahead:
            live = int32s(e, f.LIVE_ROW)[row_of(e, at)]
            if can_shift_any(e, stack, live) or _ends_any(e, stack, low, high):
                return 1
        if high == low + 1 and not general:
            break
    return 0


@inner
def _ends_any(e: int, stack: int, low: int, high: int) -> bool:
    """Say whether one of some matched terminals can be shifted, or is ignored."""
    for match in range(low, high):
        terminal = int32s(e, f.MATCH_TERMINALS)[match]
        if terminal < 0 or terminal >= get(e, f.TERMINALS):
            continue
        if int32s(e, f.IGNORED)[terminal] != 0 or can_shift(e, stack, terminal):
            return True
    return False
