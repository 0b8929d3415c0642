"""HealedSession: a decoding run through a forced prefix of bytes, then through a constraint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.session import DEAD, Session

_FIRST = 1 << 62
"""State of position 0 in the prefix; those of the constraint within are far smaller."""


def at_position(number: int) -> int:
    """Return the state at a position of the prefix."""
    return _FIRST + number


@dataclass(frozen=True, slots=True)
class PrefixPosition:
    """What may follow at one position of the prefix.

    Attributes:
        ids: int32[n] allowed tokens, ascending.
        allowed: bool[V], the same; mask: int32[words], the same.
        ahead: The next position by token id; tokens that spell all that is left are not in it.
        beyond: The bytes of those after the prefix, by token id.
        key: Speculation key.
    """

    ids: NDArray[np.int32]
    allowed: NDArray[np.bool_]
    mask: NDArray[np.int32]
    ahead: Mapping[int, int]
    beyond: Mapping[int, bytes]
    key: int


class HealedSession(Session):
    """A decoding run: positions in the prefix, then the states of the session within.

    Args:
        inner: The session within.
        positions: Of the prefix, in an order that ``ahead`` numbers.
        enter: From a position's number and a token that spells all that is left there to the state
            of ``inner`` after it.
        first: The state to start in.
    """

    device = "cpu"

    def __init__(
        self,
        inner: Session,
        positions: Sequence[PrefixPosition],
        enter: Callable[[int, int], int],
        first: int = _FIRST,
    ) -> None:
        self._inner = inner
        self._positions = positions
        self._enter = enter
        self._first = first
        self.words = inner.words

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the prefix, int64[n]."""
        return np.full(n, self._first, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]."""
        states, tokens = np.asarray(states), np.asarray(token_ids)
        rows, inside = self._split(states)
        if not rows.size:
            after: NDArray[np.int64] = self._inner.advance(states, tokens)
            return after
        after = np.full(len(states), DEAD, np.int64)
        after[inside] = self._inner.advance(states[inside], tokens[inside])
        for row in rows.tolist():
            after[row] = self._step(int(states[row]) - _FIRST, int(tokens[row]))
        return after

    def _step(self, place: int, token: int) -> int:
        position = self._positions[place]
        if token in position.beyond:
            return self._enter(place, token)
        ahead = position.ahead.get(token)
        return DEAD if ahead is None else _FIRST + ahead

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        states = np.asarray(states)
        rows, inside = self._split(states)
        if not rows.size:
            self._inner.fill_mask(states, mask)
            return
        part = np.empty((len(inside), mask.shape[1]), np.int32)
        self._inner.fill_mask(states[inside], part)
        mask[inside] = part
        for row in rows.tolist():
            mask[row] = self._positions[int(states[row]) - _FIRST].mask

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        states, tokens = np.asarray(states), np.asarray(token_ids)
        rows, inside = self._split(states)
        result = np.zeros(tokens.shape, np.bool_)
        result[inside] = self._inner.check(states[inside], tokens[inside])
        for row in rows.tolist():
            allowed = self._positions[int(states[row]) - _FIRST].allowed
            known = (tokens[row] >= 0) & (tokens[row] < len(allowed))
            result[row, known] = allowed[tokens[row, known]]
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return self._ragged(states, self._inner.allowed, lambda position: position.ids)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        states = np.asarray(states)
        _, inside = self._split(states)
        result = np.zeros(len(states), np.bool_)
        result[inside] = self._inner.is_complete(states[inside])
        return result

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        return self._ragged(
            states, self._inner.forced, lambda position: position.ids[: int(len(position.ids) == 1)]
        )

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return keys of where the reading is, int64[n]; in the prefix, of what is left of it."""
        states = np.asarray(states)
        rows, inside = self._split(states)
        keys = np.empty(len(states), np.int64)
        keys[inside] = self._inner.speculation_keys(states[inside])
        for row in rows.tolist():
            keys[row] = self._positions[int(states[row]) - _FIRST].key
        return keys

    def statistics(self) -> Mapping[str, int]:
        """Return counts of what the session within holds; positions cost nothing."""
        return self._inner.statistics()

    def _split(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows in the prefix and all others; a state of neither is the inner's."""
        in_prefix = (states >= _FIRST) & (states < _FIRST + len(self._positions))
        return np.flatnonzero(in_prefix), np.flatnonzero(~in_prefix)

    def _ragged(
        self, states: Any, inner: Any, own: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Join the inner session's ragged lists and those of positions, by state."""
        states = np.asarray(states)
        rows, inside = self._split(states)
        offsets, ids = inner(states[inside])
        if not rows.size:
            return offsets, ids
        lists: list[Any] = [None] * len(states)
        for i, row in enumerate(inside.tolist()):
            lists[row] = ids[offsets[i] : offsets[i + 1]]
        for row in rows.tolist():
            lists[row] = own(self._positions[int(states[row]) - _FIRST])
        ends = np.zeros(len(states) + 1, np.int64)
        np.cumsum([len(part) for part in lists], out=ends[1:])
        return ends, np.concatenate(lists).astype(np.int32, copy=False)
