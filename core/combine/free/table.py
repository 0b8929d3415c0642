"""FreeTable: which tokens free text may have at each state of its markers, and where they lead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free.markers import Found, Markers
from cdec.core.combine.healing import SortedTokens
from cdec.core.mask import pack_mask
from cdec.core.session import DEAD, DONE
from cdec.core.tokens.vocabulary import Vocabulary

Opens = Callable[[Sequence[bytes]], NDArray[np.bool_]]
"""Says of the bytes behind a marker whether a member begins so, bool[n]; none of them is empty."""

_KEPT = 256
"""States whose places are kept; the oldest go first."""


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
        tokens: int32[k] ascending: of all others a state of free text says what its first one says,
            and a forced one that they are not allowed.
        ends: int32[k]: bytes of each up to the end of the first marker; 0 where none ends in it.
        allowed: bool[k].
        may_end: Whether the text may end.
    """

    tokens: NDArray[np.int32]
    ends: NDArray[np.int32]
    allowed: NDArray[np.bool_]
    may_end: bool


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
        self._ordinary = np.flatnonzero(vocabulary.is_ordinary)
        self._places: dict[int, FreePlace] = {}
        self._forced_ways: dict[int, NDArray[np.bool_]] = {}

    def at(self, state: int) -> FreePlace:
        """Return what may follow at a state. Cost: one pass over the vocabulary, once a state."""
        place = self._places.get(state)
        if place is None:
            place = self._forced(state) if state >= self.forced else self._free(state)
            self._places[state] = place
            while len(self._places) > _KEPT:
                del self._places[next(iter(self._places))]
        return place

    def mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a state, int32[words]."""
        place = self.at(state)
        if not place.may_end:
            allowed = np.zeros(self.vocabulary.width, np.bool_)
        elif not place.tokens.size:
            return self._first_mask
        else:
            allowed = self._first[1].copy()
        allowed[place.tokens] = place.allowed
        return _packed(allowed)

    def allows(self, state: int, token_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of tokens int64[m] whether each is allowed at a state, bool[m]."""
        known = (token_ids >= 0) & (token_ids < self.vocabulary.width)
        allowed = np.zeros(len(token_ids), np.bool_)
        allowed[known] = self._look(self.at(state), token_ids[known])[1]
        return allowed

    def advance(self, state: int, token: int) -> int:
        """Return the state after a token; DONE where a marker or the text ends with it, or DEAD."""
        if not 0 <= state < 2 * self.forced or not 0 <= token < self.vocabulary.size:
            return DEAD
        end, allowed = self._one(state, token)
        if not allowed:
            return DEAD
        if end or token in self.vocabulary.eos_token_ids:
            return DONE
        forced, own = divmod(state, self.forced)
        followed = self.markers.follow(own, self.vocabulary.token_bytes[token])
        assert not isinstance(followed, Found)  # the place says so
        return followed + forced * self.forced

    def read(self, state: int, token_ids: Sequence[int]) -> int | Reached:
        """Return the state after allowed tokens, or the marker that the last of them reached."""
        for token in token_ids:
            end, allowed = self._one(state, token)
            if end and allowed:
                piece = self.vocabulary.token_bytes[token]
                found = self.markers.follow(state % self.forced, piece)
                assert isinstance(found, Found)  # the place says so
                return Reached(found.marker, piece[end:])
            state = self.advance(state, token)
        return state

    @cached_property
    def _first(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Of each id where a marker ends in it at state 0, int32[V], and if it is allowed, bool[V].

        All tokens are, but for those in which a marker ends and that go on as no member begins.
        """
        ends = np.zeros(self.vocabulary.width, np.int32)
        ends[self._ordinary] = self._ends_from(0)
        allowed = np.zeros(self.vocabulary.width, np.bool_)
        allowed[: self.vocabulary.size] = True
        reached = np.flatnonzero(ends)
        allowed[reached] = self._opening(reached, ends[reached])
        return ends, allowed

    @cached_property
    def _first_mask(self) -> NDArray[np.int32]:
        return _packed(self._first[1])

    def _ends_from(self, state: int) -> NDArray[np.int32]:
        """Return ``Markers.first_ends`` of the ordinary tokens."""
        known = self.vocabulary
        starts, lengths = known.byte_offsets[self._ordinary], known.byte_lengths[self._ordinary]
        return self.markers.first_ends(state, known.flat_bytes, starts, lengths)

    def _one(self, state: int, token: int) -> tuple[int, bool]:
        """Return where a marker ends in a token, 0 for nowhere; and whether it is allowed."""
        ends, allowed = self._look(self.at(state), np.array([token], np.int64))
        return int(ends[0]), bool(allowed[0])

    def _look(
        self, place: FreePlace, tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return where a marker ends in each of m tokens, int32[m]; and if it is allowed."""
        at = np.searchsorted(place.tokens, tokens)
        listed = at < len(place.tokens)
        listed[listed] = place.tokens[at[listed]] == tokens[listed]
        ends, allowed = np.zeros(len(tokens), np.int32), np.zeros(len(tokens), np.bool_)
        if place.may_end:
            ends[:], allowed[:] = self._first[0][tokens], self._first[1][tokens]
        ends[listed], allowed[listed] = place.ends[at[listed]], place.allowed[at[listed]]
        return ends, allowed

    def _free(self, state: int) -> FreePlace:
        """Of tokens in which a marker ends that was begun before: they end there, or earlier."""
        ends = self._ends_from(state) if state else np.zeros(len(self._ordinary), np.int32)
        rows = np.flatnonzero(ends)
        tokens = self._ordinary[rows].astype(np.int32)
        return FreePlace(tokens, ends[rows], self._opening(tokens, ends[rows]), may_end=True)

    def _forced(self, state: int) -> FreePlace:
        """The tokens that spell what is left of the marker, if they lead to its end."""
        marker, there = self.markers.owed(state - self.forced)
        ways = self._ways(marker)
        found: dict[int, int] = {}
        for length, ids in self._spelling(marker, there):
            if ways[there + length]:
                found.update(dict.fromkeys(ids, length if there + length + 1 == len(ways) else 0))
        found.update(dict.fromkeys(self._longer(marker, there), len(ways) - 1 - there))
        tokens = np.array(sorted(found), np.int32)
        ends = np.array([found[token] for token in tokens.tolist()], np.int32)
        return FreePlace(tokens, ends, np.ones(len(tokens), np.bool_), may_end=False)

    def _ways(self, marker: int) -> NDArray[np.bool_]:
        """Return whether tokens lead to a marker's end from each byte of it on, bool[n + 1].

        The last is the end itself; another marker may end within this one, and there it ends.
        """
        if marker not in self._forced_ways:
            text = self.markers.texts[marker]
            first = self.markers.follow(0, text)
            end = first.end if isinstance(first, Found) else len(text)
            ways = self._forced_ways[marker] = np.zeros(end + 1, np.bool_)
            ways[end] = True
            for there in range(end - 1, -1, -1):
                spelling = self._spelling(marker, there)
                ways[there] = any(ways[there + length] for length, _ in spelling) or bool(
                    self._longer(marker, there)
                )
        return self._forced_ways[marker]

    def _spelling(self, marker: int, there: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the lengths and ids of the tokens that a marker goes on with."""
        end = len(self._forced_ways[marker]) - 1
        left = self.markers.texts[marker][there : min(end, there + self._tokens.longest)]
        return self._tokens.beginnings(left)

    def _longer(self, marker: int, there: int) -> list[int]:
        """Return the tokens that spell the rest of a marker, and go on as a member begins."""
        end = len(self._forced_ways[marker]) - 1
        if end - there >= self._tokens.longest:
            return []
        ids, onward = self._tokens.longer(self.markers.texts[marker][there:end])
        return [ids[i] for i in np.flatnonzero(self._opens(onward)).tolist()] if ids else []

    def _opening(self, tokens: NDArray[Any], ends: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Say of tokens [k] in which a marker ends at a byte [k] if a member begins behind it."""
        table = self.vocabulary.token_bytes
        pairs = zip(tokens.tolist(), ends.tolist(), strict=True)
        rests = [table[token][end:] for token, end in pairs]
        over = sorted({rest for rest in rests if rest})
        opening = {b""}
        if over:
            opening |= {over[i] for i in np.flatnonzero(self._opens(over)).tolist()}
        return np.array([rest in opening for rest in rests], np.bool_)


def _packed(allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return a mask bool[V] as int32[words]."""
    words: NDArray[np.int32] = pack_mask(allowed[None])[0]
    return words
