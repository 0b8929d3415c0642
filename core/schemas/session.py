"""SchemaSession: a decoding run over a schema on the CPU; checks its arguments, calls kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.grammars.engine.pointers import NEED
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.schemas.engine import kernels
from cdec.core.schemas.levels import Level
from cdec.core.session import Session
from cdec.core.session_arguments import integers, require_mask, require_rows

if TYPE_CHECKING:
    from cdec.core.schemas.engine.engine import Engine

__all__ = ["SchemaSession"]

_empty = np.empty
_INT64 = np.dtype(np.int64)


class SchemaSession(Session):
    """A decoding run: states are numbers in a table of the engine.

    States, steps and masks are shared with other sessions of the engine, whose lock is held while a
    kernel works, so that threads take turns.

    Args:
        engine: Of the schema and the vocabulary.
        end_ids: Ascending end-of-sequence ids.
        width: Logits width.
    """

    device = "cpu"

    def __init__(self, engine: Engine, end_ids: Sequence[int], width: int) -> None:
        self._engine = engine
        self._lock = engine.lock
        self._header = engine.memory.header
        self._ends = np.array(end_ids, np.int64)
        self.words = mask_words(width)
        self._before = engine.statistics()["states"]
        self._start = -1
        with self._lock:
            while self._start < 0:
                self._start = kernels.start(self._header)
                self._make_room(self)

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
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        out = np.empty(tokens.shape, np.bool_)
        self._finish(0, len(at), kernels.check, at, tokens, out)
        return out

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is in the language (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.bool_)
        with self._lock:
            kernels.is_complete(self._header, at, out)
        return out

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next event where there is one: offsets int64[n + 1], ids int32.

        A state has one entry or none; a forced end event is given as the smallest end id.
        """
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._ends)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n].

        Args:
            states: int64[n].
            texts: n byte strings; an empty one leaves its state as it is.

        Returns:
            int64[n]: DEAD where no member begins so.
        """
        at = integers(states, 1, "states")
        require_rows(len(at), len(texts), "texts")
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        flat = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
        out = np.empty(len(at), np.int64)
        self._finish(0, len(at), kernels.advance_bytes, at, flat, offsets, out)
        return out

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for: int64[n], equal in every session.

        A hash of the places in the schema at the two innermost levels.
        """
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.int64)
        with self._lock:
            kernels.speculation_keys(self._header, at, out)
        return out

    def level(self, state: int) -> Level:
        """Return the level of nesting that a state, neither DEAD nor DONE, stands for."""
        with self._lock:
            return Level.of(self._engine.memory, self._engine.arrays, state)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of states, steps and masks.

        ``states`` are those that came since the session began; all else is the engine's.
        """
        counts = self._engine.statistics()
        return counts | {"states": counts["states"] - self._before}

    def _finish(self, done: int, n: int, kernel: Callable[..., int], *arguments: Any) -> None:
        """Call a kernel until all n rows are done; what it lacks is made in between."""
        if done < 0:
            require_rows(len(arguments[0]), len(arguments[1]), "rows of token ids")
            done = 0
        last, call = done, object()
        while done != n:
            if done != last:
                last, call = done, object()
            with self._lock:
                self._make_room(call)
                done = kernel(self._header, *arguments, done)
        self._engine.keep_within_budget()

    def _make_room(self, call: object) -> None:
        if self._header[NEED]:
            self._engine.make_room(call)
