"""Shifting on the top part of a stack whose rest is not known yet: what automata of masks ask.

A *partial stack* is a stack value (``stacks``) that ends in the hole: a vertex with the LR state
LR_STATES, which has no actions. A reduction that pops past the hole is *suspended*: it goes on with
its nonterminal once ``left`` more LR states and the one below them are known. So a terminal's
effect on any stack is known from its top: it pops what it reads and pushes what it shifts.

A suspended reduction is ``nonterminal << 32 | left``. Shifts are known in PARTIAL_TABLE by (stack,
terminal) as ``stack after << 32 | list`` of suspensions (``lists``; 0: none), live rows by (stack,
T + row) as ``SHIFTABLE << 32`` or ``FAIL << 32 | list`` of *questions*: (suspension, row of the
terminals that wait for it) each. A row of LIVE_ROWS and more is a part of a row: the list of that
number less.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import ROWS, next_symbol, rest
from cdec.core.grammars.engine.lists import (
    PART,
    QUESTIONS,
    SUSPENSIONS,
    append,
    begin_list,
    end_list,
    item,
    length,
    push_pair64,
    sort_pairs,
)
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    call4,
    get,
    insert,
    int32s,
    int64s,
    lookup,
    size,
    span,
    use,
    used,
)
from cdec.core.grammars.engine.shifts import shift_partial
from cdec.core.grammars.engine.stacks import failed, vertex
from cdec.core.grammars.engine.work import pause, spend
from cdec.core.kernels import inner

__all__ = [
    "compute_partial",
    "compute_partial_any",
    "hole",
    "low_half",
    "partial_any",
    "partial_shift",
]


@inner
def low_half(packed: int) -> int:
    """Return the lower 32 bits of an outcome: a list of suspensions."""
    return packed & 0xFFFFFFFF


@inner
def hole(e: int) -> int:
    """Return the vertex below which nothing is known."""
    return vertex(e, get(e, f.LR_STATES), f.NONE)


@inner
def partial_shift(e: int, stack: int, terminal: int) -> int:
    """Return the partial stack after a terminal (FAIL: none) and the suspensions, packed."""
    if terminal < 0 or terminal >= get(e, f.TERMINALS):
        return f.FAIL << 32
    if int32s(e, f.IGNORED)[terminal] != 0:
        return stack << 32
    outcome = lookup(e, f.PARTIAL_TABLE, (stack << 32) | terminal)
    if outcome == ABSENT or (outcome >> 32) == f.SHIFTABLE:
        return call4(get(e, f.CALL_PARTIAL), e, stack, terminal, 1)
    return outcome


@inner
def compute_partial(e: int, stack: int, terminal: int, build: int) -> int:
    """Compute an outcome of ``partial_shift``; without ``build`` only whether it can be shifted."""
    use(e, f.SUSPENDED, 0)
    result = shift_partial(e, stack, terminal, build != 0)
    outcome = (result << 32) | _noted(e)
    insert(e, f.PARTIAL_TABLE, (stack << 32) | terminal, outcome)
    spend(e, 1)
    pause(e)
    return outcome


@inner
def _noted(e: int) -> int:
    """Sort what is SUSPENDED, drop what is there twice, and return its list."""
    n, found = used(e, f.SUSPENDED), int64s(e, f.SUSPENDED)
    if n == 0:
        return 0
    kept = 0
    for i in range(n):
        value, place = found[i], kept
        while place > 0 and found[place - 1] > value:
            place -= 1
        if place > 0 and found[place - 1] == value:
            continue
        for j in range(kept, place, -1):
            found[j] = found[j - 1]
        found[place] = value
        kept += 1
    begin_list(e, SUSPENSIONS)
    for i in range(kept):
        append(e, found[i])
    return end_list(e)


@inner
def partial_any(e: int, stack: int, row: int) -> int:
    """Say whether a live row's terminals can be shifted: ``SHIFTABLE << 32``, or FAIL and a list.

    The list holds questions.
    """
    if row < 0 or row >= get(e, f.LIVE_ROWS) + used(e, f.LIST_OFFSETS) - 1:
        return f.FAIL << 32
    key = (stack << 32) | (get(e, f.TERMINALS) + row)
    outcome = lookup(e, f.PARTIAL_TABLE, key)
    return outcome if outcome != ABSENT else call3(get(e, f.CALL_PARTIAL_ANY), e, stack, row)


@inner
def _row_terminal(e: int, row: int, i: int) -> int:
    """Return the i-th terminal of a live row or of a part of one."""
    part = row - get(e, f.LIVE_ROWS)
    if part >= 0:
        return item(e, part, i)
    low, _ = span(int32s(e, f.LIVE_OFFSETS), row, size(e, f.LIVE_TERMINALS))
    return int32s(e, f.LIVE_TERMINALS)[low + i]


@inner
def _row_length(e: int, row: int) -> int:
    part = row - get(e, f.LIVE_ROWS)
    if part >= 0:
        return length(e, part)
    low, high = span(int32s(e, f.LIVE_OFFSETS), row, size(e, f.LIVE_TERMINALS))
    return high - low


@inner
def compute_partial_any(e: int, stack: int, row: int) -> int:
    """Compute an outcome of ``partial_any``: try the terminals in turn."""
    result, waiting = f.FAIL, 0
    for i in range(_row_length(e, row)):
        at, waiting = _tried(e, stack, _row_terminal(e, row, i), waiting)
        if failed(e):
            return f.FAIL << 32
        if at != f.FAIL:
            result = f.SHIFTABLE
            break
    outcome = result << 32
    if result == f.FAIL and waiting > 0:
        outcome |= _questions(e, waiting)
    insert(e, f.PARTIAL_TABLE, (stack << 32) | (get(e, f.TERMINALS) + row), outcome)
    spend(e, 1)
    pause(e)
    return outcome


@inner
def _tried(e: int, stack: int, terminal: int, waiting: int) -> tuple[int, int]:
    """Try a terminal of a row; return FAIL if it is not shifted, and how much is in WAITING."""
    if terminal <= ROWS:
        return _shift_effect(e, stack, ROWS - terminal, waiting)
    if terminal < 0 or terminal >= get(e, f.TERMINALS):
        return f.FAIL, waiting
    if int32s(e, f.IGNORED)[terminal] != 0:
        return stack, waiting
    outcome = lookup(e, f.PARTIAL_TABLE, (stack << 32) | terminal)
    if outcome == ABSENT:
        outcome = call4(get(e, f.CALL_PARTIAL), e, stack, terminal, 0)
    return outcome >> 32, _await(e, low_half(outcome), terminal, waiting)


@inner
def _shift_effect(e: int, stack: int, code: int, waiting: int) -> tuple[int, int]:
    """Try what an indenter makes of a line break, one terminal after another."""
    while code > 0 and stack != f.FAIL:
        outcome = partial_shift(e, stack, next_symbol(e, code))
        waiting = _await(e, low_half(outcome), ROWS - code, waiting)
        stack, code = outcome >> 32, rest(code)
    return stack, waiting


@inner
def _await(e: int, number: int, terminal: int, waiting: int) -> int:
    """Append (suspension, terminal) for every suspension of a list to WAITING; return how many."""
    use(e, f.WAITING, 2 * waiting)
    for i in range(length(e, number)):
        push_pair64(e, f.WAITING, item(e, number, i), terminal)
    return used(e, f.WAITING) // 2


@inner
def _questions(e: int, waiting: int) -> int:
    """Return the list of questions: the terminals that wait for one suspension are a row."""
    pairs = int64s(e, f.WAITING)
    sort_pairs(pairs, waiting)
    i, n = 0, 0
    while i < waiting and not failed(e):
        wanted = pairs[2 * i]
        begin_list(e, PART)
        while i < waiting and pairs[2 * i] == wanted:
            append(e, pairs[2 * i + 1])
            i += 1
        # subtle: questions take the place of pairs that were read.
        pairs[2 * n], pairs[2 * n + 1] = wanted, get(e, f.LIVE_ROWS) + end_list(e)
        n += 1
    begin_list(e, QUESTIONS)
    for i in range(2 * n):
        append(e, pairs[i])
    return end_list(e)
