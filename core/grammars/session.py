"""GrammarSession: a decoding run over a grammar on the CPU; checks its arguments, calls kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine import kernels
from cdec.core.grammars.engine.memory import Memory
from cdec.core.grammars.engine.pointers import NEED, PAUSED, STOPPED
from cdec.core.mask import mask_words
from cdec.core.session import Session
from cdec.core.session_arguments import integers, require_mask, require_rows

if TYPE_CHECKING:
    from cdec.core.grammars.engine.engine import Engine

__all__ = ["GrammarSession"]

_empty = np.empty
_INT64 = np.dtype(np.int64)
_BYTES_A_TURN = 1 << 14
"""Bytes of a text for which, if they are followed at once, a kernel may pause once more."""


class GrammarSession(Session):
    """A decoding run: states are numbers in a table that the session owns and frees.

    Stacks, masks and memos lie in the engine and are shared with other sessions. The engine's lock
    is held while a row is worked on, so that threads take turns; a kernel that has worked for some
    tenths of a second comes back, for signals and other threads of Python, and goes on.

    Args:
        engine: Of the grammar and its lookahead.
        width: Logits width.
    """

    device = "cpu"

    def __init__(self, engine: Engine, width: int) -> None:
        self._engine = engine
        self._lock = engine.lock
        self.words = mask_words(width)
        self._memory = memory = Memory(f.SESSION_FIELDS)
        self._header = memory.header
        self._header[f.ENGINE] = engine.memory.header.__array_interface__["data"][0]
        for group in f.SESSION_GROWING.values():
            for field, dtype in group:
                memory.allocate(field, 64, dtype)
        memory.arrays[f.STATE_OFFSETS][0] = 0
        memory.use(f.STATE_OFFSETS, 1)
        memory.allocate_table(f.STATE_TABLE, 64)
        memory.allocate_table(f.NEXT_TABLE, 64)
        self._start = self._until_done(kernels.start)

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
            with self._lock:
                done = kernels.advance(self._header, states, token_ids, out, 0)
        except (TypeError, AttributeError):
            states, token_ids = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
            out, done = np.empty(len(states), np.int64), 0
        if done != len(out):
            self._finish(done, len(out), kernels.advance, states, token_ids, out)
        return out

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with the exact masks of ``states``.

        Args:
            states: int64[n].
            mask: int32[n, ceil(width / 32)]; fastest if C-contiguous.
        """
        try:
            rows, words = mask.shape
            with self._lock:
                done = -1
                if words == self.words:
                    done = kernels.fill_mask(self._header, states, mask, 0)
        except (TypeError, ValueError, AttributeError):
            rows, done = -1, -1
        if done != rows or rows < 0:
            self._fill_mask(states, mask, max(done, 0))

    def _fill_mask(self, states: Any, mask: NDArray[np.int32], done: int) -> None:
        """Fill masks of any layout, from row ``done`` on; refuse other shapes."""
        at = integers(states, 1, "states")
        shape = require_mask(mask, len(at), self.words)
        if mask.flags.c_contiguous and mask.flags.writeable:
            self._finish(done, len(at), kernels.fill_mask, at, mask)
            return
        packed = np.empty(shape, np.int32)
        self._finish(0, len(at), kernels.fill_mask, at, packed)
        mask[:] = packed

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M].

        O(bytes of the token) each; no mask is computed.
        """
        try:
            out: NDArray[np.bool_] = _empty(token_ids.shape, np.bool_)
            if token_ids.dtype is not _INT64:
                token_ids = token_ids.astype(_INT64, casting="safe")
            with self._lock:
                done = kernels.check(self._header, states, token_ids, out, 0)
        except (TypeError, AttributeError):
            states, token_ids = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
            out, done = np.empty(token_ids.shape, np.bool_), 0
        if done != out.size:
            self._finish(done, out.size, kernels.check, states, token_ids, out)
        return out

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        at = integers(states, 1, "states")
        counts, _ = self._count(at)
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        ids = np.empty(int(offsets[-1]), np.int32)
        self._finish(0, len(at), kernels.fill_allowed, at, offsets, ids)
        return offsets, ids

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is in the language (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.bool_)
        self._finish(0, len(at), kernels.is_complete, at, out)
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
            *(0, len(at), kernels.advance_bytes, at, flat, offsets, out),
            turns=longest // _BYTES_A_TURN,
        )
        return out

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for: int64[n], equal in every session.

        A hash of scanner state and the three topmost LR states of the first reading (DOMINO,
        arXiv 2403.06988, section 3.6, counts by scanner state and parser substate).
        """
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.int64)
        with self._lock:
            kernels.speculation_keys(self._header, at, out)
        return out

    def can_shift(self, stack: int, terminal: int) -> bool:
        """Say whether the parser takes a terminal on a stack of a state's reading."""
        result = self._until_done(kernels.takes, stack, terminal)
        self._engine.keep_within_budget()
        return result == 1

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of the session's states, and of the engine's memos."""
        return {
            "states": self._memory.used(f.STATE_OFFSETS) - 1,
            "steps": self._memory.used(f.NEXT_TABLE),
            "session_bytes": self._memory.bytes,
            **self._engine.statistics(),
        }

    def _count(self, at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        counts, only = np.empty(len(at), np.int64), np.empty(len(at), np.int32)
        self._finish(0, len(at), kernels.count_allowed, at, counts, only)
        return counts, only

    def _until_done(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Call a kernel that does one thing until it gives no -1."""
        turn, result = _Turn(), -1
        with self._lock:
            while result < 0:
                self._make_room(turn)
                result = int(kernel(self._header, *arguments))
        return result

    def _finish(
        self, done: int, n: int, kernel: Callable[..., int], *arguments: Any, turns: int = 0
    ) -> None:
        """Call a kernel until all n rows are done; what it lacks is made in between.

        ``turns``: calls that a row may take besides those that ``mask_work`` allows.
        """
        if done < 0:
            require_rows(len(arguments[0]), len(arguments[1]), "rows of token ids")
            done = 0
        while done != n:
            row, turn = done, _Turn(turns)
            # subtle: kept until a row is done; another thread's would undo what a pause has left.
            with self._lock:
                while done == row:
                    self._make_room(turn)
                    done = kernel(self._header, *arguments, done)
        self._engine.keep_within_budget()

    def _make_room(self, turn: _Turn) -> None:
        engine, header = self._engine.memory.header, self._header
        if engine[NEED] == PAUSED or engine[NEED] == STOPPED:
            turn.pauses += 1
            most = self._engine.mask_work // int(engine[f.PAUSE_AT]) + turn.more
            is_over = engine[NEED] == STOPPED or turn.pauses > most
            engine[NEED] = 0
            if is_over:
                raise LimitError(
                    f"one mask or token takes more than {self._engine.mask_work:,} steps of the "
                    "grammar's parsers",
                    hint="write the grammar with fewer ways to read a text, or raise `mask_work`",
                    limit="mask_work",
                )
        elif engine[NEED]:
            self._engine.make_room(turn)
        if header[NEED]:
            most = min(f.NEXT_LIMIT, self._engine.budget // 64)
            full = 2 * self._memory.size(f.NEXT_TABLE) > most
            if header[NEED] == f.NEXT_TABLE + 1 and full:
                self._memory.drop_table(f.NEXT_TABLE, 64)
                header[NEED] = 0
            else:
                self._memory.grow(f.SESSION_GROWING)


class _Turn:
    """What was done for one row so far.

    Attributes:
        pauses: Calls that ended because they were long.
        more: How many more there may be than ``mask_work`` says.
    """

    __slots__ = ("more", "pauses")

    def __init__(self, more: int = 0) -> None:
        self.more = more
        self.pauses = 0
