"""Where everything stands in the headers of engines and sessions (``pointers``): numbers by name.

A header has *scalars* (one int64 each) and *fields* (arrays). The first fields of an engine are the
arrays of ``GrammarArrays``, in its order.
"""

from __future__ import annotations

import numpy as np

from cdec.core.grammars.columns import GrammarArrays

(
    BYTE_CLASS,
    DELTA,
    MATCH_OFFSETS,
    MATCH_TERMINALS,
    LIVE_ROW,
    LIVE_OFFSETS,
    LIVE_TERMINALS,
    CONTEXT_START,
    LR_CONTEXT,
    TERMINAL_CONTEXT,
    IGNORED,
    ACTION_OFFSETS,
    ACTION_TERMINALS,
    ACTION_VALUES,
    GOTO_OFFSETS,
    GOTO_SYMBOLS,
    GOTO_STATES,
    RULE_LHS,
    RULE_LENGTH,
    ITEM_OFFSETS,
    ITEM_RULES,
    ITEM_DOTS,
    TREE_OF_STATE,
    TREE_PATHS,
    PATH_PARENT,
    PATH_TERMINAL,
    PATH_BYTE,
    PATH_NEXT,
    TREE_GROUPS,
    GROUP_BRANCHES,
    BRANCH_PATH,
    BRANCH_LIVE,
    BRANCH_DEPTH,
    GROUP_DENSE,
    GROUP_TOKENS,
    TOKENS,
    TREE_VERIFY,
    VERIFY_TOKENS,
    TREE_TAKEN,
    DENSE_MASKS,
    VOCABULARY_OFFSETS,
    VOCABULARY_BYTES,
) = range(len(GrammarArrays._fields))

# The other fields of an engine. A table takes two numbers: its keys, and after them its values.
VERTEX_STATE = len(GrammarArrays._fields)
VERTEX_BELOW = VERTEX_STATE + 1
VERTEX_HEIGHT = VERTEX_STATE + 2
VERTEX_MARK = VERTEX_STATE + 3
VERTEX_TABLE = VERTEX_STATE + 4  # (LR state, stack below) -> vertex
SET_OFFSETS = VERTEX_TABLE + 2
SET_ITEMS = SET_OFFSETS + 1
SET_TABLE = SET_OFFSETS + 2  # hash of the items -> set
SHIFT_TABLE = SET_TABLE + 2  # (stack, terminal) or (stack, T + 1 + live row) -> outcome
UNION_TABLE = SHIFT_TABLE + 2  # (stack, stack) -> stack
MEMO_TABLE = UNION_TABLE + 2  # (memo node, LR state below) -> memo node
MEMO_MASK = MEMO_TABLE + 2  # mask of a memo node, -1: none yet
JOIN_TABLE = MEMO_MASK + 1  # (mask, taken row) -> join
JOINED_TABLE = JOIN_TABLE + 2  # (join, mask) -> mask
MASK_CHUNKS = JOINED_TABLE + 2
MASK_COUNT = MASK_CHUNKS + 1
MASK_ONLY = MASK_CHUNKS + 2
MASK_TABLE = MASK_CHUNKS + 3  # hash of the words -> mask
READINGS = MASK_TABLE + 2
READINGS_NEXT = READINGS + 1
NODE_STACK = READINGS + 2
VIRTUAL = READINGS + 3
CHECKPOINTS = READINGS + 4
EDGE_STATE = READINGS + 5
EDGE_BASE = READINGS + 6
EDGE_TABLE = READINGS + 7
FRONTIER = EDGE_TABLE + 2
FRONTIER_NEXT = FRONTIER + 1
UNION_WORK = FRONTIER + 2
SORTED = FRONTIER + 3
END_IDS = FRONTIER + 4
JOURNAL_ENTRIES = FRONTIER + 5
NODE_LOW = FRONTIER + 6
NODE_MARK = FRONTIER + 7
SHAPE_ITEMS = FRONTIER + 8
ENGINE_FIELDS = FRONTIER + 9

# Scalars of an engine, after NEED, NEED_LENGTH and JOURNAL of ``pointers``.
(
    CLASSES,
    SCANNER_STATES,
    TERMINALS,
    LR_STATES,
    RULES,
    LIVE_ROWS,
    CONTEXTS,
    VOCABULARY,
    DENSE_WORDS,
    MASK_STRIDE,
    GENERAL,
    LOOKAHEAD,
    LOW,
    STAMP,
    LEVEL,
    EPOCH,
    HITS,
    SHARED,
    MISSES,
    JOINS,
    CHUNK_SHIFT,
    KEEP,
    CALL_SHIFT,
    CALL_SHIFT_ANY,
    CALL_UNION,
    CALL_READ,
    CALL_MASK,
    CALL_JOIN,
    SHAPE_END,
    DECIDED_LOW,
    LEVEL_LOW,
) = range(3, 34)

# Fields and scalars of a session.
(STATE_OFFSETS, STATE_ITEMS, STATE_MASK, STATE_COMPLETE) = range(4)
STATE_TABLE = 4  # hash of the items -> state
NEXT_TABLE = 6  # (state, token) -> state
SESSION_FIELDS = 8
ENGINE = 3

NONE = -1
FAIL = -(1 << 31)
SHIFTABLE = FAIL + 1
UNDECIDED = FAIL + 2
WHOLE = 0
"""Height that says: the parser read the whole stack."""
FAR = 0x7FFFFFFF
"""Height that says: the parser read nothing of the stack (no vertex is that high)."""
UNLIMITED = 1 << 30
"""Lookahead of a session that has none set."""
NEXT_LIMIT = 1 << 18
"""Places of a session's table of steps; a full one is emptied."""

GROWING: dict[int, tuple[tuple[int, type], ...]] = {
    VERTEX_STATE: (
        (VERTEX_STATE, np.int32),
        (VERTEX_BELOW, np.int32),
        (VERTEX_HEIGHT, np.int32),
        (VERTEX_MARK, np.int64),
    ),
    SET_OFFSETS: ((SET_OFFSETS, np.int64),),
    SET_ITEMS: ((SET_ITEMS, np.int32),),
    MEMO_MASK: ((MEMO_MASK, np.int32),),
    SHAPE_ITEMS: ((SHAPE_ITEMS, np.int32),),
    READINGS: ((READINGS, np.int32), (READINGS_NEXT, np.int32)),
    EDGE_STATE: ((EDGE_STATE, np.int32), (EDGE_BASE, np.int32)),
    FRONTIER: ((FRONTIER, np.int32), (FRONTIER_NEXT, np.int32)),
    UNION_WORK: ((UNION_WORK, np.int32),),
    SORTED: ((SORTED, np.int64),),
    JOURNAL_ENTRIES: ((JOURNAL_ENTRIES, np.int64),),
}
"""Fields of an engine that grow together, by the one whose use is counted."""

SESSION_GROWING: dict[int, tuple[tuple[int, type], ...]] = {
    STATE_OFFSETS: (
        (STATE_OFFSETS, np.int64),
        (STATE_MASK, np.int64),
        (STATE_COMPLETE, np.int32),
    ),
    STATE_ITEMS: ((STATE_ITEMS, np.int32),),
}
"""The same of a session."""
