"""Strings and keys: a byte of their content, escapes decoded, or of the end.

A *mark* says how far an escape is spelled: 0, no escape; else a kind in the bits from 28 on, the
ten bits of a high surrogate from 14 on, digits read from 12 on, and their value. Beside that it
holds the layout's style, which nothing in a string changes.
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import get, int32s, int64s, uint8s, use, used
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import (
    begin_frame,
    end_frame,
    first_item,
    frame_end,
    lacks,
    parent,
    phase,
    push,
    push_work,
    state_of,
    text_of,
)
from cdec.core.schemas.engine.objects import key_may_come
from cdec.core.schemas.engine.texts import longer

__all__ = ["content_byte", "step_automaton"]

_ESCAPE, _UNIT, _HIGH, _HIGH_ESCAPE, _LOW = 1 << 28, 2 << 28, 3 << 28, 4 << 28, 5 << 28
_KIND = 7 << 28
_LAST = 0x10FFFF
_MASK = 0xFFFFFFFF


@inner
def step_automaton(e: int, state: int, byte: int) -> int:
    """Return the state of an automaton after a byte, -1 where there is none."""
    edges, high = int64s(e, f.STATE_EDGES), uint8s(e, f.EDGE_HIGH)
    first, last = edges[state], edges[state + 1]
    while first < last:
        middle = (first + last) >> 1
        if high[middle] < byte:
            first = middle + 1
        else:
            last = middle
    if first < edges[state + 1] and uint8s(e, f.EDGE_LOW)[first] <= byte:
        return int32s(e, f.EDGE_TARGET)[first]
    return -1


@inner
def content_byte(e: int, frame: int, mark: int, byte: int) -> int:
    """Return the state after a byte of a string or key that is no closing quote; -1 if none.

    Args:
        frame: Of phase KEY or STRING.
        mark: Of the state.
        byte: 0 to 255.
    """
    kind, style = mark & _KIND, mark & f.STYLE
    if kind == 0:
        if byte == 0x5C:
            return state_of(e, frame, style | _ESCAPE) if _takes_escape(e, frame) else -1
        return -1 if byte < 0x20 else state_of(e, _fed(e, frame, byte, 1), style)
    if kind == _ESCAPE:
        if byte == 0x75:
            return state_of(e, frame, style | _UNIT) if _takes_unit(e, frame, 0, _LAST) else -1
        plain = -1 if byte == 0x2F and get(e, f.FEW_ESCAPES) != 0 else _escaped(byte)
        return -1 if plain < 0 else state_of(e, _fed(e, frame, plain, 1), style)
    if kind == _HIGH:
        return state_of(e, frame, mark + (_HIGH_ESCAPE - _HIGH)) if byte == 0x5C else -1
    if kind == _HIGH_ESCAPE:
        return state_of(e, frame, mark + (_LOW - _HIGH_ESCAPE)) if byte == 0x75 else -1
    return _digit(e, frame, mark, byte)


@inner
def _escaped(byte: int) -> int:
    """Return what a short escape stands for; -1 where it is none."""
    if byte == 0x22 or byte == 0x5C or byte == 0x2F:
        return byte
    if byte == 0x62:
        return 0x08
    if byte == 0x66:
        return 0x0C
    if byte == 0x6E:
        return 0x0A
    if byte == 0x72:
        return 0x0D
    return 0x09 if byte == 0x74 else -1


@inner
def _hexadecimal(byte: int) -> int:
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    lower = byte | 0x20
    return lower - 0x57 if 0x61 <= lower <= 0x66 else -1


@inner
def _digit(e: int, frame: int, mark: int, byte: int) -> int:
    """Return the state after a hexadecimal digit of a unit, -1 where no character has it."""
    digit = _hexadecimal(byte)
    if digit < 0:
        return -1
    count, high = ((mark >> 12) & 3) + 1, (mark >> 14) & 0x3FF
    value, open_bits = (mark & 0xFFF) << 4 | digit, 4 * (4 - count)
    low, top = value << open_bits, ((value + 1) << open_bits) - 1
    is_low, style = mark & _KIND == _LOW, mark & f.STYLE
    if is_low:
        low, top = max(low, 0xDC00), min(top, 0xDFFF)
        if low > top:
            return -1
        base = 0x10000 + (high << 10) - 0xDC00
        if count == 4:
            return state_of(e, _fed_character(e, frame, base + low), style)
        taken = _takes(e, frame, base + low, base + top)
    elif count == 4:
        needs_none = 0x20 <= value <= 0x7E and get(e, f.FEW_ESCAPES) != 0
        if 0xDC00 <= value <= 0xDFFF or needs_none:
            return -1
        if not 0xD800 <= value <= 0xDBFF:
            return state_of(e, _fed_character(e, frame, value), style)
        first = 0x10000 + ((value - 0xD800) << 10)
        taken = _takes(e, frame, first, first + 0x3FF)
        mark = style | _HIGH | (value - 0xD800) << 14
        return state_of(e, frame, mark) if taken else -1
    else:
        taken = _takes_unit(e, frame, low, min(top, 0xD7FF))
        taken = taken or _takes(e, frame, max(low, 0xE000), top)
        first, last = max(low, 0xD800), min(top, 0xDBFF)
        if first <= last and not taken:
            last = 0x10000 + ((last - 0xD800) << 10) + 0x3FF
            taken = _takes(e, frame, 0x10000 + ((first - 0xD800) << 10), last)
    kept = mark & (_KIND | f.STYLE | 0x3FF << 14)
    return state_of(e, frame, kept | count << 12 | value) if taken else -1


@inner
def _size(code: int) -> int:
    """Return how many bytes a code point has in UTF-8."""
    return 1 + (1 if code > 0x7F else 0) + (1 if code > 0x7FF else 0) + (1 if code > 0xFFFF else 0)


@inner
def _encoded(code: int) -> int:
    """Return a code point's UTF-8, its first byte in the highest bits that are used."""
    n = _size(code)
    if n == 1:
        return code
    if n == 2:
        return (0xC0 | code >> 6) << 8 | 0x80 | code & 0x3F
    tail = (0x80 | (code >> 6) & 0x3F) << 8 | 0x80 | code & 0x3F
    if n == 3:
        return (0xE0 | code >> 12) << 16 | tail
    return (0xF0 | code >> 18) << 24 | (0x80 | (code >> 12) & 0x3F) << 16 | tail


