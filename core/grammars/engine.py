"""Engine: what the sessions of a grammar share: parser stacks, token masks and memos of results.

The work is done by ``native/grammars``; ``engine.h`` says what is kept and what is dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.grammars.automaton_columns import compacted, stored_lists
from cdec.core.grammars.columns import COLUMNS, GrammarArrays
from cdec.core.grammars.loops import count_states, loop_states, state_of_tree
from cdec.core.native import library

__all__ = ["DEFAULT_BUDGET", "MASK_WORK", "Engine"]

DEFAULT_BUDGET = 256 << 20
"""Bytes of masks and memos of one engine."""
MASK_WORK = 1 << 26
"""Steps of the parsers for one mask, or for one token that is followed: some ten seconds."""
_AT_ONCE = 64
"""LR states read from a stack before what is left of it is remembered."""
_PAUSE_AFTER = 1 << 18
"""Steps of the parsers in one call: some hundredths of a second."""
_MOST_BYTES = 4 << 30
"""Of stacks, masks and memos together: tables that were forged may reduce for ever."""
_LEAST_STACKS = 1 << 18
"""Bytes of stacks for which an engine is kept, whatever the budget."""
_UNLIMITED = 1 << 30
"""Lookahead where none is set."""
_STATISTICS = (
    *("mask_hits", "mask_misses", "masks", "stacks", "stack_sets", "shifts", "epochs"),
    *("memo_bytes", "bytes", "stack_bytes", "edges", "lists", "list_items", "steps"),
)
"""What the library counts, in its order."""
_SHOWN = _STATISTICS[:9]


class Engine:
    """Stacks, masks and memos over one grammar and one lookahead.

    Args:
        arrays: The compiled grammar.
        general: Whether the parser is the generalised one (lexer ``dynamic``).
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks, memos and working space that are kept from call to call, beyond
            what an engine begins with.
        lookahead: Terminals that may begin within a token after the first; None for any number.
        mask_work: Steps of the parsers for one mask, or one token.
        at_once: LR states read from a stack before what is left of it is remembered.
        pause_after: Steps of the parsers after which a call comes back, for signals and threads.

    Attributes:
        handle: The library's object.
        most_calls: Calls that one mask, or one token, may take.
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
        self.budget = budget
        self.mask_work = mask_work
        pause_at = min(pause_after, mask_work)
        self.most_calls = mask_work // pause_at
        self._arrays = arrays
        columns = tuple(
            np.ascontiguousarray(array, COLUMNS[name]) for name, array in arrays._asdict().items()
        )
        settings = (
            *(general, _UNLIMITED if lookahead is None else lookahead, count_states(arrays)),
            *(stored_lists(arrays) if lookahead is None else 0, budget, max(budget, _MOST_BYTES)),
            *(pause_at, mask_work, at_once),
        )
        ends = np.array(end_ids, np.int64)
        self.handle = library.grammar_engine_make(
            columns, settings, state_of_tree(arrays), loop_states(arrays), ends
        )

    def automaton_steps(
        self, states: NDArray[np.int64], lr_states: NDArray[np.int64], most_edges: int
    ) -> NDArray[np.int64]:
        """Return the states of the automaton of masks after reading an LR state each, int64[n].

        -1 where nothing waits any more. Fewer than n where the generalised parser has met more than
        ``most_edges`` edges of its graphs by then, all calls together.
        """
        after, done = np.empty(len(states), np.int64), 0
        while done < len(states) and self._counts()["edges"] <= most_edges:
            now = library.grammar_engine_steps(
                self.handle, states, lr_states, most_edges, after, done
            )
            if now < 0:
                break
            done = now
        return after[:done]

    @property
    def automaton_bytes(self) -> int:
        """Bytes of the lists of which the automaton of masks is made."""
        return 8 * self._counts()["list_items"]

    def automaton_columns(self) -> dict[str, NDArray[Any]]:
        """Return the automaton of masks as far as it was made, as columns of an artifact."""
        counts = self._counts()
        sizes = (counts["lists"] + 1, counts["list_items"], counts["steps"], counts["steps"])
        offsets, items, steps, after = (np.empty(size, np.int64) for size in sizes)
        library.grammar_engine_automaton(self.handle, offsets, items, steps, after)
        order = np.argsort(steps)
        return compacted(
            *(offsets, items, steps[order], after[order]),
            first=len(self._arrays.tree_taken),
            live_rows=len(self._arrays.live_offsets) - 1,
        )

    def drop(self) -> None:
        """Forget all masks and memos; what sessions ask for is computed again."""
        library.grammar_engine_drop(self.handle)

    @property
    def memo_bytes(self) -> int:
        """Bytes of masks, memos and working space beyond what an engine begins with."""
        return self._counts()["memo_bytes"]

    @property
    def should_be_replaced(self) -> bool:
        """Whether new sessions should have a new engine: stacks fill much of the budget."""
        return self._counts()["stack_bytes"] > max(self.budget // 4, _LEAST_STACKS)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of stacks, masks and memos."""
        counts = self._counts()
        return {name: counts[name] for name in _SHOWN}

    def _counts(self) -> dict[str, int]:
        found = np.zeros(len(_STATISTICS), np.int64)
        library.grammar_engine_statistics(self.handle, found)
        return dict(zip(_STATISTICS, found.tolist(), strict=True))
