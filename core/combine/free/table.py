"""FreeTable: which tokens free text may have at each state of its markers, and where they lead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free.markers import Found, Markers
from cdec.core.combine.healing import SortedTokens
from cdec.core.mask import pack_mask
from cdec.core.session import DEAD, DONE
from cdec.core.tokens.vocabulary import Vocabulary

Opens = Callable[[Sequence[bytes]], NDArray[np.bool_]]
"""Says of the bytes behind a marker whether a member begins so, bool[n]; none of them is empty."""


@dataclass(frozen=True)
class Reached:
    """A marker that was reached.

    Attributes:
        marker: Its number.
        onward: Bytes of the last token behind it: the constrained part begins with them.
    """

    marker: int
    onward: bytes


@dataclass(frozen=True)
class FreePlace:
    """What may follow at one state.

    Attributes:
        allowed: bool[V]; mask: int32[words], the same.
        finishing: Bytes behind the marker by token, of those in which one ends.
        after: The next state by token, as far as known.
        may_end: Whether the text may end.
    """

    allowed: NDArray[np.bool_]
    mask: NDArray[np.int32]
    finishing: dict[int, bytes]
    may_end: bool
    after: dict[int, int] = field(default_factory=dict)


class FreeTable:
    """The states of free text: those of its markers, each again as forced into a marker.

    In a forced state only tokens are allowed that spell what is left of the marker that the text
    stands within (of the first, where it stands within none). States are filled on first use.

    Args:
        vocabulary: Of the model.
        markers: Where free text ends.
        opens: Whether a member begins with what a token has behind a marker.
        tokens: Of ``vocabulary``.

    Attributes:
        forced: Number of the forced state that belongs to state 0.
    """

    def __init__(
        self, vocabulary: Vocabulary, markers: Markers, opens: Opens, tokens: SortedTokens
    ) -> None:
        self.vocabulary = vocabulary
        self.markers = markers
        self.forced = markers.count
        self._opens = opens
        self._tokens = tokens
        self._places: dict[int, FreePlace] = {}
        self._whole: list[int] | None = None

    def at(self, state: int) -> FreePlace:
        """Return what may follow at a state. Cost: one pass over the vocabulary, once a state."""
        if state not in self._places:
            is_free = state < self.forced
            self._places[state] = self._free(state) if is_free else self._forced(state)
        return self._places[state]

    def advance(self, state: int, token: int) -> int:
        """Return the state after a token; DONE where a marker or the text ends with it, or DEAD."""
        if not 0 <= state < 2 * self.forced or not 0 <= token < self.vocabulary.size:
            return DEAD
        place = self.at(state)
        if not place.allowed[token]:
            return DEAD
        if token in place.finishing or token in self.vocabulary.eos_token_ids:
            return DONE
        if token not in place.after:
            # What finishes a marker is known: this token does not.
            piece = self.vocabulary.token_bytes[token]
            followed = self.markers.follow(state % self.forced, piece)
            assert not isinstance(followed, Found)
            place.after[token] = followed + (0 if state < self.forced else self.forced)
        return place.after[token]

    def read(self, state: int, token_ids: Sequence[int]) -> int | Reached:
        """Return the state after allowed tokens, or the marker that the last of them reached."""
        for token in token_ids:
            place = self.at(state)
            if token in place.finishing:
                piece = self.vocabulary.token_bytes[token]
                found = self.markers.follow(state % self.forced, piece)
                assert isinstance(found, Found)  # the place says so
                return Reached(found.marker, place.finishing[token])
            state = self.advance(state, token)
        return state

    def _free(self, state: int) -> FreePlace:
        """All tokens, but for those that end a marker and go on as no member begins."""
        allowed = np.zeros(self.vocabulary.width, np.bool_)
        allowed[: self.vocabulary.size] = True
        finishing, struck = self._finishing(state, self._candidates(state))
        allowed[struck] = False
        mask = pack_mask(allowed[None])[0]
        return FreePlace(allowed, mask, finishing, may_end=True)

    def _forced(self, state: int) -> FreePlace:
        """The tokens that spell what is left of the marker, if they lead to its end."""
        own = state - self.forced
        marker, there = self.markers.owed(own)
        left = self.markers.texts[marker][there:]
        found = self.markers.follow(own, left)
        # Another marker may end within what is left of this one.
        left = left[: found.end] if isinstance(found, Found) else left
        spelt = {t: length for length, ids in self._tokens.beginnings(left) for t in ids}
        whole = [token for token, length in spelt.items() if length == len(left)]
        finishing, _ = self._finishing(own, [*whole, *self._tokens.longer(left)[0]])
        after: dict[int, int] = {}
        for token, length in spelt.items():
            if length < len(left):
                onward = self.markers.follow(own, left[:length])
                assert not isinstance(onward, Found)  # ``left`` ends where the first one does
                if self.at(onward + self.forced).allowed.any():
                    after[token] = onward + self.forced
        allowed = np.zeros(self.vocabulary.width, np.bool_)
        allowed[[*finishing, *after]] = True
        return FreePlace(
            allowed, pack_mask(allowed[None])[0], finishing, may_end=False, after=after
        )

    def _candidates(self, state: int) -> Iterator[int]:
        """Yield the tokens in which a marker may end, those that hold one whole included."""
        if self._whole is None:
            texts = self.markers.texts
            pairs = zip(self._tokens.ids, self._tokens.texts, strict=True)
            self._whole = [token for token, piece in pairs if any(t in piece for t in texts)]
        yield from self._whole
        begun = self.markers.beginnings[state]
        for start in range(len(begun)):
            for text in self.markers.texts:
                if text.startswith(begun[start:]):
                    left = text[len(begun) - start :]
                    exact = [i for n, i in self._tokens.beginnings(left) if n == len(left)]
                    yield from (token for ids in exact for token in ids)
                    yield from self._tokens.longer(left)[0]

    def _finishing(
        self, state: int, candidates: Iterator[int] | Sequence[int]
    ) -> tuple[dict[int, bytes], list[int]]:
        """Return the tokens with which a marker ends, and what they have behind it; those struck.

        Args:
            state: Of the markers.
            candidates: Tokens to try.
        """
        onward: dict[int, bytes] = {}
        for token in candidates:
            piece = self.vocabulary.token_bytes[token]
            found = self.markers.follow(state, piece)
            if isinstance(found, Found):
                onward[token] = piece[found.end :]
        over = sorted({rest for rest in onward.values() if rest})
        opening = {b""}
        if over:
            opening |= {over[i] for i in np.flatnonzero(self._opens(over)).tolist()}
        finishing = {token: rest for token, rest in onward.items() if rest in opening}
        return finishing, sorted(onward.keys() - finishing.keys())
