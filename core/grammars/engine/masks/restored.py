"""The automaton that an artifact holds, taken over when an engine is made (``kernels.restore``)."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.masks.automaton import intern_state
from cdec.core.grammars.engine.masks.partial import part_of_row, question
from cdec.core.grammars.engine.pointers import (
    get,
    has_room,
    insert,
    int32s,
    int64s,
    put,
    size,
    span,
    used,
)
from cdec.core.grammars.engine.stacks import failed
from cdec.core.kernels import inner

__all__ = ["restored_parts", "restored_states"]


@inner
def restored_parts(e: int, first: int) -> int:
    """Take over parts of live rows, then questions, of the artifact; see ``kernels.restore``."""
    offsets, stored = int64s(e, f.AUTOMATON_PART_OFFSETS), int32s(e, f.AUTOMATON_PART_TERMINALS)
    parts, rows = max(size(e, f.AUTOMATON_PART_OFFSETS) - 1, 0), size(e, f.AUTOMATON_ROW)
    for i in range(first, parts):
        low, high = span(offsets, i, size(e, f.AUTOMATON_PART_TERMINALS))
        if low != used(e, f.PART_TERMINALS):
            return -1
        if not has_room(e, f.PART_TERMINALS, high - low):
            return i
        start, terminals = used(e, f.PART_TERMINALS), int32s(e, f.PART_TERMINALS)
        for j in range(low, high):
            terminals[start + j - low] = stored[j]
        row = part_of_row(e, high - low)
        if failed(e):
            return i
        if row != get(e, f.LIVE_ROWS) + i:
            return -1
    for i in range(max(first - parts, 0), rows):
        asked = question(e, int32s(e, f.AUTOMATON_ROW)[i], int64s(e, f.AUTOMATON_SUSPENSION)[i])
        if failed(e):
            return parts + i
        if asked != i:
            return -1
    return max(first, parts + rows)


@inner
def restored_states(e: int, first: int) -> int:
    """Take over states, then steps, of the artifact; see ``kernels.restore``."""
    before = max(size(e, f.AUTOMATON_PART_OFFSETS) - 1, 0) + size(e, f.AUTOMATON_ROW)
    states, steps = size(e, f.AUTOMATON_TREE), size(e, f.AUTOMATON_STEPS)
    for i in range(max(first - before, 0), states):
        low, high = span(int64s(e, f.AUTOMATON_OFFSETS), i, size(e, f.AUTOMATON_ENTRIES))
        if low != used(e, f.AUTO_ENTRIES):
            return -1
        if not has_room(e, f.AUTO_ENTRIES, high - low):
            return before + i
        start, entries = used(e, f.AUTO_ENTRIES), int32s(e, f.AUTO_ENTRIES)
        for j in range(low, high):
            entries[start + j - low] = int32s(e, f.AUTOMATON_ENTRIES)[j]
        if not _is_state(e, start, high - low, int32s(e, f.AUTOMATON_TREE)[i]):
            return -1
        put(e, f.ENTRY_END, start + high - low)
        state = intern_state(e, int32s(e, f.AUTOMATON_TREE)[i])
        if failed(e):
            return before + i
        if state != get(e, f.TREES) + i:
            return -1
    for i in range(max(first - before - states, 0), steps):
        after = int32s(e, f.AUTOMATON_AFTER)[i]
        if not get(e, f.TREES) <= after < used(e, f.AUTO_OFFSETS) - 1:
            return -1
        if not insert(e, f.STEP_TABLE, int64s(e, f.AUTOMATON_STEPS)[i], after):
            return before + states + i
    return before + states + steps


@inner
def _is_state(e: int, start: int, n: int, tree: int) -> bool:
    """Say whether entries behind AUTO_ENTRIES in use can be a state: pairs, known questions."""
    entries, questions = int32s(e, f.AUTO_ENTRIES), used(e, f.QUESTION_ROW)
    good = n & 1 == 0 and 0 <= tree < get(e, f.TREES)
    for i in range(1, n, 2):
        good = good and -1 <= entries[start + i] < questions
    return good
