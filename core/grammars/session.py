"""GrammarSession: a decoding run over a grammar on the CPU, by the compiled engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.mask import mask_words
from cdec.core.native import library
from cdec.core.session import Session
from cdec.core.session_arguments import integers, require_mask, require_rows

if TYPE_CHECKING:
    from cdec.core.grammars.engine import Engine

__all__ = ["GrammarSession"]

_empty = np.empty
_advance, _check, _fill_mask = (
    library.grammar_advance,
    library.grammar_check,
    library.grammar_fill_mask,
)
_INT64 = np.dtype(np.int64)
_MEMORY_FULL = -2
"""The library's status; -1: too much work."""
_BYTES_A_CALL = 1 << 14
"""Bytes of a text for which, if they are followed at once, a call may come back once more."""
_MOST_STEPS = 1 << 18
"""Places of a session's table of steps; a full one is emptied."""


class GrammarSession(Session):
    """A decoding run: states are numbers in a table that the session owns and frees.

    Stacks, masks and memos lie in the engine and are shared with other sessions. The engine is
    locked while a call works, so that threads take turns; one that has worked for some hundredths
    of a second comes back, for signals and other threads of Python, and goes on.

    Args:
        engine: Of the grammar and its lookahead.
        width: Logits width.
    """

    device = "cpu"

    def __init__(self, engine: Engine, width: int) -> None:
        self._engine = engine
        self.words = mask_words(width)
        most = min(_MOST_STEPS, engine.budget // 64)
        self._session = library.grammar_session_make(engine.handle, self.words, most)
        self._start = int(library.grammar_start(self._session))
        if self._start < 0:
            self._refuse(self._start)

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first byte, int64[n]."""
        return np.full(n, self._start, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; O(1) each where it was done before.

        Args:
            states: int64[n].
            token_ids: int[n].

        Returns:
            int64[n]: DEAD where the token is not allowed, DONE after an end id.
        """
        try:
            out: NDArray[np.int64] = _empty(len(states), _INT64)
            if token_ids.dtype is not _INT64:
                token_ids = token_ids.astype(_INT64, casting="safe")
            done = _advance(self._session, states, token_ids, out, 0)
        except (TypeError, ValueError, AttributeError):
            states, token_ids = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
            require_rows(len(states), len(token_ids), "token ids")
            out, done = np.empty(len(states), np.int64), 0
        if done != len(out):
            self._finish(done, len(out), _advance, states, token_ids, out)
        return out

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with the exact masks of ``states``.

        Args:
            states: int64[n].
            mask: int32[n, ceil(width / 32)]; fastest if C-contiguous.
        """
        try:
            done = _fill_mask(self._session, states, mask, 0)
            rows = len(states)
        except (TypeError, ValueError):
            rows, done = -1, 0
        if done != rows:
            self._fill_mask(states, mask, done)

    def _fill_mask(self, states: Any, mask: NDArray[np.int32], done: int) -> None:
        """Fill masks of any layout, from row ``done`` on; refuse other shapes."""
        at = integers(states, 1, "states")
        shape = require_mask(mask, len(at), self.words)
        if mask.flags.c_contiguous and mask.flags.writeable:
            self._finish(done, len(at), _fill_mask, at, mask)
            return
        packed = np.empty(shape, np.int32)
        self._finish(0, len(at), _fill_mask, at, packed)
        mask[:] = packed

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M].

        O(bytes of the token) each; no mask is computed.
        """
        try:
            out: NDArray[np.bool_] = _empty(token_ids.shape, np.bool_)
            if token_ids.dtype is not _INT64:
                token_ids = token_ids.astype(_INT64, casting="safe")
            done = _check(self._session, states, token_ids, out, 0)
        except (TypeError, ValueError, AttributeError):
            states, token_ids = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
            require_rows(len(states), len(token_ids), "rows of token ids")
            out, done = np.empty(token_ids.shape, np.bool_), 0
        if done != out.size:
            self._finish(done, out.size, _check, states, token_ids, out)
        return out

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        at = integers(states, 1, "states")
        counts, _ = self._count(at)
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        ids = np.empty(int(offsets[-1]), np.int32)
        self._finish(0, len(at), library.grammar_fill_allowed, at, offsets, ids)
        return offsets, ids

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is in the language (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.bool_)
        self._finish(0, len(at), library.grammar_complete, at, out)
        return out

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next event where there is one: offsets int64[n + 1], ids int32.

        A state has one entry or none; a forced end event is given as the smallest end id.
        """
        at = integers(states, 1, "states")
        _, only = self._count(at)
        is_forced = only >= 0
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(is_forced, out=offsets[1:])
        return offsets, only[is_forced]

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n].

        Args:
            states: int64[n].
            texts: n byte strings; an empty one leaves its state as it is.

        Returns:
            int64[n]: DEAD where no member begins so. A lookahead does not apply here.
        """
        at = integers(states, 1, "states")
        require_rows(len(at), len(texts), "texts")
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        flat = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
        out = np.empty(len(at), np.int64)
        longest = int(np.diff(offsets).max(initial=0))
        self._finish(
            *(0, len(at), library.grammar_advance_bytes, at, flat, offsets, out),
            more=longest // _BYTES_A_CALL,
        )
        return out

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for: int64[n], equal in every session.

        A hash of scanner state and the three topmost LR states of the first reading (DOMINO,
        arXiv 2403.06988, section 3.6, counts by scanner state and parser substate).
        """
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.int64)
        library.grammar_speculation_keys(self._session, at, out)
        return out

    def can_shift(self, stack: int, terminal: int) -> bool:
        """Say whether the parser takes a terminal on a stack of a state's reading."""
        out = np.zeros(1, np.bool_)
        self._finish(0, 1, library.grammar_takes, stack, terminal, out)
        return bool(out[0])

    def readings(self, state: int) -> list[tuple[int, int]]:
        """Return the readings of a state, scanner state and stack each; none of other numbers."""
        count = library.grammar_readings(self._session, state, np.empty((0, 2), np.int32))
        found = np.empty((count, 2), np.int32)
        library.grammar_readings(self._session, state, found)
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