@inner
def _fed_character(e: int, frame: int, code: int) -> int:
    """Return the frame after a character, whatever it is; -1 if none."""
    return _fed(e, frame, _encoded(code), _size(code))


@inner
def _fed(e: int, frame: int, packed: int, n: int) -> int:
    """Return the frame after n bytes, the first in the highest bits of ``packed``; -1 if none."""
    items, is_key = int64s(e, f.FRAME_ITEMS), phase(e, frame) == f.KEY
    begin_frame(e, phase(e, frame), parent(e, frame))
    text = text_of(e, frame)
    if text >= 0:
        for i in range(n):
            text = longer(e, text, (packed >> 8 * (n - 1 - i)) & 0xFF)
        push(e, f.TEXT, text)
    first = (packed >> 8 * (n - 1)) & 0xFF
    begins = 1 if first & 0xC0 != 0x80 else 0
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        a, b = items[at], items[at + 1]
        state = b & _MASK if is_key else b >> 32
        for i in range(n):
            if state >= 0:
                state = step_automaton(e, state, (packed >> 8 * (n - 1 - i)) & 0xFF)
        if state < 0:
            continue
        if is_key:
            if key_may_come(e, a & _MASK, b >> 32, state):
                push(e, a, (b >> 32) << 32 | state)
        else:
            count = _counted(e, a & _MASK, state, (b & _MASK) + begins)
            if count >= 0:
                push(e, a, state << 32 | count)
    return end_frame(e)


