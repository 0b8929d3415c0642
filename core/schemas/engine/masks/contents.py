"""Where a string or key may go on with anything, and the masks of the tokens that do."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    address,
    get,
    int32s,
    int32s_at,
    int64s,
    size,
    uint8s,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import (
    begin_frame,
    end_frame,
    first_item,
    frame_end,
    parent,
    phase,
    push,
    state_of,
)
from cdec.core.schemas.engine.objects import regions_fit
from cdec.core.schemas.program import ABSORBING, FREE

__all__ = ["free_content", "ready_row", "state_like"]

_MASK = 0xFFFFFFFF


@inner
def _is_far(e: int, string: int, count: int) -> bool:
    """Say whether no token can come near a string's maximum, or find it below its minimum."""
    most = int64s(e, f.STRING_MAX)[string]
    return count >= int64s(e, f.STRING_MIN)[string] and most - count > get(e, f.FAR)


@inner
def state_like(e: int, state: int) -> int:
    """Return a state with the same mask: numbers of characters far from maxima are as good as one.

    -1 after a lack of room.
    """
    frame = int32s(e, f.STATE_FRAME)[state]
    if phase(e, frame) != f.STRING:
        return state
    items, far = int64s(e, f.FRAME_ITEMS), False
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        far = far or _is_far(e, items[at] & _MASK, items[at + 1] & _MASK)
    if not far:
        return state
    begin_frame(e, f.STRING, parent(e, frame))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        string, b = items[at] & _MASK, items[at + 1]
        if _is_far(e, string, b & _MASK):
            b = b >> 32 << 32 | int64s(e, f.STRING_MAX)[string] - get(e, f.FAR) - 1
        push(e, items[at], b)
    return state_of(e, end_frame(e), int32s(e, f.STATE_MARK)[state])


@inner
def free_content(e: int, state: int) -> int:
    """Say which tokens of content alone are allowed.

    Returns:
        Twice the number of a row of CONTENT_ROWS, plus 1 where the row has escapes, too, and what
        may stand behind the string is the same whatever is in it; -1 where only a walk can tell.
    """
    frame, last = int32s(e, f.STATE_FRAME)[state], size(e, f.CONTENT_READY) - 2
    stage, items, room, steady = phase(e, frame), int64s(e, f.FRAME_ITEMS), -1, 1
    if (stage != f.STRING and stage != f.KEY) or int32s(e, f.STATE_MARK)[state] & ~f.STYLE != 0:
        return -1
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        a, b = items[at], items[at + 1]
        free = uint8s(e, f.STATE_FREE)[b & _MASK if stage == f.KEY else b >> 32]
        if stage == f.KEY:
            if free < FREE or not regions_fit(e, a & _MASK, b >> 32):
                steady = 0
                continue
            more = last
        else:
            most = int64s(e, f.STRING_MAX)[a & _MASK]
            left = most - (b & _MASK)
            more = last
            if most >= 0 and left <= get(e, f.FAR):
                steady = 0
                if free < ABSORBING:
                    continue
                more = min(left, last)
            if free < FREE:
                steady = 0
                continue
            if (b & _MASK) < int64s(e, f.STRING_MIN)[a & _MASK]:
                steady = 0
        if free < ABSORBING:
            steady = 0
        room = max(room, more)
    if room < last and frame_end(e, frame) - first_item(e, frame) > 2:
        # Other items may allow longer content.
        return -1
    if room < 0:
        return -1
    return 2 * last + 3 if steady == 1 else 2 * room


@inner
def ready_row(e: int, most: int) -> int:
    """Return a row once it is written: some characters of content at most, any, or all inside."""
    ready, stride = uint8s(e, f.CONTENT_READY), get(e, f.MASK_STRIDE)
    at = address(e, f.CONTENT_ROWS) + 4 * stride * most
    if ready[most] == 0:
        words, last = int32s_at(at, 0), size(e, f.CONTENT_READY) - 2
        for i in range(stride):
            words[i] = 0
        characters = int32s(e, f.CHARACTERS)
        for token in range(size(e, f.CHARACTERS)):
            count = characters[token]
            if count >= 0 and (count <= most or most == last):
                words[token >> 5] |= 1 << (token & 31)
        ready[most] = 1
    return most
