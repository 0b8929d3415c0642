"""FreeParts: what free text and tagged regions are held to, kept from batch to batch."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from cdec.core.combine.free.constraint import FreePart
from cdec.core.combine.free.started import StartedConstraint
from cdec.core.combine.free.tagged import TaggedConstraint
from cdec.core.combine.healing import SortedTokens

if TYPE_CHECKING:
    from cdec.core.combine.free.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary

_KEPT = 64
"""Constraints whose free parts are kept."""


class FreeParts:
    """What free parts are drawn under, kept from batch to batch: by vocabulary and constraint."""

    def __init__(self) -> None:
        self._tokens: dict[Vocabulary, SortedTokens] = {}
        self._parts: dict[Hashable, FreePart] = {}
        self._tagged: dict[Hashable, TaggedConstraint] = {}
        self._begun: dict[Hashable, Constraint] = {}

    def part(self, constraint: Constraint, free: FreeText, *, strict: bool) -> FreePart:
        """Return the free part before a constraint, or before a region of it."""
        key = constraint, free, strict
        if key not in self._parts:
            inner = constraint if free.end is None else self._region(constraint, free)
            tokens = self._sorted(constraint)
            self._parts[key] = FreePart(inner, free.markers, tokens, strict=strict)
            _forget(self._parts)
        return self._parts[key]

    def constrained(self, constraint: Constraint, free: FreeText, begun: bytes) -> Constraint:
        """Return what holds behind a marker, from the bytes on that its token has behind it."""
        inner = constraint if free.end is None else self._region(constraint, free)
        if not begun:
            return inner
        key = inner, begun
        if key not in self._begun:
            if isinstance(inner, TaggedConstraint):
                self._begun[key] = inner.started(begun)
            else:
                self._begun[key] = StartedConstraint(inner, begun)
            _forget(self._begun)
        return self._begun[key]

    def _region(self, constraint: Constraint, free: FreeText) -> TaggedConstraint:
        key = constraint, free.between
        if key not in self._tagged and free.between is not None:
            begin, end = (marker.encode() for marker in free.between)
            tokens = self._sorted(constraint)
            self._tagged[key] = TaggedConstraint(constraint, end, begin, tokens)
            _forget(self._tagged)
        return self._tagged[key]

    def _sorted(self, constraint: Constraint) -> SortedTokens:
        vocabulary = constraint.vocabulary
        if vocabulary not in self._tokens:
            self._tokens.clear()
            self._tokens[vocabulary] = SortedTokens(vocabulary)
        return self._tokens[vocabulary]


def _forget(kept: dict[Hashable, Any]) -> None:
    """Drop the oldest of what is kept, where there is too much."""
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
