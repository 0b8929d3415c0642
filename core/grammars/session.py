"""Decoding runs over a grammar on the CPU, and the engine that they share, by the compiled library.

An ``Engine`` holds parser stacks, token masks and memos of results; ``native/grammars/engine.h``
says what is kept and what is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.grammars.columns import (
    COLUMNS,
    LIST_PENDING,
    GrammarArrays,
    count_states,
    counted_up,
    items_of,
    loop_states,
    state_of_tree,
)
from cdec.core.mask import forced_rows, mask_words, offsets_of
from cdec.core.native import library
from cdec.core.session import FittedCalls, HostSession, Session, integers, require_mask


def compacted(
    offsets: NDArray[np.int64],
    items: NDArray[np.int64],
    steps: NDArray[np.int64],
    after: NDArray[np.int64],
    *,
    first: int,
    live_rows: int,
) -> dict[str, NDArray[Any]]:
    """Return the columns of an automaton, without the lists that none of its states needs.

    Args:
        offsets: int64[A + 1], lists of an engine from number ``first`` on.
        items: int64, what they hold.
        steps: int64[n] ``state << 32 | LR state``, ascending.
        after: int64[n] the states after them.
        first: Number of the first list.
        live_rows: Rows from here on are parts of rows: lists.
    """
    heads, counts = items[offsets[:-1]], np.diff(offsets) - 1
    kinds = np.where(heads >= 0, heads & 3, heads)
    sources = (steps >> 32) - first
    kept = np.zeros(len(kinds), np.bool_)
    kept[sources[sources >= 0]] = True
    kept[after[after >= first] - first] = True
    states = np.flatnonzero(kept)
    names = items_of(offsets, states)[0][counted_up(counts[states]) % 2 == 0]
    kept[items[names] - first] = True
    waiting = items_of(offsets, np.flatnonzero(kept & (kinds == LIST_PENDING)))[0]
    row = (items[waiting] & 0xFFFFFFFF) - 1 - live_rows - first
    is_part = (row >= 0) & (row < len(kinds))
    kept[row[is_part]] = True

    number = np.cumsum(kept) - 1
    moved = items.copy()
    moved[names] = first + number[items[names] - first]
    moved[waiting[is_part]] += number[row[is_part]] - row[is_part]
    lists = np.flatnonzero(kept)
    ends = np.concatenate([[0], np.cumsum(counts[lists] + 1)])
    every = np.repeat(offsets[lists] - ends[:-1], counts[lists] + 1) + np.arange(ends[-1])
    renamed = np.where(sources < 0, sources, number[np.maximum(sources, 0)]) + first
    states = np.arange(first + len(lists) + 1)
    return {
        "automaton_offsets": ends,
        "automaton_items": moved[every],
        "automaton_step_offsets": np.searchsorted(renamed, states).astype(np.int64),
        "automaton_read": (steps & 0xFFFFFFFF).astype(np.int32),
        "automaton_after": (first + number[np.maximum(after - first, 0)]).astype(np.int32),
    }


def stored_lists(arrays: GrammarArrays) -> int:
    """Return how many lists of the automaton an artifact holds; 0 if their ends are damaged."""
    offsets, steps = arrays.automaton_offsets, arrays.automaton_step_offsets
    lists = len(offsets) - 1
    good = lists >= 0 and len(steps) == len(arrays.tree_taken) + lists + 1
    good = good and offsets[0] == 0 and offsets[-1] == len(arrays.automaton_items)
    return lists if good and bool((np.diff(offsets) > 0).all()) else 0


DEFAULT_BUDGET = 256 << 20
"""Bytes of masks and memos of one engine."""
MASK_WORK = 1 << 26
"""Steps of the parsers for one mask, or for one token that is followed: some ten seconds."""
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


Reach: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"
"""By scanner state, with how few tokens a text may end, and the most of these behind a token."""


class Work(NamedTuple):
    """Steps of the parsers, and when they pause.

    Attributes:
        a_mask: Most steps for one mask, or one token.
        at_once: LR states read from a stack before what is left of it is remembered.
        pause_after: Steps after which a call comes back, for signals and threads: some hundredths
            of a second.
    """

    a_mask: int = MASK_WORK
    at_once: int = 64
    pause_after: int = 1 << 18


class Engine:
    """Stacks, masks and memos over one grammar and one lookahead.

    Args:
        arrays: The compiled grammar.
        general: Whether the parser is the generalised one (lexer ``dynamic``).
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks, memos and working space that are kept from call to call, beyond
            what an engine begins with.
        lookahead: Terminals that may begin within a token after the first; None for any number.
        work: What one call may do.

    Attributes:
        handle: The library's object.
        most_calls: Calls that one mask, or one token, may take.
        counts_tokens: Whether terminals, or rules, may have so many.
    """

    def __init__(
        self,
        arrays: GrammarArrays,
        *,
        general: bool,
        end_ids: tuple[int, ...],
        budget: int = DEFAULT_BUDGET,
        lookahead: int | None = None,
        work: Work = Work(),
    ) -> None:
        self.budget = budget
        self.set_terminals: Sequence[int] = ()
        self.counts_tokens = False
        self._held: tuple[Any, ...] = ()
        self.mask_work = work.a_mask
        pause_at = min(work.pause_after, work.a_mask)
        self.most_calls = work.a_mask // pause_at
        self._arrays = arrays
        columns = tuple(
            np.ascontiguousarray(array, COLUMNS[name]) for name, array in arrays._asdict().items()
        )
        settings = (
            *(general, _UNLIMITED if lookahead is None else lookahead, count_states(arrays)),
            *(stored_lists(arrays) if lookahead is None else 0, budget, max(budget, _MOST_BYTES)),
            *(pause_at, work.a_mask, work.at_once),
        )
        ends = np.array(end_ids, np.int64)
        self.handle = library.grammar_engine_make(
            columns, settings, state_of_tree(arrays), loop_states(arrays), ends
        )

    def add_sets(
        self,
        terminals: Sequence[int],
        sets: Sequence[Callable[..., object]],
        tokens: tuple[NDArray[Any], ...],
    ) -> None:
        """Add the sets whose members are texts of terminals, before the first session.

        Args:
            terminals: One a set.
            sets: Each adds its members by one of two functions: of a trie, of a document; and
                returns what the engine reads.
            tokens: The vocabulary's trie, as ``TokenTrie.arrays``.
        """
        self.set_terminals, trie = list(terminals), library.hold_token_trie(tokens)
        # The engine reads them as long as it lives.
        self._held = (trie,)
        adders = library.grammar_engine_add_set, library.grammar_engine_add_document
        for terminal, add in zip(terminals, sets, strict=True):
            of_terminal = [
                lambda held, number=terminal, adder=adder: adder(self.handle, number, held, trie)
                for adder in adders
            ]
            self._held += (add(*of_terminal),)

    def add_budgets(self, most: NDArray[np.int32], tokens: tuple[NDArray[Any], ...]) -> None:
        """Hold terminals to numbers of tokens, before the first session.

        Args:
            most: int32[terminals], -1 for any number.
            tokens: The vocabulary's trie, as ``TokenTrie.arrays``.
        """
        library.grammar_engine_add_budgets(self.handle, most, self.counting(tokens))

    def counting(self, tokens: tuple[NDArray[Any], ...]) -> Any:
        """Return the vocabulary's trie for numbers of tokens, which sessions count from now on."""
        trie = library.hold_token_trie(tokens)
        # The engine reads it as long as it lives.
        self._held, self.counts_tokens = (*self._held, trie), True
        return trie

    def fewest_of_terminal(self, terminal: int) -> int:
        """Return with how few tokens a terminal is spelled; -1: none found, or nothing added."""
        return int(library.grammar_fewest_of_terminal(self.handle, terminal))

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
        """True where new sessions should have a new engine: stacks fill much of the budget."""
        return self._counts()["stack_bytes"] > max(self.budget // 4, _LEAST_STACKS)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of stacks, masks and memos."""
        counts = self._counts()
        return {name: counts[name] for name in _SHOWN}

    def _counts(self) -> dict[str, int]:
        found = np.zeros(len(_STATISTICS), np.int64)
        library.grammar_engine_statistics(self.handle, found)
        return dict(zip(_STATISTICS, found.tolist(), strict=True))


_empty = np.empty
_advance, _check, _fill_mask = (
    library.grammar_advance,
    library.grammar_check,
    library.grammar_fill_mask,
)
_FITTED = library.grammar_fill_fitted, library.grammar_advance_fitted, library.product_of_grammar
_INT64 = np.dtype(np.int64)
_MEMORY_FULL = -2
"""The library's status; -1: too much work."""
_BYTES_A_CALL = 1 << 14
"""Bytes of a text for which, if they are followed at once, a call may come back once more."""
_MOST_STEPS = 1 << 18
"""Places of a session's table of steps; a full one is emptied."""


class GrammarSession(HostSession):
    """A decoding run: states are numbers in a table that the session owns and frees.

    Stacks, masks and memos lie in the engine and are shared with other sessions. The engine is
    locked while a call works, so that threads take turns; one that has worked for some hundredths
    of a second comes back, for signals and other threads of Python, and goes on.

    Args:
        engine: Of the grammar and its lookahead.
        width: Logits width.
        reach: Finds distances from the end by scanner states; None where nobody knows them.
        trie: Makes the library's trie of the vocabulary, by which ways to an end are counted.
    """

    counts_states = True

    def __init__(
        self,
        engine: Engine,
        width: int,
        reach: Callable[[], Reach] | None = None,
        trie: Callable[[], Any] | None = None,
    ) -> None:
        self._engine = engine
        self._reach, self._trie = reach, trie
        self.words, self.memo_budget = mask_words(width), engine.budget
        most = min(_MOST_STEPS, engine.budget // 64)
        self._session = library.grammar_session_make(engine.handle, self.words, most)
        self._start = int(library.grammar_start(self._session))
        if self._start < 0:
            self._refuse(self._start)

    @property
    def fitted_calls(self) -> FittedCalls:
        return FittedCalls(self._session, *_FITTED)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state; O(1) each where it was done before."""
        try:
            out: NDArray[np.int64] = _empty(len(states), _INT64)
            if token_ids.dtype is not _INT64:
                token_ids = token_ids.astype(_INT64, casting="safe")
            done = _advance(self._session, states, token_ids, out, 0)
        except (TypeError, ValueError, AttributeError):
            return super().advance(states, token_ids)
        if done != len(out):
            self._finish(done, len(out), _advance, states, token_ids, out)
        return out

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` int32[n, words] with the exact masks; fastest if C-contiguous."""
        try:
            done = _fill_mask(self._session, states, mask, 0)
        except (TypeError, ValueError):
            super().fill_mask(states, mask)
            return
        if done != len(states):
            require_mask(mask, len(states), self.words)
            self._finish(done, len(states), _fill_mask, states, mask)

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens whether each is allowed; O(bytes of the token), without a mask."""
        try:
            out: NDArray[np.bool_] = _empty(token_ids.shape, np.bool_)
            if token_ids.dtype is not _INT64:
                token_ids = token_ids.astype(_INT64, casting="safe")
            done = _check(self._session, states, token_ids, out, 0)
        except (TypeError, ValueError, AttributeError):
            return super().check(states, token_ids)
        if done != out.size:
            self._finish(done, out.size, _check, states, token_ids, out)
        return out

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes, int64[n]; refused where tokens are counted."""
        if self._engine.counts_tokens:
            return Session.advance_bytes(self, states, texts)  # type: ignore[no-any-return]
        return super().advance_bytes(states, texts)

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        at = integers(states, 1, "states")
        counts, _ = self._count(at)
        offsets = offsets_of(counts)
        ids = np.empty(int(offsets[-1]), np.int32)
        self._finish(0, len(at), library.grammar_fill_allowed, at, offsets, ids)
        return offsets, ids

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events; an end event is given as the smallest end id."""
        return forced_rows(self._count(integers(states, 1, "states"))[1])

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for: int64[n], equal in every session.

        A hash of scanner state and the three topmost LR states of the first configuration (DOMINO,
        arXiv 2403.06988, section 3.6, counts by scanner state and parser substate).
        """
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.int64)
        library.grammar_speculation_keys(self._session, at, out)
        return out

    def fewest_tokens(self, states: Any) -> NDArray[np.int64]:
        """Return with how few further tokens texts may end, or a bound from above, int64[n]."""
        at = integers(states, 1, "states")
        if self._reach is None:
            return self._counted(library.grammar_fewest, at)
        found = self._measured(at, self._reach()[0])
        found[self.is_complete(at)] = 0
        return found

    def fewest_ahead(self, states: Any) -> NDArray[np.int64]:
        """Return the most of ``fewest_tokens`` behind any allowed token, int64[n].

        Cost: of a grammar, once a state a step for every token that is allowed.
        """
        at = integers(states, 1, "states")
        if self._reach is None:
            return self._counted(library.grammar_ahead, at)
        return self._measured(at, self._reach()[1])

    def _counted(self, call: Callable[..., int], at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what the engine finds for states of which a way to an end is looked for."""
        if self._trie is None:
            return super().fewest_tokens(at)  # type: ignore[no-any-return]
        out = np.empty(len(at), np.int64)
        self._finish(0, len(at), call, at, self._trie(), out)
        return out

    def _measured(self, at: NDArray[np.int64], distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what is known of the scanner states of the first configurations; 0 behind all."""
        own, inverse = np.unique(at, return_inverse=True)
        found = np.zeros(len(own), np.int64)
        for row, state in enumerate(own.tolist()):
            place = self.configurations(state)[0][0] if state >= 0 else len(distances)
            is_first = state == self._start
            if place < len(distances) or is_first:
                found[row] = distances[place % len(distances)]
        return found[inverse]

    def can_shift(self, stack: int, terminal: int) -> bool:
        """Say whether the parser takes a terminal on a stack of a state's configuration."""
        out = np.zeros(1, np.bool_)
        self._finish(0, 1, library.grammar_can_shift, stack, terminal, out)
        return bool(out[0])

    def terminal_of_set(self, at: int) -> int | None:
        """Return the terminal whose member is under way at a scanner state, if that is in a set."""
        number = library.grammar_set_of(self._session, at)
        return None if number < 0 else self._engine.set_terminals[number]

    def configurations(self, state: int) -> list[tuple[int, int]]:
        """Return the parser configurations of a state: scanner state and stack of each."""
        count = library.grammar_configurations(self._session, state, np.empty((0, 2), np.int32))
        found = np.empty((count, 2), np.int32)
        library.grammar_configurations(self._session, state, found)
        return [(at, stack) for at, stack in found.tolist()]

    def stack(self, stack: int, most: int) -> tuple[list[int], list[int], int]:
        """Return the LR states on top of a stack, the first ones on its way down, its depth."""
        path, depth = np.empty(most, np.int32), np.zeros(1, np.int64)
        none = np.empty(0, np.int32)
        tops = np.empty(library.grammar_stack(self._session, stack, none, none, depth), np.int32)
        library.grammar_stack(self._session, stack, tops, path, depth)
        return tops.tolist(), path[: depth[0]].tolist(), int(depth[0])

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of the session's states, and of the engine's memos."""
        found = np.zeros(3, np.int64)
        library.grammar_statistics(self._session, found)
        states, steps, size = found.tolist()
        own = {"states": states, "steps": steps, "session_bytes": size}
        return own | self._engine.statistics()

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        self._finish(0, len(out), _advance, at, tokens, out)

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        self._finish(0, len(at), _fill_mask, at, packed)

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        self._finish(0, out.size, _check, at, tokens, out)

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        self._finish(0, len(at), library.grammar_complete, at, out)

    def _advance_texts(
        self,
        at: NDArray[np.int64],
        flat: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        out: NDArray[np.int64],
    ) -> None:
        """Write the states after texts each; a lookahead does not apply here."""
        more = int(np.diff(offsets).max(initial=0)) // _BYTES_A_CALL
        call = library.grammar_advance_bytes
        self._finish(0, len(at), call, at, flat, offsets, out, more=more)

    def _count(self, at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        counts, only = np.empty(len(at), np.int64), np.empty(len(at), np.int32)
        self._finish(0, len(at), library.grammar_count_allowed, at, counts, only)
        return counts, only

    def _finish(
        self, done: int, n: int, call: Callable[..., int], *arguments: Any, more: int = 0
    ) -> None:
        """Call until all n rows are done.

        ``more``: calls that a row may take besides those that ``mask_work`` allows.
        """
        calls = 0
        while done != n:
            if done < 0 or calls > self._engine.most_calls + more:
                self._refuse(done)
            row, done = done, call(self._session, *arguments, done)
            calls = calls + 1 if done == row else 0

    def _refuse(self, status: int) -> NoReturn:
        if status == _MEMORY_FULL:
            held = self._engine.statistics()["bytes"]
            raise LimitError(
                f"the grammar's stacks and masks take {held:,} bytes",
                hint="compile the artifact again, should it be damaged; or draw fewer at once",
                limit="memo_bytes",
            )
        raise LimitError(
            f"one mask or token takes more than {self._engine.mask_work:,} steps of the "
            "grammar's parsers",
            hint="write the grammar with fewer ways to read a text, or raise `mask_work`",
            limit="mask_work",
        )
