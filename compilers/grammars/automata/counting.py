"""How counted repetitions are written out: whole, or the copies that tell how others behave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cdec.compilers.grammars.automata.charsets import Ranges, normalised
from cdec.compilers.grammars.automata.pattern_checks import largest_count
from cdec.compilers.grammars.states.copies import SPREAD, Copies, no_copies

if TYPE_CHECKING:
    from cdec.compilers.grammars.definition import Terminal
    from cdec.core.tokens.vocabulary import Vocabulary

_FEW = 8
"""Copies, beginning with which a repetition is counted."""
_LONG = 100
"""Characters of a literal that a repetition is told apart from by its first copies."""
_SHORT = 16
"""Characters in a row that no token is searched for."""


class Counted(NamedTuple):
    """Copies of a counted repetition among the nodes of a program, the last copy first.

    Attributes:
        first, width: The first node; nodes of a copy.
        copies: Those that were written out.
        more: Those that were left out.
    """

    first: int
    width: int
    copies: int
    more: int


@dataclass(frozen=True)
class Counting:
    """What is left out of counted repetitions.

    Attributes:
        reach: The most characters of a set that one token reads, those cut by its ends included.
        cut: Copy behind which copies are left out.
    """

    reach: Callable[[Ranges], int]
    cut: int = _FEW

    @classmethod
    def of(cls, terminals: Sequence[Terminal], vocabulary: Vocabulary) -> Counting:
        """Return what may be left out beside literals, which are read at the same time."""
        literals = (text for terminal in terminals for text in terminal.literals)
        longest = max(map(len, literals), default=0)
        return cls(Reach(vocabulary), max(_FEW, min(longest, _LONG) + 2))

    def counts(self, count: int, body: Any) -> bool:
        """Say whether a repetition is counted; of nested ones only the largest is."""
        return count >= _FEW and count >= largest_count(body)

    def copies(self, counted: Sequence[Counted], nodes: int) -> Copies | None:
        """Return the counts of a program's nodes; None where it counts nothing."""
        if not counted:
            return None
        found = no_copies(nodes, self.cut)
        found = found._replace(copy=found.copy.copy(), more=found.more.copy())
        for first, width, written, more in counted:
            own = np.arange(first, first + width * written)
            at = written - 1 - np.arange(width * written) // width
            found.copy[own], found.more[own[at > 0]] = at, more
            inside = own[(at > 0) & (at < written - 1)]
            found.following[inside] = inside - width
        return found

    def written(self, count: int, charsets: Iterable[Ranges]) -> int:
        """Return the copies to be written out of ``count`` that read characters of some sets."""
        read = normalised(chain.from_iterable(charsets))
        return min(count, self.cut + SPREAD + self.reach(read) + 2)


@dataclass
class Reach:
    """The most characters of a set in a row within one token; each set is asked about once."""

    vocabulary: Vocabulary
    _found: dict[Ranges, int] = field(default_factory=dict)

    def __call__(self, ranges: Ranges) -> int:
        """Return the number for a set; 2 more for characters that the token's ends cut."""
        if ranges not in self._found:
            self._found[ranges] = self._search(ranges)
        return self._found[ranges]

    def _search(self, ranges: Ranges) -> int:
        if not ranges:
            return 0
        members = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
        found, longest = re.compile(f"[{members}]+"), _SHORT
        # Longest tokens first: no text has more characters than bytes.
        for text in self._tokens():
            if len(text) <= longest:
                break
            runs = found.findall(text.decode("utf-8", "replace"))
            longest = max(longest, max(map(len, runs), default=0))
        return longest + 2

    def _tokens(self) -> list[bytes]:
        table = self.vocabulary.token_bytes
        longer = [text for text in table if len(text) > _SHORT]
        return sorted(longer, key=len, reverse=True)
