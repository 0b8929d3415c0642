"""Engine: what the sessions of a grammar share: parser stacks, token masks and memos of results.

What was computed for one document serves the next. Masks and memos are bounded by a byte budget:
when it is reached all of them are dropped (a new *epoch* begins) and computed again as needed.
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

_CHUNK_BYTES = 1 << 20
_TABLES = {
    f.VERTEX_TABLE: 1024,
    f.SET_TABLE: 64,
    f.SHIFT_TABLE: 1024,
    f.UNION_TABLE: 64,
    f.PARTIAL_TABLE: 1024,
    f.LIST_TABLE: 64,
    f.PAIR_TABLE: 64,
    f.EVALUATE_TABLE: 64,
    f.STEP_TABLE: 256,
    f.RUN_TABLE: 64,
    f.STEPPED_TABLE: 64,
    f.JOIN_TABLE: 64,
    f.JOINED_TABLE: 64,
    f.MASK_TABLE: 256,
    f.EDGE_TABLE: 256,
    f.INDENT_TABLE: 64,
}
_MEMOS = tuple(t for t in _TABLES if t not in (f.VERTEX_TABLE, f.SET_TABLE, f.EDGE_TABLE))
_COUNTED_MEMOS = (f.MASK_COUNT, f.LIST_OFFSETS, f.LIST_ITEMS)
_STACKS = (f.VERTEX_STATE, f.VERTEX_TABLE, f.SET_OFFSETS, f.SET_ITEMS, f.SET_TABLE)


class Engine:
    """Stacks, masks and memos over one grammar and one lookahead.

    Args:
        arrays: The compiled grammar.
        general: Whether the parser is the generalised one (lexer ``dynamic``).
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks and memos; at least one state's masks are kept in any case.
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
        self._chunks: list[NDArray[np.int32]] = []
        self._dropped_for: object = None
        for field, (name, array) in enumerate(zip(GrammarArrays._fields, arrays, strict=True)):
            self.memory.point(field, np.ascontiguousarray(array, COLUMNS[name]))
        header = self.memory.header
        header[f.AT_ONCE], header[f.SHIFT_LEVEL], header[f.STEPPED_KEY] = at_once, -1, -1
        header[f.PAUSE_AT], header[f.STOP_AT] = min(pause_after, mask_work), mask_work
        self._set_scalars(arrays, general, lookahead)
        self._arrays = arrays
        self._stored = stored_lists(arrays) if lookahead is None else 0
        self._allocate(arrays, end_ids)

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
        header[f.MASK_STRIDE] = self._stride = (words + 15) // 16 * 16
        header[f.GENERAL] = general
        header[f.LOOKAHEAD] = f.UNLIMITED if lookahead is None else lookahead
        header[f.TREES] = len(arrays.tree_taken)
        header[f.INDENTED] = len(arrays.indent_symbols) == 4 and not general
        for slot, address in ADDRESSES.items():
            header[slot] = address
        rows = max(min(_CHUNK_BYTES, self.budget // 8) // (4 * self._stride), 1)
        header[f.CHUNK_SHIFT] = rows.bit_length() - 1

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
        lists = int(memory.header[f.TREES]) + self._stored
        lengths = {
            f.VERTEX_STATE: 512,
            f.LIST_OFFSETS: 64 + lists,
            f.LIST_ITEMS: 64 + len(arrays.automaton_items),
        }
        for field, group in f.GROWING.items():
            for other, dtype in group:
                memory.allocate(other, lengths.get(field, 64), dtype)
        memory.arrays[f.SET_OFFSETS][0] = 0
        memory.use(f.SET_OFFSETS, 1)
        for table, length in _TABLES.items():
            memory.allocate_table(table, length)
        self._begin_automaton()
        self._add_masks()

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

    def _begin_automaton(self) -> None:
        """Make the automaton's first states, one a tree (empty), and take over the artifact's."""
        memory, trees, arrays = self.memory, int(self.memory.header[f.TREES]), self._arrays
        lists, items = trees + self._stored, arrays.automaton_items if self._stored else ()
        memory.arrays[f.LIST_OFFSETS][: trees + 1] = 0
        if self._stored:
            memory.arrays[f.LIST_OFFSETS][trees : lists + 1] = arrays.automaton_offsets
        memory.arrays[f.LIST_ITEMS][: len(items)] = items
        memory.arrays[f.LIST_MASK][:lists] = -1
        memory.use(f.LIST_OFFSETS, lists + 1)
        memory.use(f.LIST_ITEMS, len(items))
        memory.header[f.STORED] = lists if self._stored else 0
        memory.header[f.INDEXED] = trees

    def _add_masks(self) -> None:
        """Add a chunk of rows. The old chunks stay where they are."""
        memory, rows = self.memory, 1 << int(self.memory.header[f.CHUNK_SHIFT])
        self._chunks.append(np.empty(rows * self._stride, np.int32))
        memory.bytes += self._chunks[-1].nbytes
        addresses = [chunk.__array_interface__["data"][0] for chunk in self._chunks]
        memory.point(f.MASK_CHUNKS, np.array(addresses, np.int64))
        for field in (f.MASK_ONLY, f.MASK_COUNT):
            memory.allocate(field, rows * len(self._chunks), np.int32)

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
        if field >= 0 and memory.bytes > max(self.budget, _MOST_BYTES):
            memory.header[NEED] = 0
            raise LimitError(
                f"the grammar's stacks and masks take {memory.bytes:,} bytes",
                hint="compile the artifact again, should it be damaged; or draw fewer at once",
                limit="memo_bytes",
            )
        droppable = field in _MEMOS or field in _COUNTED_MEMOS
        if droppable and self._is_full(field) and self._dropped_for is not call:
            self._drop()
            self._dropped_for = call
        elif field == f.MASK_COUNT:
            self._add_masks()
        elif field >= 0:
            memory.grow(f.GROWING)
        memory.header[NEED] = 0

    def _is_full(self, field: int) -> bool:
        """Say whether the room that was asked for would pass the budget."""
        memory = self.memory
        more = self._chunks[-1].nbytes if field == f.MASK_COUNT else 16 * memory.size(field)
        return memory.bytes + more > self.budget

    def _drop(self) -> None:
        """Begin an epoch: drop all masks and memos."""
        memory = self.memory
        for table in _MEMOS:
            memory.drop_table(table, _TABLES[table])
        for field in _COUNTED_MEMOS:
            memory.use(field, 0)
        self._begin_automaton()
        memory.header[f.JOINS] = memory.header[f.STEPPED_NEXT] = 0
        memory.header[f.EPOCH] += 1

    @property
    def should_be_replaced(self) -> bool:
        """Whether new sessions should have a new engine: stacks fill much of the budget."""
        held = sum(self.memory.arrays[field].nbytes for field in _STACKS)
        return self.memory.bytes > self.budget or 4 * held > self.budget

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
            "bytes": memory.bytes,
        }