@inner
def _counted(e: int, string: int, state: int, count: int) -> int:
    """Return how many characters there were, as far as it matters; -1 where there are too many."""
    most = int64s(e, f.STRING_MAX)[string]
    if most < 0:
        return min(count, int64s(e, f.STRING_MIN)[string])
    return count if count + int32s(e, f.STATE_SHORTEST)[state] <= most else -1


@inner
def _takes(e: int, frame: int, low: int, high: int) -> bool:
    """Say whether some character of a range can come, in any item of a frame."""
    items, is_key = int64s(e, f.FRAME_ITEMS), phase(e, frame) == f.KEY
    if low > high:
        return False
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        a, b = items[at], items[at + 1]
        state = b & _MASK if is_key else b >> 32
        bottom = low
        while bottom <= high:
            # Those of as many bytes in UTF-8.
            n = _size(bottom)
            last = 0x7F if n == 1 else (0x7FF if n == 2 else (0xFFFF if n == 3 else _LAST))
            top = min(high, last)
            if _spells(e, a, b, is_key, state, n, _encoded(bottom), _encoded(top)):
                return True
            bottom = top + 1
    return False


@inner
def _takes_unit(e: int, frame: int, low: int, high: int) -> bool:
    """Say whether some character of a range can come that may be spelled by its number."""
    if get(e, f.FEW_ESCAPES) == 0:
        return _takes(e, frame, low, high)
    return _takes(e, frame, low, min(high, 0x1F)) or _takes(e, frame, max(low, 0x7F), high)


@inner
def _takes_escape(e: int, frame: int) -> bool:
    """Say whether some character can come that may be escaped."""
    if _takes_unit(e, frame, 0, _LAST):
        return True
    return _takes(e, frame, 0x22, 0x22) or _takes(e, frame, 0x5C, 0x5C)


@inner
def _spells(
    e: int, a: int, b: int, is_key: bool, state: int, n: int, bottom: int, top: int
) -> bool:
    """Walk from a state over the n bytes of characters between two, to one that an item takes."""
    begin, edges = used(e, f.WORK), int64s(e, f.STATE_EDGES)
    low, high, target = uint8s(e, f.EDGE_LOW), uint8s(e, f.EDGE_HIGH), int32s(e, f.EDGE_TARGET)
    # An entry: the state, bytes read, whether they are the first ones of ``bottom`` and of ``top``.
    push_work(e, state << 8 | 3)
    found = False
    while used(e, f.WORK) > begin and not found and not lacks(e):
        use(e, f.WORK, used(e, f.WORK) - 1)
        entry = int64s(e, f.WORK)[used(e, f.WORK)]
        state, depth, at_bottom, at_top = entry >> 8, (entry >> 2) & 7, entry & 1, entry >> 1 & 1
        if depth == n:
            if is_key:
                found = key_may_come(e, a & _MASK, b >> 32, state)
            else:
                found = _counted(e, a & _MASK, state, (b & _MASK) + 1) >= 0
            continue
        shift = 8 * (n - 1 - depth)
        least = (bottom >> shift) & 0xFF if at_bottom else 0x80
        most = (top >> shift) & 0xFF if at_top else 0xBF
        for edge in range(edges[state], edges[state + 1]):
            first, last = max(low[edge], least), min(high[edge], most)
            if first > last:
                continue
            after = target[edge] << 8 | (depth + 1) << 2
            is_least, is_most = first == least and at_bottom, last == most and at_top
            if first == last:
                push_work(e, after | (1 if is_least else 0) | (2 if is_most else 0))
                continue
            if is_least:
                push_work(e, after | 1)
            if is_most:
                push_work(e, after | 2)
            if last - first + 1 > (1 if is_least else 0) + (1 if is_most else 0):
                push_work(e, after)
    use(e, f.WORK, begin)
    return found
