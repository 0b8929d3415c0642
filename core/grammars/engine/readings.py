"""Ways to read the bytes so far as terminals, moved byte by byte over the bytes of a token.

A *reading* is three int32: the scanner's state, the parser's stack, and the number of terminals
that ended within the token at hand (0 unless the session has a lookahead). A scanner state before
the first byte of a terminal is written with the number of scanner states added to it: the text may
end there, while in the middle of a terminal it may not.

The readings at work stand in the field READINGS: for the deterministic parser in order of
precedence (each is the fallback of the one before it), for the generalised parser as a set.
"""

from __future__ import annotations

from cdec.core.grammars.columns import RELATIVE
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import beneath
from cdec.core.grammars.engine.pointers import (
    Pointer,
    call4,
    get,
    int32s,
    int64s,
    lack,
    size,
    span,
    uint8s_at,
)
from cdec.core.grammars.engine.shifts import can_shift_any, shift
from cdec.core.grammars.engine.stacks import union
from cdec.core.kernels import inner

__all__ = [
    "after_terminal",
    "compute_over",
    "compute_read",
    "is_live",
    "next_state",
    "read_text",
    "row_of",
    "start_of",
    "step_over",
    "unite",
]


@inner
def start_of(e: int, stack: int, terminal: int) -> int:
    """Return the reading state after a terminal: the start of its context, marked as a start."""
    if get(e, f.GENERAL) != 0:
        context = int32s(e, f.TERMINAL_CONTEXT)[terminal]
    else:
        context = int32s(e, f.LR_CONTEXT)[int32s(e, f.VERTEX_STATE)[beneath(e, stack)]]
    if context < 0 or context >= get(e, f.CONTEXTS):
        return -1
    return int32s(e, f.CONTEXT_START)[context] + get(e, f.SCANNER_STATES)


@inner
def after_terminal(e: int, stack: int, terminal: int) -> int:
    """Return the stack after a completed terminal (the same after an ignored one), or FAIL."""
    if terminal < 0 or terminal >= get(e, f.TERMINALS):
        return f.FAIL
    if int32s(e, f.IGNORED)[terminal] != 0:
        return stack
    return shift(e, stack, terminal)


@inner
def read_text(e: int, text: int, length: int, n: int) -> int:
    """Move the first n of READINGS over the bytes of a token; return how many are left.

    0: the token is not allowed. ``text`` is the address of the bytes. A negative n says that the
    session's lookahead does not apply.
    """
    return call4(get(e, f.CALL_READ), e, text, length, n)


@inner
def compute_read(e: int, text: int, length: int, n: int) -> int:
    """Do the work of ``read_text``."""
    lookahead = get(e, f.LOOKAHEAD) if n >= 0 else f.UNLIMITED
    left = _step_over(e, uint8s_at(text, 0), length, abs(n), lookahead != f.UNLIMITED)
    return _finish(e, left, lookahead)


@inner
def step_over(e: int, text: int, length: int, n: int) -> int:
    """Move the first n of READINGS over some bytes within a token; return how many are left."""
    return call4(get(e, f.CALL_OVER), e, text, length, n)


@inner
def compute_over(e: int, text: int, length: int, n: int) -> int:
    """Do the work of ``step_over``."""
    return _step_over(e, uint8s_at(text, 0), length, n, get(e, f.LOOKAHEAD) != f.UNLIMITED)


@inner
def _step_over(e: int, text: Pointer, length: int, n: int, counts: bool) -> int:
    """Move the first n of READINGS over some bytes; return how many are left.

    ``counts``: note how many terminals ended on the way.
    """
    classes = int32s(e, f.BYTE_CLASS)
    if get(e, f.GENERAL) != 0:
        for i in range(length):
            n = _step_set(e, classes[text[i]], n, counts)
    else:
        for i in range(length):
            n = _step_ordered(e, classes[text[i]], n, counts)
    return n


@inner
def next_state(e: int, at: int, byte_class: int) -> int:
    """Return the scanner state after a byte; -1 where the terminal stops."""
    states, classes = get(e, f.SCANNER_STATES), get(e, f.CLASSES)
    at = at - states if at >= states else at
    if at < 0 or at >= states or byte_class < 0 or byte_class >= classes:
        return -1
    after = int32s(e, f.DELTA)[row_of(e, at) * classes + byte_class]
    after = after if after >= -1 else at + after + RELATIVE
    return after if -1 <= after < states else -1


@inner
def row_of(e: int, at: int) -> int:
    """Return the row that describes a scanner state, 0 <= at < SCANNER_STATES."""
    if at < get(e, f.PLAIN_STATES):
        return at
    first, loop = int64s(e, f.LOOP_STATE), get(e, f.LOOPS) - 1
    while loop > 0 and first[loop] > at:
        loop -= 1
    row, period = int32s(e, f.LOOP_ROW)[loop], max(int32s(e, f.LOOP_PERIOD)[loop], 1)
    within, length = at - first[loop], period * int32s(e, f.LOOP_COPIES)[loop]
    row += within % period if within < length else within - length + period
    return min(max(row, 0), size(e, f.LIVE_ROW) - 1)


@inner
def is_live(e: int, at: int) -> bool:
    """Say whether some terminal can still be completed from a scanner state."""
    offsets, row = int32s(e, f.LIVE_OFFSETS), int32s(e, f.LIVE_ROW)[row_of(e, at)]
    return 0 <= row < get(e, f.LIVE_ROWS) and offsets[row] < offsets[row + 1]


