"""TaggedSession: a decoding run through a member and the text that ends its region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free.markers import Found, Markers
from cdec.core.combine.healing import SortedTokens
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words, pack_mask, unpack_mask
from cdec.core.session import DEAD, DONE, Session
from cdec.core.session_arguments import integers, require_mask, require_rows
from cdec.core.tokens.vocabulary import Vocabulary

_Reading = tuple[int, tuple[int, ...]]
"""A state of the member (DEAD where it cannot go on), and of each ending text begun its bytes."""


@dataclass(frozen=True)
class _Place:
    """What may follow at one state: as ``FreePlace``; ``ending`` are the tokens that end it."""

    allowed: NDArray[np.bool_]
    mask: NDArray[np.int32]
    ending: frozenset[int]
    ends: dict[int, tuple[int, ...]]
    after: dict[int, int] = field(default_factory=dict)


class TaggedSession(Session):
    """Reads a region: the member goes on, or the ending text has begun, or both may be.

    A state is the state of the member within and the beginnings of the ending text that the bytes
    so far may end with, behind a member: a subset construction, filled on first use.

    Args:
        inner: Of the member, on the host.
        vocabulary: Of the model.
        end: The ending text.
        begins: What must not stand whole behind it in its last token.
        tokens: Of ``vocabulary``.
        begun: Bytes that the region begins with already.
        takes_bytes: Whether ``inner`` does; else the ending text begins with a token.
    """

    device = "cpu"

    def __init__(
        self,
        inner: Session,
        vocabulary: Vocabulary,
        end: bytes,
        begins: Markers,
        tokens: SortedTokens,
        *,
        begun: bytes,
        takes_bytes: bool,
    ) -> None:
        self._inner = inner
        self._vocabulary = vocabulary
        self._end = end
        self._begins = begins
        self._tokens = tokens
        self._takes_bytes = takes_bytes
        self._ends = np.array(vocabulary.eos_token_ids, np.int64)
        self.words = mask_words(vocabulary.width)
        self._lock = Lock()
        self._numbers: dict[_Reading, int] = {}
        self._readings: list[_Reading] = []
        self._places: dict[int, _Place] = {}
        self._crossing: list[int] | None = None
        first = self._number((int(inner.start(1)[0]), ()))
        # Where tokens alone are followed, nothing that is begun goes on.
        self._first = self._follow(first, begun) if takes_bytes or not begun else DEAD

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DONE where the region ends in it."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        pairs = zip(at.tolist(), tokens.tolist(), strict=True)
        return np.array([self._step(state, token) for state, token in pairs], np.int64)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        at = integers(states, 1, "states")
        require_rows(len(at), len(texts), "texts")
        pairs = zip(at.tolist(), texts, strict=True)
        return np.array([self._follow(state, text) for state, text in pairs], np.int64)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        at = integers(states, 1, "states")
        require_mask(mask, len(at), self.words)
        for row, state in enumerate(at.tolist()):
            mask[row] = self._place(state).mask if self._is_open(state) else 0

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        result = np.zeros(tokens.shape, np.bool_)
        for row, state in enumerate(at.tolist()):
            if self._is_open(state):
                allowed = self._place(state).allowed
                known = (tokens[row] >= 0) & (tokens[row] < len(allowed))
                result[row, known] = allowed[tokens[row, known]]
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the region has ended, bool[n]."""
        ended: NDArray[np.bool_] = integers(states, 1, "states") == DONE
        return ended

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._ends)

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of the session within included."""
        return {"states": len(self._readings) + self._inner.statistics()["states"]}

    def _is_open(self, state: int) -> bool:
        return 0 <= state < len(self._readings)

    def _number(self, reading: _Reading) -> int:
        if reading[0] == DEAD and not reading[1]:
            return DEAD
        with self._lock:
            number = self._numbers.setdefault(reading, len(self._readings))
            if number == len(self._readings):
                self._readings.append(reading)
        return number

    def _step(self, state: int, token: int) -> int:
        if not self._is_open(state) or not 0 <= token < self._vocabulary.width:
            return DEAD
        place = self._place(state)
        if not place.allowed[token]:
            return DEAD
        if token in place.ending:
            return DONE
        if token not in place.after:
            within = self._readings[state][0]
            if within not in (DEAD, DONE):
                within = int(self._inner.advance(np.array([within]), np.array([token]))[0])
            else:
                within = DEAD
            place.after[token] = self._number((within, place.ends.get(token, ())))
        return place.after[token]

    def _follow(self, state: int, text: bytes) -> int:
        if not self._is_open(state) or not text:
            return state if self._is_open(state) or not text else DEAD
        reading, rest = self._read(self._readings[state], text, None)
        if rest is None:
            return self._number(reading)
        return DEAD if isinstance(self._begins.follow(0, rest), Found) else DONE

    def _place(self, state: int) -> _Place:
        if state not in self._places:
            self._places[state] = self._filled(self._readings[state])
        return self._places[state]

    def _filled(self, reading: _Reading) -> _Place:
        """Find what may follow: tokens of the member, and those that reach into the ending text."""
        within, _ = reading
        allowed = np.zeros(self._vocabulary.width, np.bool_)
        if within not in (DEAD, DONE):
            mask = np.zeros((1, self.words), np.int32)
            self._inner.fill_mask(np.array([within]), mask)
            allowed |= unpack_mask(mask, self._vocabulary.width)[0]
            allowed[self._ends] = False
        ends: dict[int, tuple[int, ...]] = {}
        ending = set()
        for token in self._reaching(reading):
            piece = self._vocabulary.token_bytes[token]
            (_, reached), rest = self._read(reading, piece, DEAD)
            if rest is None:
                if reached:
                    ends[token] = reached
                    allowed[token] = True
                continue
            allowed[token] = not isinstance(self._begins.follow(0, rest), Found)
            if allowed[token]:
                ending.add(token)
        return _Place(allowed, pack_mask(allowed[None])[0], frozenset(ending), ends)

    def _reaching(self, reading: _Reading) -> set[int]:
        """Return the tokens that may reach into the ending text, or go on in it."""
        within, begun = reading
        starts = [*begun, 0] if self._is_member(within) else [*begun]
        tokens: set[int] = set()
        # No token is longer than the longest: many places of a long text go on alike.
        for left in {self._end[start : start + self._tokens.longest + 1] for start in starts}:
            tokens.update(token for _, ids in self._tokens.beginnings(left) for token in ids)
            tokens.update(self._tokens.longer(left)[0])
        if self._takes_bytes and within not in (DEAD, DONE):
            tokens.update(self._crossing_tokens())
        return tokens

    def _crossing_tokens(self) -> list[int]:
        """Return the tokens in which the ending text begins behind other bytes."""
        if self._crossing is None:
            pairs = zip(self._tokens.ids, self._tokens.texts, strict=True)
            self._crossing = [
                token
                for token, piece in pairs
                if any(self._begins_end(piece[at:]) for at in range(1, len(piece)))
            ]
        return self._crossing

    def _begins_end(self, text: bytes) -> bool:
        return self._end.startswith(text) or text.startswith(self._end)

    def _is_member(self, within: int) -> bool:
        return within != DEAD and bool(self._inner.is_complete(np.array([within]))[0])

    def _read(
        self, reading: _Reading, piece: bytes, after: int | None
    ) -> tuple[_Reading, bytes | None]:
        """Follow bytes from a reading.

        Args:
            reading: Where they begin.
            piece: At least one byte.
            after: The state of the member after them; None follows them by bytes.

        Returns:
            The reading after them; and what they have behind the first end of the region, None
            where it does not end.
        """
        within, begun = reading
        found = dict.fromkeys(begun, piece)
        reached: list[int] = []
        rests: list[bytes] = []
        if self._is_member(within):
            found[0] = piece
        parts = [*found.items()]
        if within not in (DEAD, DONE) and self._takes_bytes:
            splits = [at for at in range(1, len(piece)) if self._begins_end(piece[at:])]
            texts = [piece[:at] for at in splits]
            if splits:
                states = self._inner.advance_bytes(np.full(len(splits), within, np.int64), texts)
                parts += [
                    (0, piece[at:])
                    for at, state in zip(splits, np.asarray(states).tolist(), strict=True)
                    if self._is_member(state)
                ]
        for start, part in parts:
            left = len(self._end) - start
            if len(part) < left and self._end.startswith(part, start):
                reached.append(start + len(part))
            elif part[:left] == self._end[start : start + len(part)]:
                rests.append(part[left:])
        if after is None:
            after = DEAD
            if within not in (DEAD, DONE):
                state = self._inner.advance_bytes(np.array([within]), [piece])
                after = int(state[0])
        return (after, tuple(sorted(set(reached)))), max(rests, key=len, default=None)
