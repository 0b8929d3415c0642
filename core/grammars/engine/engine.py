"""Engine: what the sessions of a grammar share: parser stacks, token masks and memos of results.

What was computed for one document serves the next. Masks and memos are bounded by a byte budget:
when it is reached all of them are dropped (a new *epoch* begins) and computed again as needed. One
call may pass it, so that its work ends, and what it made is dropped at its end (``memos``).
Stacks stay as long as decoding states refer to them; when they fill much of the budget, new
sessions get a new engine (``should_be_replaced``).
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.grammars.automaton_columns import compacted, stored_lists
from cdec.core.grammars.columns import COLUMNS, GrammarArrays
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine import kernels
from cdec.core.grammars.engine.addresses import ADDRESSES
from cdec.core.grammars.engine.memory import Memory
from cdec.core.grammars.engine.memos import STACK_TABLES, STACKS, Memos
from cdec.core.grammars.engine.pointers import EMPTY, NEED
from cdec.core.grammars.loops import count_states, loop_states, state_of_tree

__all__ = ["DEFAULT_BUDGET", "MASK_WORK", "Engine"]

DEFAULT_BUDGET = 256 << 20
"""Bytes of masks and memos of one engine."""
MASK_WORK = 1 << 26
"""Steps of the parsers for one mask, or for one token that is followed: some ten seconds."""
_AT_ONCE = 64
"""LR states read from a stack before what is left of it is remembered."""
_PAUSE_AFTER = 1 << 18
"""Steps of the parsers in one call of a kernel: some hundredths of a second."""
_MOST_BYTES = 4 << 30
"""Of stacks, masks and memos together: tables that were forged may reduce for ever."""
_LEAST_STACKS = 1 << 18
"""Bytes of stacks for which an engine is kept, whatever the budget."""


class Engine:
    """Stacks, masks and memos over one grammar and one lookahead.

    Args:
        arrays: The compiled grammar.
        general: Whether the parser is the generalised one (lexer ``dynamic``).
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks, memos and working space that are kept from call to call, beyond
            what an engine begins with (``Memos.bytes``).
        lookahead: Terminals that may begin within a token after the first; None for any number.
        mask_work: Steps of the parsers for one mask, or one token.
        at_once: LR states read from a stack before what is left of it is remembered.
        pause_after: Steps of the parsers after which kernels come back, for signals and threads.

    Attributes:
        lock: Held while a kernel works in the memory, and while the memory grows.
    """

    def __init__(
        self,
        arrays: GrammarArrays,
        *,
        general: bool,
        end_ids: tuple[int, ...],
        budget: int = DEFAULT_BUDGET,
        lookahead: int | None = None,
        mask_work: int = MASK_WORK,
        at_once: int = _AT_ONCE,
        pause_after: int = _PAUSE_AFTER,
    ) -> None:
        self.memory = Memory(f.ENGINE_FIELDS)
        self.budget = budget
        self.mask_work = mask_work
        self.lock = Lock()
        self._dropped_for: object = None
        self._made_room = False
        for field, (name, array) in enumerate(zip(GrammarArrays._fields, arrays, strict=True)):
            self.memory.point(field, np.ascontiguousarray(array, COLUMNS[name]))
        header = self.memory.header
        header[f.AT_ONCE], header[f.SHIFT_LEVEL], header[f.STEPPED_KEY] = at_once, -1, -1
        header[f.PAUSE_AT], header[f.STOP_AT] = min(pause_after, mask_work), mask_work
        self._set_scalars(arrays, general, lookahead)
        self._arrays = arrays
        self._stored = stored_lists(arrays) if lookahead is None else 0
        self._allocate(arrays, end_ids)
        self._memos = Memos(self.memory, arrays, self._stored, budget)

    def automaton_steps(
        self, states: NDArray[np.int64], lr_states: NDArray[np.int64], most_edges: int
    ) -> NDArray[np.int64]:
        """Return the states of the automaton of masks after reading an LR state each, int64[n].

        -1 where nothing waits any more. Fewer than n where the generalised parser has met more than
        ``most_edges`` edges of its graphs by then, all calls together.
        """
        after, done = np.empty(len(states), np.int64), 0
        while done < len(states):
            header = self.memory.header
            done = kernels.automaton_steps(header, states, lr_states, after, done, most_edges)
            if header[f.EDGES] > most_edges:
                break
            with self.lock:
                self.make_room(after)
        return after[:done]

    @property
    def automaton_bytes(self) -> int:
        """Bytes of the lists of which the automaton of masks is made."""
        return 8 * self.memory.used(f.LIST_ITEMS)

    def automaton_columns(self) -> dict[str, NDArray[Any]]:
        """Return the automaton of masks as far as it was made, as columns of an artifact."""
        memory, first = self.memory, int(self.memory.header[f.TREES])
        lists, held = memory.used(f.LIST_OFFSETS), memory.arrays
        keys = held[f.STEP_TABLE]
        places = np.flatnonzero(keys != EMPTY)
        places = places[np.argsort(keys[places])]
        return compacted(
            held[f.LIST_OFFSETS][first:lists],
            held[f.LIST_ITEMS][: memory.used(f.LIST_ITEMS)],
            keys[places],
            held[f.STEP_TABLE + 1][places],
            first=first,
            live_rows=int(memory.header[f.LIVE_ROWS]),
        )

    def _set_scalars(self, arrays: GrammarArrays, general: bool, lookahead: int | None) -> None:
        header, rows = self.memory.header, len(arrays.live_row)
        vocabulary = len(arrays.vocabulary_offsets) - 1
        words = (vocabulary + 31) // 32
        header[f.CLASSES] = len(arrays.delta) // rows
        header[f.SCANNER_STATES] = count_states(arrays)
        header[f.PLAIN_STATES] = arrays.loop_row[0] if len(arrays.loop_row) else rows
        header[f.LOOPS] = len(arrays.loop_row)
        header[f.TERMINALS] = len(arrays.ignored)
        header[f.LR_STATES] = len(arrays.action_offsets) - 1
        header[f.RULES] = len(arrays.rule_lhs)
        header[f.LIVE_ROWS] = len(arrays.live_offsets) - 1
        header[f.CONTEXTS] = len(arrays.context_start)
        header[f.VOCABULARY] = vocabulary
        header[f.DENSE_WORDS] = words
        header[f.MASK_STRIDE] = (words + 15) // 16 * 16
        header[f.GENERAL] = general
        header[f.LOOKAHEAD] = f.UNLIMITED if lookahead is None else lookahead
        header[f.TREES] = len(arrays.tree_taken)
        header[f.INDENTED] = len(arrays.indent_symbols) == 4 and not general
        for slot, address in ADDRESSES.items():
            header[slot] = address

    def _allocate(self, arrays: GrammarArrays, end_ids: tuple[int, ...]) -> None:
        memory = self.memory
        longest_tree = min(int(np.diff(arrays.tree_paths).max(initial=0)), len(arrays.path_parent))
        states = len(arrays.action_offsets) - 1
        memory.point(f.NODE_BLOCKS, np.full(longest_tree, f.NONE, np.int32))
        memory.point(f.TREE_STATE, state_of_tree(arrays))
        memory.point(f.LOOP_STATE, loop_states(arrays))
        memory.point(f.VIRTUAL, np.empty(states + 2, np.int32))
        memory.point(f.LEVEL_SETS, np.zeros(states + 2, np.int64))
        memory.point(f.CHECKPOINTS, np.empty(1024, np.int32))
        memory.point(f.END_IDS, np.array(end_ids, np.int64))
        self._allocate_links(arrays)
        for first, stacks in STACKS.items():
            for field, dtype in f.GROWING[first]:
                memory.allocate(field, stacks, dtype)
        memory.arrays[f.SET_OFFSETS][0] = 0
        memory.use(f.SET_OFFSETS, 1)
        for table, length in STACK_TABLES.items():
            memory.allocate_table(table, length)

    def _allocate_links(self, arrays: GrammarArrays) -> None:
        """Make the arrays of links within trees, which are written at a tree's first use."""
        nodes, branches = len(arrays.path_parent), len(arrays.branch_path)
        for field in (f.TREE_CHILD, f.TREE_BRANCH):
            self.memory.point(field, np.full(len(arrays.tree_taken), -2, np.int32))
        for field in (f.NODE_CHILD, f.NODE_NEXT, f.NODE_BRANCH):
            self.memory.point(field, np.empty(nodes, np.int32))
        for field in (f.BRANCH_NEXT, f.BRANCH_GROUP):
            self.memory.point(field, np.empty(branches, np.int32))
        numbers = np.diff(arrays.tree_groups) + np.diff(arrays.tree_verify)
        most = len(arrays.group_dense) + len(arrays.verify_tokens)
        words = min(int(numbers.max(initial=0)), most) // 64 + 1
        self.memory.point(f.FOUND_ALLOWED, np.zeros(words, np.int64))

    def make_room(self, call: object) -> None:
        """Make the room that the last kernel asked for: grow an array, or drop masks and memos.

        The caller holds ``lock``. Kernels do nothing until NEED is 0 again, so that what an
        interrupt leaves half done is done again.

        Args:
            call: Identifies the caller's work. Memos are dropped at most once for one ``call``;
                after that they grow past the budget, so that the work ends.

        Raises:
            LimitError: All together have grown past the budget and ``_MOST_BYTES``.
        """
        memory, field = self.memory, int(self.memory.header[NEED]) - 1
        held = memory.bytes + self._memos.rows_bytes
        if field >= 0 and held > max(self.budget, _MOST_BYTES):
            memory.header[NEED] = 0
            raise LimitError(
                f"the grammar's stacks and masks take {held:,} bytes",
                hint="compile the artifact again, should it be damaged; or draw fewer at once",
                limit="memo_bytes",
            )
        self._made_room = True
        is_stack = field < 0 or field in STACKS or field in STACK_TABLES
        may_drop = not is_stack and self._dropped_for is not call and self._memos.bytes > 0
        if may_drop and self._passes(self._memos.more(field)):
            self._memos.drop()
            self._dropped_for = call
        elif field == f.MASK_COUNT:
            self._memos.add_rows()
        elif field >= 0:
            memory.grow(f.GROWING, self._memos.lists)
        memory.header[NEED] = 0

    def keep_within_budget(self) -> None:
        """Drop masks and memos if they have grown past the budget, as the last call needed them."""
        if self._made_room:
            self._made_room = False
            if self._passes(0):
                with self.lock:
                    self.drop()

    def _passes(self, more: int) -> bool:
        """Say whether masks and memos would pass the budget with some more bytes."""
        # subtle: all bytes are told at once, and hardly ever pass it.
        most = self.memory.bytes + self._memos.rows_bytes + more
        return most > self.budget and self._memos.bytes + more > self.budget

    def drop(self) -> None:
        """Forget all masks and memos; what sessions ask for is computed again.

        The caller holds ``lock``.
        """
        self._memos.drop()

    @property
    def memo_bytes(self) -> int:
        """Bytes of masks, memos and working space beyond what an engine begins with."""
        return self._memos.bytes

    @property
    def should_be_replaced(self) -> bool:
        """Whether new sessions should have a new engine: stacks fill much of the budget."""
        return self._memos.stacks_bytes > max(self.budget // 4, _LEAST_STACKS)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of stacks, masks and memos."""
        memory, header = self.memory, self.memory.header
        return {
            "mask_hits": int(header[f.HITS]),
            "mask_shared": int(header[f.SHARED]),
            "mask_misses": int(header[f.MISSES]),
            "masks": memory.used(f.MASK_COUNT),
            "stacks": memory.used(f.VERTEX_STATE),
            "stack_sets": memory.used(f.SET_OFFSETS) - 1,
            "shifts": memory.used(f.SHIFT_TABLE),
            "epochs": int(header[f.EPOCH]),
            "memo_bytes": self.memo_bytes,
            "bytes": memory.bytes + self._memos.rows_bytes,
        }