@inner
def _step_ordered(e: int, byte_class: int, n: int, counts: bool) -> int:
    """Move ordered readings over one byte; one that completes a single terminal ends the list.

    Several are ends of which the text behind them chooses: the readings after them stay.
    """
    if not _room(e, n + 1):
        return 0
    old, new, m = int32s(e, f.READINGS), int32s(e, f.READINGS_NEXT), 0
    offsets, terminals = int32s(e, f.MATCH_OFFSETS), int32s(e, f.MATCH_TERMINALS)
    for i in range(n):
        at, stack, ended = next_state(e, old[3 * i], byte_class), old[3 * i + 1], old[3 * i + 2]
        if at < 0:
            continue
        if is_live(e, at):
            m = _append(new, m, at, stack, ended)
        low, high = span(offsets, row_of(e, at), size(e, f.MATCH_TERMINALS))
        for match in range(low, high):
            below = after_terminal(e, stack, terminals[match])
            if below != f.FAIL and _room(e, m + 2):
                fresh = start_of(e, below, terminals[match])
                m = _append(new, m, fresh, below, ended + 1 if counts else 0)
        if high == low + 1:
            break
    for i in range(3 * m):
        old[i] = new[i]
    return m


@inner
def _append(readings: Pointer, m: int, at: int, stack: int, ended: int) -> int:
    """Append a reading unless it equals an earlier one, which takes precedence."""
    for i in range(m):
        if readings[3 * i] == at and readings[3 * i + 1] == stack and readings[3 * i + 2] == ended:
            return m
    readings[3 * m], readings[3 * m + 1], readings[3 * m + 2] = at, stack, ended
    return m + 1


@inner
def _step_set(e: int, byte_class: int, n: int, counts: bool) -> int:
    """Move a set of readings over one byte: every completed terminal adds one."""
    m, offsets = 0, int32s(e, f.MATCH_OFFSETS)
    terminals, old = int32s(e, f.MATCH_TERMINALS), int32s(e, f.READINGS)
    for i in range(n):
        at, stack, ended = next_state(e, old[3 * i], byte_class), old[3 * i + 1], old[3 * i + 2]
        if at < 0:
            continue
        if is_live(e, at):
            m = unite(e, m, at, stack, ended)
        low, high = span(offsets, row_of(e, at), size(e, f.MATCH_TERMINALS))
        for match in range(low, high):
            below = after_terminal(e, stack, terminals[match])
            if below != f.FAIL:
                fresh = start_of(e, below, terminals[match])
                m = unite(e, m, fresh, below, ended + 1 if counts else 0)
    new = int32s(e, f.READINGS_NEXT)
    for i in range(3 * m):
        old[i] = new[i]
    return m


@inner
def unite(e: int, m: int, at: int, stack: int, ended: int) -> int:
    """Add a reading to the first m of READINGS_NEXT; those of one scanner state share a stack."""
    readings = int32s(e, f.READINGS_NEXT)
    for i in range(m):
        if readings[3 * i] == at and readings[3 * i + 2] == ended:
            readings[3 * i + 1] = union(e, readings[3 * i + 1], stack)
            return m
    if not _room(e, m + 1):
        return m
    readings[3 * m], readings[3 * m + 1], readings[3 * m + 2] = at, stack, ended
    return m + 1


@inner
def _room(e: int, readings: int) -> bool:
    if 3 * readings <= size(e, f.READINGS):
        return True
    lack(e, f.READINGS, 3 * readings)
    return False


@inner
def _is_viable(e: int, at: int, stack: int) -> bool:
    """Say whether a reading may still lead somewhere: some terminal that can be shifted is live."""
    if at < 0 or at >= get(e, f.SCANNER_STATES):
        return at >= 0
    return can_shift_any(e, stack, int32s(e, f.LIVE_ROW)[row_of(e, at)])


@inner
def _finish(e: int, n: int, lookahead: int) -> int:
    """Keep the readings that matter after a token; return how many, 0 if it is not allowed.

    Of ordered readings one that is not viable is kept before others, because it takes precedence
    over them; a set is sorted. The token is allowed if a viable reading has ended no more
    terminals within it than the lookahead permits.
    """
    readings, general = int32s(e, f.READINGS), get(e, f.GENERAL) != 0
    states = get(e, f.SCANNER_STATES)
    kept, m, allowed = 0, 0, False
    for i in range(n):
        at, stack, ended = readings[3 * i], readings[3 * i + 1], readings[3 * i + 2]
        viable = _is_viable(e, at, stack)
        if viable:
            allowed = allowed or (ended - 1 if at >= states else ended) <= lookahead
        elif general:
            continue
        m = _place(e, m, at, stack, general)
        kept = m if viable else kept
    return kept if allowed else 0


@inner
def _place(e: int, m: int, at: int, stack: int, general: bool) -> int:
    """Put a reading behind the first m of READINGS, or, in a set, at its place."""
    readings = int32s(e, f.READINGS)
    if not general:
        return _append(readings, m, at, stack, 0)
    place = m
    while place > 0 and readings[3 * place - 3] > at:
        place -= 1
    if place > 0 and readings[3 * place - 3] == at:
        readings[3 * place - 2] = union(e, readings[3 * place - 2], stack)
        return m
    for i in range(3 * m - 1, 3 * place - 1, -1):
        readings[i + 3] = readings[i]
    readings[3 * place], readings[3 * place + 1], readings[3 * place + 2] = at, stack, 0
    return m + 1
