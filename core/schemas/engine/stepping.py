"""Steps by bytes and tokens, remembered ones first."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import call3, get, int32s, int64s, uint8s
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f

__all__ = ["step", "step_token"]


@inner
def step(e: int, state: int, byte: int) -> int:
    """Return the state after a byte, -1 for none. O(1) if done before."""
    block = int32s(e, f.STATE_BLOCKS)[8 * state + (byte >> 5)]
    if block >= 0:
        known = int32s(e, f.BLOCKS)[32 * block + (byte & 31)]
        if known != f.UNKNOWN:
            return known
    return call3(get(e, f.CALL_STEP), e, state, byte)


@inner
def step_token(e: int, state: int, token: int) -> int:
    """Return the state after a token's bytes, -1 where it is not allowed, or has none."""
    offsets, text = int64s(e, f.VOCABULARY_OFFSETS), uint8s(e, f.VOCABULARY_BYTES)
    first, last = offsets[token], offsets[token + 1]
    if first == last:
        return -1
    for i in range(first, last):
        state = step(e, state, text[i])
        if state < 0:
            return -1
    return state
