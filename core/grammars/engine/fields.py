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
    LOOP_ROW,
    LOOP_PERIOD,
    LOOP_COPIES,
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
    AUTOMATON_OFFSETS,
    AUTOMATON_ITEMS,
    AUTOMATON_STEP_OFFSETS,
    AUTOMATON_READ,
    AUTOMATON_AFTER,
    INDENT_ROLES,
    INDENT_SYMBOLS,
    STATE_COLUMN,
    LR_PLAIN,
    VOCABULARY_OFFSETS,
    VOCABULARY_BYTES,
) = range(len(GrammarArrays._fields))

# The other fields of an engine. A table takes two numbers: its keys, and after them its values.
LOOP_STATE = len(GrammarArrays._fields)  # first scanner state of each loop
VERTEX_STATE = LOOP_STATE + 1
VERTEX_BELOW = VERTEX_STATE + 1
VERTEX_MARK = VERTEX_STATE + 2
VERTEX_TABLE = VERTEX_STATE + 3  # (LR state, stack below) -> vertex
SET_OFFSETS = VERTEX_TABLE + 2
SET_ITEMS = SET_OFFSETS + 1
SET_TABLE = SET_OFFSETS + 2  # hash of the items -> set
SHIFT_TABLE = SET_TABLE + 2  # (stack, terminal) or (stack, T + 1 + live row) -> outcome
UNION_TABLE = SHIFT_TABLE + 2  # (stack, stack) -> stack
PARTIAL_TABLE = UNION_TABLE + 2  # (partial stack, terminal or T + live row) -> outcome
SUSPENDED = PARTIAL_TABLE + 2
WAITING = SUSPENDED + 1
LIST_OFFSETS = SUSPENDED + 2
LIST_ITEMS = SUSPENDED + 3
LIST_MASK = SUSPENDED + 4
LIST_TABLE = SUSPENDED + 5  # hash of the items -> list
PAIR_TABLE = LIST_TABLE + 2  # (list, list) -> their union, or what the second leaves of the first
TREE_CHILD = PAIR_TABLE + 2
TREE_BRANCH = TREE_CHILD + 1
NODE_CHILD = TREE_CHILD + 2
NODE_NEXT = TREE_CHILD + 3
NODE_BRANCH = TREE_CHILD + 4
BRANCH_NEXT = TREE_CHILD + 5
BRANCH_GROUP = TREE_CHILD + 6
FOUND = TREE_CHILD + 7
FOUND_ALLOWED = TREE_CHILD + 8
NODE_WORK = TREE_CHILD + 9
STEP_PAIRS = TREE_CHILD + 10
STEP_READY = TREE_CHILD + 11
EVALUATE_TABLE = TREE_CHILD + 12  # (first state or list that waits, LR state) -> state
STEP_TABLE = EVALUATE_TABLE + 2  # (state of the automaton, LR state) -> state of the automaton
RUN_TABLE = STEP_TABLE + 2  # (state of the automaton, stack) -> mask
RUN_WORK = RUN_TABLE + 2
STEPPED_TABLE = RUN_WORK + 1  # (scanner state, stack) -> mask of the tokens that are stepped
TREE_STATE = STEPPED_TABLE + 2
JOIN_TABLE = TREE_STATE + 1  # (mask, taken row) -> join
JOINED_TABLE = JOIN_TABLE + 2  # (join, mask) -> mask
MASK_CHUNKS = JOINED_TABLE + 2
MASK_COUNT = MASK_CHUNKS + 1
MASK_ONLY = MASK_CHUNKS + 2
MASK_TABLE = MASK_CHUNKS + 3  # hash of the words -> mask
READINGS = MASK_TABLE + 2
READINGS_NEXT = READINGS + 1
VIRTUAL = READINGS + 2
CHECKPOINTS = READINGS + 3
EDGE_STATE = READINGS + 4
EDGE_BASE = READINGS + 5
EDGE_TABLE = READINGS + 6
FRONTIER = EDGE_TABLE + 2
FRONTIER_NEXT = FRONTIER + 1
UNION_WORK = FRONTIER + 2
SORTED = FRONTIER + 3
END_IDS = FRONTIER + 4
JOURNAL_ENTRIES = FRONTIER + 5
INDENT_TABLE = FRONTIER + 6  # (scanner state, open blocks) -> first state of the automaton
NODE_BLOCKS = INDENT_TABLE + 2
LEVEL_SETS = NODE_BLOCKS + 1
ENGINE_FIELDS = NODE_BLOCKS + 2

# Scalars of an engine, after NEED, NEED_LENGTH and JOURNAL of ``pointers``.
(
    CLASSES,
    SCANNER_STATES,
    PLAIN_STATES,
    LOOPS,
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
    TREES,
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
    CALL_JOIN,
    CALL_PARTIAL,
    CALL_PARTIAL_ANY,
    CALL_EVALUATE,
    CALL_STEP,
    CALL_RUN,
    CALL_STEPPED,
    CALL_INDENTED,
    CALL_OVER,
    CALL_ALLOWED,
    INDENTED,
    ROOT,
    LIST_END,
    STORED,
    INDEXED,
    RUN_STATE,
    RUN_STACK,
    EDGES,
    AT_ONCE,
    WORK,
    PAUSE_AT,
    STOP_AT,
    SHIFT_KEY,
    SHIFT_LEVEL,
    SHIFT_NEXT,
    STEPPED_KEY,
    STEPPED_NEXT,
) = range(3, 58)

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
UNLIMITED = 1 << 30
"""Lookahead of a session that has none set."""
NEXT_LIMIT = 1 << 18
"""Places of a session's table of steps; a full one is emptied."""

GROWING: dict[int, tuple[tuple[int, type], ...]] = {
    VERTEX_STATE: (
        (VERTEX_STATE, np.int32),
        (VERTEX_BELOW, np.int32),
        (VERTEX_MARK, np.int64),
    ),
    SET_OFFSETS: ((SET_OFFSETS, np.int64),),
    SET_ITEMS: ((SET_ITEMS, np.int32),),
    SUSPENDED: ((SUSPENDED, np.int64),),
    WAITING: ((WAITING, np.int64),),
    LIST_OFFSETS: ((LIST_OFFSETS, np.int64), (LIST_MASK, np.int32)),
    LIST_ITEMS: ((LIST_ITEMS, np.int64),),
    FOUND: ((FOUND, np.int64),),
    NODE_WORK: ((NODE_WORK, np.int32),),
    STEP_PAIRS: ((STEP_PAIRS, np.int64),),
    STEP_READY: ((STEP_READY, np.int64),),
    RUN_WORK: ((RUN_WORK, np.int32),),
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
