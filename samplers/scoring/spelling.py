"""One text as a constraint: the ways to spell it in tokens, or one way alone.

The states are positions: bytes of the text, or tokens of the one way. A session of this kind costs
nothing before its positions are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE, Constraint, Session
from cdec.core.device_session import on_device
from cdec.core.mask import mask_words, pack_mask

if TYPE_CHECKING:
    from cdec.core.combine.healing import SortedTokens
    from cdec.core.tokens.vocabulary import Vocabulary

Ways = Sequence[Mapping[int, int]]
"""By position: the tokens that lead on, and where to. The last position is ``len(ways)``."""


def ways_to_spell(text: bytes, tokens: SortedTokens) -> list[dict[int, int]]:
    """Return all ways to spell ``text``, by byte; tokens that lead into a dead end are left out.

    Args:
        text: n bytes.
        tokens: Of the vocabulary.

    Returns:
        n positions; the first is empty where no tokens spell the text. Cost: some 20 microseconds
        a byte.
    """
    end = len(text)
    ways: list[dict[int, int]] = [{} for _ in range(end)]
    for start in range(end - 1, -1, -1):
        for length, ids in tokens.beginnings(text[start : start + tokens.longest]):
            if start + length == end or ways[start + length]:
                ways[start].update(dict.fromkeys(ids, start + length))
    return ways


def one_way(token_ids: Sequence[int]) -> list[dict[int, int]]:
    """Return the one way that these tokens are."""
    return [{int(token): place + 1} for place, token in enumerate(token_ids)]


class WaysConstraint(Constraint):
    """The token sequences along ``ways``, from the first position to the last.

    Args:
        ways: At least one position, unless an end event is to be drawn.
        vocabulary: Of the model.
        ends_itself: The last token gives DONE; otherwise an end event follows it.
    """

    kind = "text"
    is_sound = True
    ends_itself: bool
    max_tokens: int

    def __init__(self, ways: Ways, vocabulary: Vocabulary, *, ends_itself: bool) -> None:
        self.ways = ways
        self.vocabulary = vocabulary
        self.ends_itself = ends_itself
        self.max_tokens = len(ways)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device."""
        return on_device(WaysSession(self), device)

    def accepts(self, text: bytes) -> bool | None:
        """Say nothing: whoever gave the text compares."""
        return None


class WaysSession(Session):
    """A decoding run along the ways; the states are positions, so it holds none itself."""

    device = "cpu"

    def __init__(self, constraint: WaysConstraint) -> None:
        self._ways = constraint.ways
        self._width = constraint.vocabulary.width
        self.words = mask_words(self._width)
        ends = () if constraint.ends_itself else constraint.vocabulary.eos_token_ids
        self._last = dict.fromkeys(ends, DONE)
        self._ends_itself = constraint.ends_itself

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return np.zeros(n, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]."""
        pairs = zip(np.asarray(states).tolist(), np.asarray(token_ids).tolist(), strict=True)
        after = [self._at(state).get(token, DEAD) for state, token in pairs]
        if self._ends_itself:
            after = [DONE if state == len(self._ways) else state for state in after]
        return np.array(after, np.int64)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        allowed = np.zeros((len(states), self._width), np.bool_)
        for row, state in enumerate(np.asarray(states).tolist()):
            allowed[row, list(self._at(state))] = True
        mask[:] = pack_mask(allowed)

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        tokens = np.asarray(token_ids)
        result = np.zeros(tokens.shape, np.bool_)
        for row, state in enumerate(np.asarray(states).tolist()):
            result[row] = np.isin(tokens[row], list(self._at(state)))
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return _ragged([sorted(self._at(state)) for state in np.asarray(states).tolist()])

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text is whole (or DONE), bool[n]."""
        at = np.asarray(states)
        complete: NDArray[np.bool_] = (at == DONE) | (at == len(self._ways))
        return complete

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        lists = []
        for state in np.asarray(states).tolist():
            following = self._at(state)
            is_one = len(following) == 1 or following is self._last
            lists.append(sorted(following)[:1] if is_one else [])
        return _ragged(lists)

    def _at(self, state: int) -> Mapping[int, int]:
        if 0 <= state < len(self._ways):
            return self._ways[state]
        return self._last if state == len(self._ways) else {}


def _ragged(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(part) for part in lists], out=offsets[1:])
    return offsets, np.array([token for part in lists for token in part], np.int32)
