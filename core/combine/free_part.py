"""Free text up to a marker, as a constraint that ends itself there.

The law of free text: each event is drawn from the model's own law among all tokens, and the end of
the text, but for those struck out: tokens in which a marker ends and that go on in a way in which
no member begins (for a constraint that is walked by tokens, in any way), and padding. What remains
is renormalised at each step. Tokens are struck out where they stand, not by what they lead to: no
other step is changed. Forced into a marker, the model's law is that among the tokens that spell
what is left of it, those included that go on as a member begins, renormalised likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free_text import shown
from cdec.core.combine.markers import (
    Found,
    Markers,
    as_symbols,
    plain,
    plain_run,
    symbols_of,
)
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import ForwardingSession
from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import UsageError
from cdec.core.mask import pack_mask
from cdec.core.session import DEAD, DONE, Session
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
class FreeState:
    """Allowed continuations at one state.

    Attributes:
        tokens: int32[k] ascending: of all others a state of free text says what its first one says,
            and a forced one that they are not allowed.
        ends: int32[k]: bytes of each up to the end of the first marker; 0 where none ends in it.
        allowed: bool[k].
        may_end: Whether the text may end.
        mask: int32[words] of all tokens.
    """

    tokens: NDArray[np.int32]
    ends: NDArray[np.int32]
    allowed: NDArray[np.bool_]
    may_end: bool
    mask: NDArray[np.int32]


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
        self._places: dict[int, FreeState] = {}
        self._forced_ways: dict[int, NDArray[np.bool_]] = {}

    def at(self, state: int) -> FreeState:
        """Return what may follow at a state. Cost: one pass over the vocabulary, once a state."""
        place = self._places.get(state)
        if place is None:
            place = self._forced(state) if state >= self.forced else self._free(state)
            self._places[state] = place
            while len(self._places) > _KEPT:
                del self._places[next(iter(self._places))]
        return place

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
        followed = self.markers.follow(own, self.markers.piece(self.vocabulary, token))
        assert not isinstance(followed, Found)  # the place says so
        return followed + forced * self.forced

    def read(self, state: int, token_ids: Sequence[int]) -> int | Reached:
        """Return the state after allowed tokens, or the marker that the last of them reached."""
        for token in token_ids:
            end, allowed = self._one(state, token)
            if end and allowed:
                piece = self.markers.piece(self.vocabulary, token)
                found = self.markers.follow(state % self.forced, piece)
                assert isinstance(found, Found)  # the place says so
                return Reached(found.marker, plain(as_symbols(piece[end:])))
            state = self.advance(state, token)
        return state

    @cached_property
    def _first(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Of each id where a marker ends in it at state 0, int32[V], and if it is allowed, bool[V].

        All tokens are, but for those in which a marker ends and that go on as no member begins.
        """
        ends = np.zeros(self.vocabulary.width, np.int32)
        ends[self._ordinary] = self._ends_from(0)
        ends[self._special_ends(0)] = 1
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

    def _special_ends(self, state: int) -> list[int]:
        """Return the special tokens in which a marker ends at a state."""
        pieces = [(token, chr(256 + token)) for token in self.markers.special]
        return [t for t, piece in pieces if isinstance(self.markers.follow(state, piece), Found)]

    def _one(self, state: int, token: int) -> tuple[int, bool]:
        """Return where a marker ends in a token, 0 for nowhere; and whether it is allowed."""
        ends, allowed = self._look(self.at(state), np.array([token], np.int64))
        return int(ends[0]), bool(allowed[0])

    def _look(
        self, place: FreeState, tokens: NDArray[np.int64]
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

    def _free(self, state: int) -> FreeState:
        """Of tokens in which a marker ends that was begun before: they end there, or earlier."""
        ends = self._ends_from(state) if state else np.zeros(len(self._ordinary), np.int32)
        rows = np.flatnonzero(ends)
        found = dict(zip(self._ordinary[rows].tolist(), ends[rows].tolist(), strict=True))
        found |= dict.fromkeys(self._special_ends(state) if state else (), 1)
        tokens, lengths = _sorted_by_token(found)
        return self._filled(tokens, lengths, self._opening(tokens, lengths), may_end=True)

    def _forced(self, state: int) -> FreeState:
        """The tokens that spell what is left of the marker, if they lead to its end."""
        marker, there = self.markers.owed(state - self.forced)
        ways = self._ways(marker)
        found: dict[int, int] = {}
        for length, ids in self._spelling(marker, there):
            if ways[there + length]:
                found.update(dict.fromkeys(ids, length if there + length + 1 == len(ways) else 0))
        found.update(dict.fromkeys(self._longer(marker, there), len(ways) - 1 - there))
        tokens, ends = _sorted_by_token(found)
        return self._filled(tokens, ends, np.ones(len(tokens), np.bool_), may_end=False)

    def _filled(
        self,
        tokens: NDArray[np.int32],
        ends: NDArray[np.int32],
        allowed: NDArray[np.bool_],
        *,
        may_end: bool,
    ) -> FreeState:
        if may_end and not tokens.size:
            return FreeState(tokens, ends, allowed, may_end, self._first_mask)
        everything = self._first[1].copy() if may_end else np.zeros_like(self._first[1])
        everything[tokens] = allowed
        return FreeState(tokens, ends, allowed, may_end, _packed(everything))

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
        end, text = len(self._forced_ways[marker]) - 1, self.markers.texts[marker]
        if there < end and text[there] > "\xff":
            return iter([(1, [ord(text[there]) - 256])])
        run = plain_run(text, there, min(end, there + self._tokens.longest))
        return self._tokens.beginnings(run)

    def _longer(self, marker: int, there: int) -> list[int]:
        """Return the tokens that spell the rest of a marker, and go on as a member begins."""
        end, text = len(self._forced_ways[marker]) - 1, self.markers.texts[marker]
        run = plain_run(text, there, min(end, there + self._tokens.longest))
        if len(run) < end - there or len(run) >= self._tokens.longest:
            return []
        ids, onward = self._tokens.longer(run)
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


def _sorted_by_token(
    found: Mapping[int, int],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the tokens ascending, and the number of each."""
    tokens = sorted(found)
    return np.array(tokens, np.int32), np.array([found[token] for token in tokens], np.int32)


def _packed(allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return a mask bool[V] as int32[words]."""
    words: NDArray[np.int32] = pack_mask(allowed[None])[0]
    return words


class FreeSession(ForwardingSession):
    """A decoding run over the states of a ``FreeTable``, which sessions share.

    A state is one of the table's and the number of tokens so far: after the last of them nothing is
    allowed, the end of the text neither, so that a text that is cut there was not ended.

    Args:
        table: What may follow where.
        first: The state to start in.
        most: Tokens that free text may have.
    """

    def __init__(self, table: FreeTable, first: int, most: int) -> None:
        super().__init__(None, table.vocabulary)
        self._table = table
        self._first = first
        self._count = 2 * table.forced
        self._open = most * self._count

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say at which states anything may follow, bool[n]."""
        return (states >= 0) & (states < self._open)

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a state, int32[words]."""
        return self._table.at(state % self._count).mask

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token; DONE where a marker ends in it."""
        written, at = divmod(state, self._count)
        after = self._table.advance(at, token)
        return after if after < 0 else after + (written + 1) * self._count

    def own_end(self, state: int) -> bool:
        """Say whether the text may end: nowhere where it is forced into a marker."""
        return state % self._count < self._table.forced


class FreePart(Constraint):
    """Any text up to the end of its first marker, or any whole text without one.

    Members are what the model may write before the constraint begins; only tokens are left out in
    which a marker ends and that go on as no member of the constraint begins. The text may end
    without a marker, but for one that is forced into it.

    Args:
        inner: What begins behind the marker.
        markers: At least one, none of them empty.
        tokens: Of ``inner.vocabulary``; None sorts them.
        most: Tokens that it may have.
        strict: Whether tokens are left out; if not, all are allowed, for methods without masks.
        then: Markers of further free text that comes behind it, in the place of the constraint.

    Attributes:
        table: Its states.
        first: The state it begins in.
    """

    max_tokens: int

    def __init__(
        self,
        inner: Constraint,
        markers: Sequence[str],
        tokens: SortedTokens | None = None,
        *,
        most: int = 256,
        strict: bool = True,
        then: Markers | None = None,
    ) -> None:
        self.vocabulary = inner.vocabulary
        opens: Opens = _Opening(inner, strict=strict)
        if then is not None:
            opens = partial(_goes_on, then, strict)
        self.table = FreeTable(
            inner.vocabulary,
            Markers([symbols_of(marker, inner.vocabulary) for marker in markers]),
            opens,
            tokens or SortedTokens(inner.vocabulary),
        )
        self.first = 0
        self.max_tokens = most
        self._owed = markers[0]
        self._places: dict[tuple[int, int], FreePart] = {}

    @cached_property
    def facts(self) -> Facts:
        """Its last token ends it."""
        return Facts(kind="free text", ends_itself=True)

    def at(self, state: int, most: int) -> FreePart:
        """Return at most so many tokens of what is free from a state of the markers on."""
        key = state, most
        if key not in self._places:
            part = object.__new__(FreePart)
            part.vocabulary, part.table, part._places = self.vocabulary, self.table, self._places
            part.first, part.max_tokens, part._owed = state, most, self._owed
            self._places[key] = part
        return self._places[key]

    def forced_at(self, state: int, most: int) -> FreePart:
        """Return what spells the rest of the marker that stands begun at a state.

        Raises:
            UsageError: No tokens spell the marker from its beginning on.
        """
        if not self.table.at(self.table.forced).tokens.size:
            raise UsageError(
                f"no tokens of the model's vocabulary spell the marker {shown(self._owed)}, into "
                "which free text is to be forced",
                hint="give another marker, or leave `budget` and `regions` out",
            )
        return self.at(state + self.table.forced, most)

    def state_after(self, text: bytes) -> int:
        """Return the state after bytes without a marker, from the beginning on."""
        state = self.table.markers.follow(0, text)
        # What holds a marker was struck out where the text was drawn.
        return state if isinstance(state, int) else 0

    def read(self, token_ids: Sequence[int]) -> int | Reached:
        """Return the marker that tokens drawn from here reached, or the state of the markers."""
        read = self.table.read(self.first, token_ids)
        return read if isinstance(read, Reached) else read % self.table.forced

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(FreeSession(self.table, self.first, self.max_tokens), device)

    def accepts(self, text: bytes) -> bool | None:
        """Return True: any text may be written."""
        return True


def _goes_on(markers: Markers, strict: bool, texts: Sequence[bytes]) -> NDArray[np.bool_]:
    """Say of bytes if free text may begin with them: none of its markers ends there already."""
    return np.array(
        [not strict or not isinstance(markers.follow(0, text), Found) for text in texts], np.bool_
    )


class _Opening:
    """Whether a member of a constraint begins with given bytes, and tokens can go on from there."""

    def __init__(self, inner: Constraint, *, strict: bool) -> None:
        self._inner = inner
        self._strict = strict
        self._session: Session | None = None

    def __call__(self, texts: Sequence[bytes]) -> NDArray[np.bool_]:
        if not self._strict:
            return np.ones(len(texts), np.bool_)
        if not self._inner.facts.takes_bytes:
            return np.zeros(len(texts), np.bool_)
        if self._session is None:
            self._session = self._inner.session("cpu")
        session = self._session
        states = np.asarray(session.advance_bytes(session.start(len(texts)), list(texts)))
        opens = (states != DEAD) & (states != DONE)
        offsets, _ = session.allowed(states[opens])
        opens[opens] = np.diff(np.asarray(offsets)) > 0
        return np.asarray(opens)
