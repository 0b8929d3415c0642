"""Members of several sets, of none of others, and of a language: a filter of one set's texts.

What a schema asks of a member besides is not known when it is compiled, and need not be: where the
sets are given, each text is asked once, and the trie of one of the sets is walked with those rows
left out that do not do. Masks and steps are those of a set without some members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import EmptySetError, UsageError
from cdec.core.sets.known_rows import Automata, Part
from cdec.core.sets.quotes import SpanField
from cdec.core.sets.rows import RowFilter
from cdec.core.sets.spelled import SpelledSet
from cdec.core.sets.within import MemberTexts

MEMBERS_KEY = "cdec.members"
"""Metadata of a schema: which members strings are, in the order of their numbers; without it those
of its sets."""
_KEYS = {"sets", "without", "parts"}


@dataclass(frozen=True, slots=True)
class MemberChoice:
    """Which members of sets, or pieces of a document, strings are.

    Attributes:
        sets: All of these hold them; pieces of a document stand alone.
        without: Names of sets that hold none of them.
        parts: Automata that accept them, any one of these; None: all are accepted.
    """

    sets: tuple[str | SpanField, ...]
    without: tuple[str, ...] = ()
    parts: tuple[Part, ...] | None = None

    @classmethod
    def from_json(cls, value: object) -> MemberChoice:
        """Return what an artifact says.

        Raises:
            ValueError: It is no such object.
        """
        given = value if isinstance(value, Mapping) and set(value) <= _KEYS else {}
        sets, without = given.get("sets"), given.get("without", [])
        parts = given.get("parts")
        names = [*sets, *without] if isinstance(sets, list) and isinstance(without, list) else []
        is_good = (
            bool(sets)
            and bool(names)
            and all(isinstance(name, str) for name in names)
            and (parts is None or (isinstance(parts, list) and all(map(_is_part, parts))))
        )
        if not is_good:
            raise ValueError(f"no choice of members: {value!r:.80}")
        kept = None if parts is None else tuple((a, b, c) for a, b, c in parts)
        return cls(tuple(sets or ()), tuple(without), kept)

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        found: dict[str, Any] = {"sets": [str(one) for one in self.sets]}
        found |= {"without": list(self.without)} if self.without else {}
        return found | ({"parts": self.parts} if self.parts is not None else {})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what holds them."""
        return tuple(map(str, self.sets))

    @property
    def is_plain(self) -> bool:
        """True where they are the members of one set, or the pieces of one document."""
        return len(self.sets) == 1 and not self.without and self.parts is None

    def __str__(self) -> str:
        """Name the sets in words."""
        others = f" without {' and '.join(self.without)}" if self.without else ""
        return " and ".join(self.names) + others

    def of(self, sets: Mapping[str, MemberTexts], automata: Automata) -> MemberTexts | None:
        """Return the members that are meant, None where there are none.

        Args:
            sets: By name.
            automata: Of ``parts``.

        Raises:
            UsageError: One is a corpus, whose pieces are no list.

        Cost: a pass over the texts at the first time, some 0.1 seconds for a million of them; O(R)
        where a record leaves some of them out.
        """
        if self.is_plain:
            return sets[self.names[0]]
        held, out = self._listed(sets, self.names), self._listed(sets, self.without)
        held.sort(key=lambda one: one.arrays.n_rows)
        base, *others = held
        kept = np.ones(base.arrays.n_rows, np.bool_)
        if base.row_filter is not None:
            kept &= base.row_filter.kept
        if self.parts is not None:
            kept &= base.known.accepted(base.arrays, self.parts, automata)
        for other in others:
            kept &= _is_in(base, other)
        for other in out:
            kept &= ~_is_in(base, other)
        if not kept.any():
            return None
        own = (base.members, base.arrays, base.sources, base.source_offsets)
        chosen = RowFilter.from_kept(kept)
        return ChosenSet(*own, chosen, base.known, held=tuple(held), out=tuple(out))

    def _listed(self, sets: Mapping[str, MemberTexts], names: Sequence[str]) -> list[SpelledSet]:
        found = []
        for name in names:
            one = sets[name]
            if not isinstance(one, SpelledSet):
                raise UsageError(
                    f"members of {name!r} must satisfy what stands beside them, and it is given as "
                    "a corpus, whose pieces are no list",
                    hint="give a set's artifact",
                    field="sets",
                )
            found.append(one)
        return found

    def none_left(self) -> EmptySetError:
        """Return the error of members that there are none of."""
        names = " and ".join(map(repr, self.names))
        others = f" but of none of {', '.join(map(repr, self.without))}" if self.without else ""
        beside = " and satisfies the keywords beside it" if self.parts is not None else ""
        return EmptySetError(
            f"no text is a member of {names}{others}{beside}",
            hint="give other sets, or change what the schema asks beside `x-cdec-set`",
            sets=[*self.names, *self.without],
        )


def _is_part(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(type(one) is int for one in value)


def _is_in(base: SpelledSet, other: SpelledSet) -> NDArray[np.bool_]:
    """Say of each text of one set whether it is among those of another that are kept."""
    rows = base.known.rows_in(base.arrays, other.arrays)
    found = rows >= 0
    if other.row_filter is not None:
        found[found] = other.row_filter.keeps(rows[found])
    return found


@dataclass(frozen=True, eq=False)
class ChosenSet(SpelledSet):
    """Some members of a set, with its trie.

    Attributes:
        held: Sets that hold all of them. out: Sets that hold none of them.
    """

    held: tuple[SpelledSet, ...] = ()
    out: tuple[SpelledSet, ...] = ()

    def holds(self, text: bytes) -> bool | None:
        """Say whether a text is one of them, by the rows that are kept."""
        row = self.row_of(text)
        return row is not None and (self.row_filter is None or bool(self.row_filter.kept[row]))

    def leaves_out(self, text: bytes) -> bool:
        """Say whether a text is a member of the sets that hold all of them, and none of them."""
        return all(one.holds(text) for one in self.held) and not self.holds(text)

    def refusal(self, name: str, text: str, ends: bool) -> str:
        """Return why a text is none of them: what else is asked of a member, or as of a set."""
        data = text.encode("utf-8", "surrogatepass")
        if not ends or not self.leaves_out(data):
            return super().refusal(name, text, ends)
        out = any(one.holds(data) for one in self.out)
        why = "a set beside it holds it as well" if out else "the keywords beside it refuse it"
        return f"{text!r} is a member of {name}, and {why}"
