"""Free text and constrained parts together: the parts of a text, and all of them as one constraint.

Samplers draw the parts in turn, each with its own law. Engines mask a text token by token, and
follow it in one session: its states are those of the parts, numbered as they are met.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free_part import FreePart, Reached
from cdec.core.combine.free_text import FreeText
from cdec.core.combine.markers import require_spelt, symbols_of
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.tagged import StartedConstraint, TaggedConstraint, TaggedSession
from cdec.core.combine.wrapped import ForwardingSession
from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.session import DEAD, DONE, Session

_KEPT = 64
"""Constraints whose free parts are kept."""


class FreeParts:
    """Constraints that parts are drawn under, kept from batch to batch."""

    def __init__(self) -> None:
        self._sorted = lru_cache(1)(SortedTokens)
        self._tagged = lru_cache(_KEPT)(self._new_tagged)
        self._closed = lru_cache(_KEPT)(self._new_closed)
        self._free_part = lru_cache(_KEPT)(self._new_part)
        self._thinking_part = lru_cache(_KEPT)(self._new_thinking)
        self._begun = lru_cache(_KEPT)(_begun)

    def part(self, constraint: Constraint, free: FreeText, *, strict: bool) -> FreePart:
        """Return the free part before a constraint, or before a region of it."""
        return self._free_part(constraint, free, strict)

    def thinking(self, constraint: Constraint, free: FreeText, *, strict: bool) -> FreePart:
        """Return the free part before the one that ``part`` returns."""
        return self._thinking_part(constraint, free, strict)

    def constrained(self, constraint: Constraint, free: FreeText, begun: bytes) -> Constraint:
        """Return what holds behind a marker, from the bytes on that its token has behind it."""
        inner = self._inner(constraint, free)
        return self._begun(inner, begun) if begun else inner

    def _inner(self, constraint: Constraint, free: FreeText) -> Constraint:
        if free.between is not None:
            return self._tagged(constraint, free.between)
        return constraint if free.closing is None else self._closed(constraint, free.closing)

    def _new_part(self, constraint: Constraint, free: FreeText, strict: bool) -> FreePart:
        tokens = self._sorted(constraint.vocabulary)
        return FreePart(self._inner(constraint, free), free.markers, tokens, strict=strict)

    def _new_thinking(self, constraint: Constraint, free: FreeText, strict: bool) -> FreePart:
        assert free.thinking is not None  # it is drawn
        then = self.part(constraint, free, strict=strict).table.markers
        markers, tokens = free.thinking.markers, self._sorted(constraint.vocabulary)
        return FreePart(constraint, markers, tokens, strict=strict, then=then)

    def _new_tagged(self, constraint: Constraint, between: tuple[str, str]) -> TaggedConstraint:
        begin, end = (symbols_of(marker, constraint.vocabulary) for marker in between)
        return TaggedConstraint(constraint, end, begin, self._sorted(constraint.vocabulary))

    def _new_closed(self, constraint: Constraint, closing: str) -> TaggedConstraint:
        end = symbols_of(closing, constraint.vocabulary)
        return TaggedConstraint(constraint, end, None, self._sorted(constraint.vocabulary))


def _begun(inner: Constraint, begun: bytes) -> Constraint:
    if isinstance(inner, TaggedConstraint):
        return inner.started(begun)
    return StartedConstraint(inner, begun)


_FREE, _PART = 0, 1
_Place = tuple[Any, ...]
"""(_FREE, whether it thinks, state of the markers, tokens so far, regions), or (_PART, what the
marker's token has behind it, state of the constraint, regions)."""


class FreeTextSession(ForwardingSession):
    """Follows a text through its parts.

    Args:
        parts: What they are held to.
        constraint: Of the constrained parts.
        free: What stands before and around them.
    """

    def __init__(self, parts: FreeParts, constraint: Constraint, free: FreeText) -> None:
        super().__init__(None, constraint.vocabulary)
        self._parts = parts
        self._constraint = constraint
        self._free = free
        self._lock = Lock()
        self._numbers: dict[_Place, int] = {}
        self._places: list[_Place] = []
        self._sessions: dict[bytes, Session] = {}
        self._first = self._number(self._free_place(free.thinking is not None, 0, 0, 0))

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states are places of a text, bool[n]."""
        return (states >= 0) & (states < len(self._places))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a place, int32[words]."""
        place = self._places[state]
        if place[0] == _PART:
            rows = np.zeros((1, self.words), np.int32)
            self._session(place[1]).fill_mask(np.array([place[2]], np.int64), rows)
            return rows.reshape(-1)
        mask: NDArray[np.int32] = self._part(place[1]).table.at(place[2]).mask.copy()
        if self._owes(place):
            ends = np.array(self._end_ids)
            bits = np.uint32(1) << (ends & 31).astype(np.uint32)
            np.bitwise_and.at(mask.view(np.uint32), ends >> 5, ~bits)
        return mask

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token; DONE where the text ends with it, or DEAD."""
        place = self._places[state]
        if place[0] == _PART:
            return self._after_part(place, token)
        _, thinks, at, written, regions = place
        if token in self._vocabulary.eos_token_ids:
            return DONE if self.own_end(state) else DEAD
        table = self._part(thinks).table
        after = table.advance(at, token)
        if after == DONE:
            reached = table.read(at, [token])
            assert isinstance(reached, Reached)  # nothing else ends there
            return self._after_marker(thinks, reached.onward, regions)
        if after == DEAD:
            return DEAD
        return self._number(self._free_place(thinks, after, written + 1, regions))

    def own_end(self, state: int) -> bool:
        """Say whether the text may end: in free text that owes no marker, and with a member."""
        place = self._places[state]
        if place[0] == _PART:
            session = self._session(place[1])
            return bool(session.is_complete(np.array([place[2]], np.int64))[0])
        return not self._owes(place) and place[2] < self._part(place[1]).table.forced

    def statistics(self) -> dict[str, int]:
        """Return how many states there are, those of the sessions within included."""
        within = sum(each.statistics()["states"] for each in self._sessions.values())
        return {"states": len(self._places) + within}

    def _free_place(self, thinks: bool, at: int, written: int, regions: int) -> _Place:
        """Return a place in free text, forced into its marker where that is due."""
        place = (_FREE, thinks, at, written, regions)
        stage, forced = self._stage(thinks), self._part(thinks).table.forced
        if not self._owes(place) or stage.budget is None or at >= forced:
            return (_FREE, thinks, at, 0, regions)
        if written < stage.budget:
            return place
        return (_FREE, thinks, at + forced, 0, regions)

    def _after_marker(self, thinks: bool, onward: bytes, regions: int) -> int:
        if thinks:
            at = self._part(False).state_after(onward)
            return self._number(self._free_place(False, at, 0, regions))
        first = int(self._session(onward).start(1)[0])
        return DEAD if first == DEAD else self._number((_PART, onward, first, regions))

    def _after_part(self, place: _Place, token: int) -> int:
        _, onward, within, regions = place
        session = self._session(onward)
        after = int(session.advance(np.array([within], np.int64), np.array([token], np.int64))[0])
        if after == DEAD or (after == DONE and self._free.between is None):
            return after
        if after != DONE:
            return self._number((_PART, onward, after, regions))
        assert isinstance(session, TaggedSession)  # regions are tagged
        at = self._part(False).state_after(session.rest(within, token))
        return self._number(self._free_place(False, at, 0, regions + 1))

    def _owes(self, place: _Place) -> bool:
        return self._stage(place[1]).owes(place[4])

    def _stage(self, thinks: bool) -> FreeText:
        thinking = self._free.thinking
        return thinking if thinks and thinking is not None else self._free

    def _part(self, thinks: bool) -> FreePart:
        part = self._parts.thinking if thinks else self._parts.part
        return part(self._constraint, self._free, strict=True)

    def _session(self, onward: bytes) -> Session:
        if onward not in self._sessions:
            held = self._parts.constrained(self._constraint, self._free, onward)
            self._sessions[onward] = held.session("cpu")
        return self._sessions[onward]

    def _number(self, place: _Place) -> int:
        with self._lock:
            number = self._numbers.setdefault(place, len(self._places))
            if number == len(self._places):
                self._places.append(place)
        return number


class FreeTextConstraint(Constraint):
    """Texts with free parts as one constraint, for engines that mask a text token by token.

    Masks are those of the parts, but that a text may not end where a marker is owed: samplers, who
    draw the parts in turn, force it into the marker there.

    Args:
        inner: Of the constrained parts, any kind.
        free: What stands before and around them.

    Raises:
        UsageError: A marker that can never appear, or that is owed and cannot be forced.
    """

    def __init__(self, inner: Constraint, free: FreeText) -> None:
        self.vocabulary = inner.vocabulary
        self.inner = inner
        self.free = free
        self._parts = FreeParts()
        for each, part in ((free.thinking, self._parts.thinking), (free, self._parts.part)):
            if each is not None:
                require_spelt(each, self.vocabulary)
                if each.owes(0):
                    part(inner, free, strict=True).forced_at(0, 1)

    @cached_property
    def facts(self) -> Facts:
        """Its texts end as those of the constraint within, or as free text does."""
        ends = self.free.closing is not None or self.inner.facts.ends_itself
        is_sound = self.inner.facts.is_sound
        return Facts(kind="free text", is_sound=is_sound, ends_itself=ends)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(FreeTextSession(self._parts, self.inner, self.free), device)

    def accepts(self, text: bytes) -> bool | None:
        """Return None: which bytes are free is not told by the text alone."""
        return None
