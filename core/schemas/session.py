"""Decoding runs over a schema on the CPU, and the engine that they share, by the compiled library.

What was computed for one text serves the next. Masks are bounded by a byte budget: when it is
reached all of them are dropped (a new *epoch* begins) and computed again as needed. One call may
pass it, so that its work ends, and what it made is dropped at its end. States stay; when they fill
much of the budget, new sessions get a new engine (``should_be_replaced``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.native import library
from cdec.core.schemas.json_tokens import JsonTokens
from cdec.core.schemas.program import SchemaArrays, arrays_from
from cdec.core.session import FittedCalls, HostSession, Session, integers

DEFAULT_BUDGET = 256 << 20
"""Bytes of masks of one engine."""
_MOST_BYTES = 4 << 30
"""Of states and their steps together."""
_LEAST_STATES = 1 << 20
"""Bytes of states for which an engine is kept, whatever the budget."""
_COUNTS = (
    *("states", "frames", "steps", "mask_hits", "mask_misses", "masks", "epochs"),
    *("memo_bytes", "bytes"),
)
_STATES_FULL = -1


class Engine:
    """States, steps and masks over one program and one vocabulary; threads take turns.

    Args:
        arrays: The program; its numbers were checked (``program_checks``).
        tokens: Of the vocabulary.
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks that are kept from call to call.
        sets: Each adds what strings may be members of, by one of three functions: of a trie, of a
            document, of regular expressions; and returns what the engine reads while it lives.
        budgets: int32[strings] most tokens of alternatives of strings, -1 for any; None: all any.

    Attributes:
        handle: What the library's functions take.
    """

    def __init__(
        self,
        arrays: SchemaArrays,
        tokens: JsonTokens,
        end_ids: tuple[int, ...],
        budget: int,
        sets: Sequence[Callable[..., object]] = (),
        budgets: NDArray[np.int32] | None = None,
    ) -> None:
        self.arrays = arrays_from(arrays._asdict())
        self.budget, self.budgets = budget, budgets
        ends = np.array(end_ids, np.int64)
        self.handle = library.schema_engine_make(
            self.arrays, *tokens.tries(), tokens.held(), ends, budget, _MOST_BYTES
        )
        adders = (
            library.schema_engine_add_set,
            library.schema_engine_add_document,
            library.schema_engine_add_regexes,
        )
        self._sets = [add(*(partial(adder, self.handle) for adder in adders)) for add in sets]
        if budgets is not None:
            library.schema_engine_add_budgets(self.handle, budgets)

    def start(self) -> int:
        """Return the state before the first byte."""
        return self._checked(library.schema_engine_start(self.handle))

    def work_on(self, n: int, call: Callable[[int], int]) -> None:
        """Call a function of the library until n rows are done; signals are handled in between.

        Args:
            n: Rows.
            call: Works from a row on, and returns how many are done.

        Raises:
            LimitError: States and their steps have grown past ``_MOST_BYTES``.
        """
        done = 0
        while done < n:
            done += self._checked(call(done))

    def _checked(self, status: int) -> int:
        if status != _STATES_FULL:
            return status
        raise LimitError(
            f"the states of the schema's texts take {self.statistics()['bytes']:,} bytes",
            hint="draw fewer texts at once, or shorter ones",
            limit="memo_bytes",
        )

    def fewest_of_strings(self, strings: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return with how few tokens alternatives of strings are spelled, int64[n], or FAR."""
        out, call = np.empty(len(strings), np.int64), library.schema_engine_fewest_of_strings
        self.work_on(len(out), lambda i: call(self.handle, strings[i:], out[i:]))
        return out

    def drop(self) -> None:
        """Forget all masks; what sessions ask for is computed again."""
        library.schema_engine_drop(self.handle)

    @property
    def memo_bytes(self) -> int:
        """Bytes that masks take."""
        return self.statistics()["memo_bytes"]

    @property
    def should_be_replaced(self) -> bool:
        """True where new sessions should have a new engine: states fill much of the budget."""
        counts = self.statistics()
        return counts["bytes"] - counts["memo_bytes"] > max(self.budget // 4, _LEAST_STATES)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of states, steps and masks."""
        counts = np.empty(len(_COUNTS), np.int64)
        library.schema_engine_statistics(self.handle, counts)
        return dict(zip(_COUNTS, counts.tolist(), strict=True))


_empty = np.empty
_INT64 = np.dtype(np.int64)
_advance, _fill_mask = library.schema_engine_advance, library.schema_engine_fill_mask
_ahead = library.schema_engine_ahead
_FITTED = library.schema_engine_fill_fitted, library.schema_engine_advance_fitted


class SchemaSession(HostSession):
    """A decoding run: states are numbers of the engine.

    States, steps and masks are shared with other sessions of the engine; threads take turns.

    Args:
        engine: Of the schema and the vocabulary.
        end_ids: Ascending end-of-sequence ids.
        width: Logits width.
    """

    counts_states = True

    def __init__(self, engine: Engine, end_ids: Sequence[int], width: int) -> None:
        self.engine = engine
        self._handle = engine.handle
        self._ends = np.array(end_ids, np.int64)
        self.words, self.memo_budget = mask_words(width), engine.budget
        self._before = engine.statistics()["states"]
        self._start = engine.start()

    @property
    def fitted_calls(self) -> FittedCalls:
        return FittedCalls(self._handle, *_FITTED, library.product_of_schema)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state; O(1) each where it was done before."""
        try:
            n = len(states)
            out: NDArray[np.int64] = _empty(n, _INT64)
            if _advance(self._handle, states, token_ids, out) == n:
                return out
        except (TypeError, ValueError):
            pass
        return super().advance(states, token_ids)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` int32[n, words] with the exact masks; fastest if C-contiguous."""
        try:
            rows, words = mask.shape
            if words == self.words and _fill_mask(self._handle, states, mask) == rows:
                return
        except (TypeError, ValueError, AttributeError):
            pass
        super().fill_mask(states, mask)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes, int64[n]; refused where tokens are counted."""
        if self.engine.budgets is not None:
            return Session.advance_bytes(self, states, texts)  # type: ignore[no-any-return]
        return super().advance_bytes(states, texts)

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events; an end event is given as the smallest end id."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._ends)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for: int64[n], equal in every session.

        A hash of the places in the schema at the two innermost levels.
        """
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.int64)
        library.schema_engine_speculation_keys(self._handle, at, out)
        return out

    def fewest_tokens(self, states: Any) -> NDArray[np.int64]:
        """Return with how few further tokens texts may end, or a bound from above, int64[n]."""
        return self._of_states(library.schema_engine_fewest, states)

    def fewest_ahead(self, states: Any) -> NDArray[np.int64]:
        """Return the most of ``fewest_tokens`` behind any allowed token, or more, int64[n].

        Cost: once a state about a mask, then a look-up.
        """
        return self._of_states(_ahead, states)

    def _of_states(self, call: Callable[..., int], states: Any) -> NDArray[np.int64]:
        try:
            n = len(states)
            out: NDArray[np.int64] = _empty(n, _INT64)
            if call(self._handle, states, out) == n:
                return out
        except (TypeError, ValueError):
            pass
        at = integers(states, 1, "states")
        out = _empty(len(at), _INT64)
        self.engine.work_on(len(at), lambda i: call(self._handle, at[i:], out[i:]))
        return out

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        self.engine.work_on(len(at), lambda i: _advance(self._handle, at[i:], tokens[i:], out[i:]))

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        self.engine.work_on(len(at), lambda i: _fill_mask(self._handle, at[i:], packed[i:]))

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        call = library.schema_engine_check
        self.engine.work_on(len(at), lambda i: call(self._handle, at[i:], tokens[i:], out[i:]))

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        library.schema_engine_complete(self._handle, at, out)

    def _advance_texts(
        self,
        at: NDArray[np.int64],
        flat: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        out: NDArray[np.int64],
    ) -> None:
        call = library.schema_engine_advance_bytes
        self.engine.work_on(
            len(at), lambda i: call(self._handle, at[i:], flat, offsets[i:], out[i:])
        )

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of states, steps and masks.

        ``states`` are those that came since the session began; all else is the engine's.
        """
        counts = self.engine.statistics()
        return counts | {"states": counts["states"] - self._before}
