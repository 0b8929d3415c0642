"""StartedSession: a decoding run of another session, which starts at one of its states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.session import Completions, Session


class StartedSession(Session):
    """A session whose states are those of the one within.

    Args:
        inner: On the host.
        first: The state to start in.
    """

    device = "cpu"

    def __init__(self, inner: Session, first: int) -> None:
        self._inner = inner
        self.words = inner.words
        self._first = first

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def advance(self, states: Any, token_ids: Any) -> Any:
        """Follow one token a state, int64[n]."""
        return self._inner.advance(states, token_ids)

    def fill_mask(self, states: Any, mask: Any) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        self._inner.fill_mask(states, mask)

    def check(self, states: Any, token_ids: Any) -> Any:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        return self._inner.check(states, token_ids)

    def allowed(self, states: Any) -> tuple[Any, Any]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return self._inner.allowed(states)

    def is_complete(self, states: Any) -> Any:
        """Say where the text so far is a member (or DONE), bool[n]."""
        return self._inner.is_complete(states)

    def forced(self, states: Any) -> tuple[Any, Any]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        return self._inner.forced(states)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Any:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        return self._inner.advance_bytes(states, texts)

    def speculation_keys(self, states: Any) -> Any:
        """Return what a next token may be learnt for, int64[n]."""
        return self._inner.speculation_keys(states)

    def completions(
        self, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> Completions | None:
        """Find the completions that are best by scores of single tokens."""
        return self._inner.completions(scores, ends)

    def statistics(self) -> Mapping[str, int]:
        """Return counts of what the session within holds."""
        return self._inner.statistics()
