"""Shifting on the top part of a stack whose rest is not known yet: what automata of masks ask.

A *partial stack* is a stack value (``stacks``) that ends in the hole: a vertex with the LR state
LR_STATES, which has no actions. A reduction that pops past the hole is *suspended*: it goes on with
its nonterminal once ``left`` more LR states and the one below them are known. So a terminal's
effect on any stack is known from its top: it pops what it reads and pushes what it shifts.

Suspended reductions stand in SUSPENSIONS as ``nonterminal << 32 | left``, lists with their length
first, each list once; list 0 is empty. Shifts are known in PARTIAL_TABLE by (stack, terminal) as
``stack after << 32 | list``, live rows by (stack, T + row) as ``SHIFTABLE << 32`` or
``FAIL << 32 | list`` of a list of *questions*: which terminals wait for which reduction.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import ROWS, next_symbol, rest
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    call4,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    lookup,
    mixed,
    size,
    span,
    use,
    used,
)
from cdec.core.grammars.engine.shifts import shift_partial
from cdec.core.grammars.engine.stacks import failed, vertex
from cdec.core.kernels import inner

__all__ = [
    "compute_partial",
    "compute_partial_any",
    "hole",
    "low_half",
    "part_of_row",
    "partial_any",
    "partial_shift",
    "question",
    "suspensions",
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
    return _list_of(e, kept)


@inner
def _list_of(e: int, n: int) -> int:
    """Return the number of the list of the first n elements of SUSPENDED."""
    key, found = n, int64s(e, f.SUSPENDED)
    for i in range(n):
        key = mixed(key ^ found[i])
    key = key if key != -1 else 0
    while True:
        known = lookup(e, f.SUSPENSION_TABLE, key)
        if known == ABSENT:
            break
        items, same = int64s(e, f.SUSPENSIONS), 0
        if items[known] == n:
            while same < n and items[known + 1 + same] == found[same]:
                same += 1
            if same == n:
                return known
        key = mixed(key ^ 1)
    new = max(used(e, f.SUSPENSIONS), 1)
    if not has_room(e, f.SUSPENSIONS, n + 2) or not insert(e, f.SUSPENSION_TABLE, key, new):
        return 0
    items = int64s(e, f.SUSPENSIONS)
    items[new] = n
    for i in range(n):
        items[new + 1 + i] = found[i]
    use(e, f.SUSPENSIONS, new + 1 + n)
    return new


@inner
def suspensions(e: int, number: int) -> int:
    """Return the length of a list; its elements stand behind place ``number`` of SUSPENSIONS."""
    return int64s(e, f.SUSPENSIONS)[number] if number > 0 else 0


@inner
def partial_any(e: int, stack: int, row: int) -> int:
    """Say whether a live row's terminals can be shifted: ``SHIFTABLE << 32``, or FAIL and a list.

    The list holds questions. Rows from LIVE_ROWS on are parts of rows, made for questions.
    """
    if row < 0 or row >= get(e, f.LIVE_ROWS) + used(e, f.PART_OFFSETS) - 1:
        return f.FAIL << 32
    key = (stack << 32) | (get(e, f.TERMINALS) + row)
    outcome = lookup(e, f.PARTIAL_TABLE, key)
    return outcome if outcome != ABSENT else call3(get(e, f.CALL_PARTIAL_ANY), e, stack, row)


@inner
def _row_terminal(e: int, row: int, i: int) -> int:
    """Return the i-th terminal of a live row or of a part of one."""
    own = row - get(e, f.LIVE_ROWS)
    if own < 0:
        return int32s(e, f.LIVE_TERMINALS)[_row_start(e, row) + i]
    return int32s(e, f.PART_TERMINALS)[int64s(e, f.PART_OFFSETS)[own] + i]


@inner
def _row_start(e: int, row: int) -> int:
    return span(int32s(e, f.LIVE_OFFSETS), row, size(e, f.LIVE_TERMINALS))[0]


@inner
def _row_length(e: int, row: int) -> int:
    own = row - get(e, f.LIVE_ROWS)
    if own < 0:
        low, high = span(int32s(e, f.LIVE_OFFSETS), row, size(e, f.LIVE_TERMINALS))
        return high - low
    offsets = int64s(e, f.PART_OFFSETS)
    return offsets[own + 1] - offsets[own]


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
    n = suspensions(e, number)
    use(e, f.WAITING, 2 * waiting)
    if not has_room(e, f.WAITING, 2 * n):
        return waiting
    pairs, items = int64s(e, f.WAITING), int64s(e, f.SUSPENSIONS)
    for i in range(n):
        pairs[2 * waiting], pairs[2 * waiting + 1] = items[number + 1 + i], terminal
        waiting += 1
    return waiting


@inner
def _questions(e: int, waiting: int) -> int:
    """Return the list of questions: the terminals that wait for one suspension are a row."""
    use(e, f.SUSPENDED, 0)
    if not has_room(e, f.SUSPENDED, waiting) or not has_room(e, f.PART_TERMINALS, waiting):
        return 0
    pairs, n = int64s(e, f.WAITING), 0
    for i in range(waiting):
        wanted, first = pairs[2 * i], True
        for j in range(i):
            first = first and pairs[2 * j] != wanted
        if not first:
            continue
        start, count = used(e, f.PART_TERMINALS), 0
        terminals = int32s(e, f.PART_TERMINALS)
        for j in range(i, waiting):
            if pairs[2 * j] == wanted:
                terminals[start + count] = pairs[2 * j + 1]
                count += 1
        row = part_of_row(e, count)
        asked = question(e, row, wanted)
        if failed(e) or not has_room(e, f.PART_TERMINALS, waiting):
            return 0
        int64s(e, f.SUSPENDED)[n] = asked
        n += 1
    use(e, f.SUSPENDED, n)
    return _noted(e)


@inner
def part_of_row(e: int, n: int) -> int:
    """Return the row of the n terminals behind PART_TERMINALS in use, new or known."""
    offsets, terminals = int64s(e, f.PART_OFFSETS), int32s(e, f.PART_TERMINALS)
    start, rows, key = used(e, f.PART_TERMINALS), get(e, f.LIVE_ROWS), n
    for i in range(n):
        key = mixed(key ^ terminals[start + i])
    key = key if key != -1 else 0
    while True:
        known = lookup(e, f.PART_TABLE, key)
        if known == ABSENT:
            break
        at, same = offsets[known], 0
        if offsets[known + 1] - at == n:
            while same < n and terminals[at + same] == terminals[start + same]:
                same += 1
            if same == n:
                return rows + known
        key = mixed(key ^ 1)
    new = used(e, f.PART_OFFSETS) - 1
    if not has_room(e, f.PART_OFFSETS, 1) or not insert(e, f.PART_TABLE, key, new):
        return 0
    offsets[new + 1] = start + n
    use(e, f.PART_OFFSETS, new + 2)
    use(e, f.PART_TERMINALS, start + n)
    return rows + new


@inner
def question(e: int, row: int, suspended: int) -> int:
    """Return the number of a question: a live row (-1: a path node's terminal) and a suspension."""
    key = mixed(suspended) ^ (row + 1)
    key = key if key != -1 else 0
    while True:
        known = lookup(e, f.QUESTION_TABLE, key)
        if known == ABSENT:
            break
        rows, waits = int32s(e, f.QUESTION_ROW), int64s(e, f.QUESTION_SUSPENSION)
        if rows[known] == row and waits[known] == suspended:
            return known
        key = mixed(key ^ 1)
    new = used(e, f.QUESTION_ROW)
    if not has_room(e, f.QUESTION_ROW, 1) or not insert(e, f.QUESTION_TABLE, key, new):
        return 0
    int32s(e, f.QUESTION_ROW)[new] = row
    int64s(e, f.QUESTION_SUSPENSION)[new] = suspended
    use(e, f.QUESTION_ROW, new + 1)
    return new
