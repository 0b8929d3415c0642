"""Which bytes may come in a state, nearly: those that may not are not tried one by one."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import int32s, int64s, uint8s
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import first_item, frame_end, phase

__all__ = ["may_come"]

_MASK = 0xFFFFFFFF


@inner
def may_come(e: int, state: int, byte: int) -> bool:
    """Say whether a byte may come: False is sure, True is not. O(1) if asked before."""
    possible, at = int64s(e, f.STATE_BYTES), 4 * state
    if possible[at] == 0 and possible[at + 1] == 0 and possible[at + 2] | possible[at + 3] == 0:
        _find(e, state)
    return (possible[at + (byte >> 6)] >> (byte & 63)) & 1 != 0


@inner
def _find(e: int, state: int) -> None:
    """Write the bits of a state."""
    frame, mark = int32s(e, f.STATE_FRAME)[state], int32s(e, f.STATE_MARK)[state]
    stage, possible, all_bytes = phase(e, frame), int64s(e, f.STATE_BYTES), int64s(e, f.PHASE_BYTES)
    if stage == f.ROOT_VALUE or stage == f.OBJECT_VALUE or stage == f.ARRAY_VALUE:
        _find_values(e, frame, state)
        return
    if stage < f.KEY or mark & ~f.STYLE != 0:
        for i in range(4):
            possible[4 * state + i] = all_bytes[4 * stage + i]
        return
    items = int64s(e, f.FRAME_ITEMS)
    ends, going = False, False
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        place = items[at + 1] & _MASK if stage == f.KEY else items[at + 1] >> 32
        ends = ends or int32s(e, f.STATE_LABEL)[place] >= 0
        going = _add_edges(e, place, state) or going
    if stage != f.RAW:
        possible[4 * state] |= 1 << 0x22 if ends else 0
        possible[4 * state + 1] |= 1 << (0x5C - 64) if going else 0
    elif ends:
        for i in range(2):
            possible[4 * state + i] |= all_bytes[4 * f.RAW_ENDS + i]


@inner
def _find_values(e: int, frame: int, state: int) -> None:
    """Write the bits of a state that awaits a value: whitespace, and how its values begin."""
    items, possible = int64s(e, f.FRAME_ITEMS), int64s(e, f.STATE_BYTES)
    low, high = int64s(e, f.PHASE_BYTES)[4 * f.ROOT_DONE], 0
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        value = items[at + 1] & _MASK
        strings, arrays = int64s(e, f.STRING_OFFSETS), int64s(e, f.ARRAY_OFFSETS)
        objects, raw = int64s(e, f.OBJECT_OFFSETS), int32s(e, f.RAW_START)[value]
        low |= 1 << 0x22 if strings[value] < strings[value + 1] else 0
        high |= 1 << (0x5B - 64) if arrays[value] < arrays[value + 1] else 0
        high |= 1 << (0x7B - 64) if objects[value] < objects[value + 1] else 0
        if raw >= 0:
            _add_edges(e, raw, state)
    possible[4 * state] |= low
    possible[4 * state + 1] |= high


@inner
def _add_edges(e: int, place: int, state: int) -> bool:
    """Add the bytes that lead on from a state of an automaton; say whether there are any."""
    edges, possible = int64s(e, f.STATE_EDGES), int64s(e, f.STATE_BYTES)
    lows, highs = uint8s(e, f.EDGE_LOW), uint8s(e, f.EDGE_HIGH)
    for edge in range(edges[place], edges[place + 1]):
        for word in range(lows[edge] >> 6, (highs[edge] >> 6) + 1):
            first, last = max(lows[edge], 64 * word) & 63, min(highs[edge], 64 * word + 63) & 63
            bits = -1 << first
            if last < 63:
                bits &= (1 << (last + 1)) - 1
            possible[4 * state + word] |= bits
    return edges[place] < edges[place + 1]
