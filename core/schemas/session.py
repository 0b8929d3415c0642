"""SchemaSession: a decoding run over a schema on the CPU, by the calls of its engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.native import library
from cdec.core.schemas.levels import Level
from cdec.core.session import Session
from cdec.core.session_arguments import integers, require_mask, require_rows

if TYPE_CHECKING:
    from cdec.core.schemas.engine import Engine

__all__ = ["SchemaSession"]

_empty = np.empty
_INT64 = np.dtype(np.int64)
_advance, _fill_mask = library.schema_engine_advance, library.schema_engine_fill_mask


class SchemaSession(Session):
    """A decoding run: states are numbers of the engine.

    States, steps and masks are shared with other sessions of the engine; threads take turns.

    Args:
        engine: Of the schema and the vocabulary.
        end_ids: Ascending end-of-sequence ids.
        width: Logits width.
    """

    device = "cpu"

    def __init__(self, engine: Engine, end_ids: Sequence[int], width: int) -> None:
        self._engine = engine
        self._handle = engine.handle
        self._ends = np.array(end_ids, np.int64)
        self.words = mask_words(width)
        self._before = engine.statistics()["states"]
        self._start = engine.start()

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
            n = len(states)
            out: NDArray[np.int64] = _empty(n, _INT64)
            if _advance(self._handle, states, token_ids, out) == n:
                return out
        except (TypeError, ValueError):
            pass
        states, token_ids = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(states), len(token_ids), "token ids")
        out = np.empty(len(states), np.int64)
        self._engine.work_on(
            len(out), lambda i: _advance(self._handle, states[i:], token_ids[i:], out[i:])
        )
        return out

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with the exact masks of ``states``.

        Args:
            states: int64[n].
            mask: int32[n, ceil(width / 32)]; fastest if C-contiguous.
        """
        try:
            rows, words = mask.shape
            if words == self.words and _fill_mask(self._handle, states, mask) == rows:
                return
        except (TypeError, ValueError, AttributeError):
            pass
        at = integers(states, 1, "states")
        shape = require_mask(mask, len(at), self.words)
        is_plain = mask.flags.c_contiguous and mask.flags.writeable
        packed = mask if is_plain else np.empty(shape, np.int32)
        self._engine.work_on(len(at), lambda i: _fill_mask(self._handle, at[i:], packed[i:]))
        if not is_plain:
            mask[:] = packed

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M].

        O(bytes of the token) each; no mask is computed.
        """
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        out = np.empty(tokens.shape, np.bool_)
        call = library.schema_engine_check
        self._engine.work_on(len(at), lambda i: call(self._handle, at[i:], tokens[i:], out[i:]))
        return out

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is in the language (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.bool_)
        library.schema_engine_complete(self._handle, at, out)
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
        flat = np.frombuffer(b"".join(texts), np.uint8)
        out = np.empty(len(at), np.int64)
        call = library.schema_engine_advance_bytes
        self._engine.work_on(
            len(at), lambda i: call(self._handle, at[i:], flat, offsets[i:], out[i:])
        )
        return out

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for: int64[n], equal in every session.

        A hash of the places in the schema at the two innermost levels.
        """
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.int64)
        library.schema_engine_speculation_keys(self._handle, at, out)
        return out

    def level(self, state: int) -> Level:
        """Return the level of nesting that a state, neither DEAD nor DONE, stands for."""
        return Level.of(self._engine, state)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of states, steps and masks.

        ``states`` are those that came since the session began; all else is the engine's.
        """
        counts = self._engine.statistics()
        return counts | {"states": counts["states"] - self._before}
