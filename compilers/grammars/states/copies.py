"""Copies of a counted repetition: states that differ by a count alone, up to where it ends.

``X{1,100000}`` is not written out: some copies at the beginning, and as many at its end as a token
can pass, tell how all others behave. The others are put in when the artifact is assembled
(``scanner.loops``), behind the copy ``cut``: there, one copy more is the same state of the pattern.
Which states are the same but for their count is known from the threads of the pattern, and is
carried through every construction until then. What does not fit is an ``UncountableError``, and all
copies are written out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.construction import Construction
from cdec.core.native import library

SPREAD = 4
"""Copies that one state may be in at once where copies are put in."""
_CLASH = -1


class UncountableError(Exception):
    """Repetitions cannot be told apart from what runs beside them: they are to be written out."""


class Copies(NamedTuple):
    """The counts of n states, or of n threads.

    Attributes:
        copy: int32[n] the copy under way, the lowest of several; 0: the first, or no repetition.
        more: int32[n] copies to be put in behind copy ``cut``.
        following: int32[n] the state that has counted one more and is else the same; -1: none.
        cut: Copy behind which others are put in.
    """

    copy: NDArray[np.int32]
    more: NDArray[np.int32]
    following: NDArray[np.int32]
    cut: int

    @property
    def lacks_some(self) -> bool:
        """Whether there are copies to be put in."""
        return bool(self.more.any())


def no_copies(states: int, cut: int = 0) -> Copies:
    """Return the counts of states that count nothing."""
    none = np.zeros(states, np.int32)
    return Copies(none, none, np.full(states, -1, np.int32), cut)


def lacks_some(copies: Copies | None) -> bool:
    """Say whether there are copies to be put in."""
    return copies is not None and copies.lacks_some


def joined_copies(parts: list[Copies | None], sizes: list[int]) -> Copies | None:
    """Return the counts of automata side by side; None where nothing is counted."""
    cuts = {part.cut for part in parts if part is not None}
    if not cuts:
        return None
    cut = max(cuts)
    whole = [part or no_copies(size) for part, size in zip(parts, sizes, strict=True)]
    bases = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
    return Copies(
        np.concatenate([part.copy for part in whole]),
        np.concatenate([part.more for part in whole]),
        np.concatenate(
            [
                np.where(part.following >= 0, part.following + base, -1).astype(np.int32)
                for part, base in zip(whole, bases, strict=True)
            ]
        ),
        cut,
    )


def copies_of_rows(states: Construction, items: Copies, *, flagged: bool, ordered: bool) -> Copies:
    """Return the counts of states that are lists of counted items.

    Args:
        states: They.
        items: Counts of what they list.
        flagged: Members are ``2 * item + flag``.
        ordered: Their order means something; otherwise they ascend.

    Raises:
        UncountableError: Items of one state lack different numbers of copies, or lie too far apart.
    """
    found = no_copies(len(states.offsets) - 1, items.cut)
    found = found._replace(more=found.more.copy())
    lists = states.offsets, states.items
    if library.count_rows(*lists, items, flagged, ordered, SPREAD, found) == _CLASH:
        raise UncountableError
    return found


def copies_in_bytes(rows: NDArray[np.int32], characters: Copies) -> Copies:
    """Return the counts of an automaton over bytes (``utf8.expand``) from those over characters.

    Raises:
        UncountableError: A state within a character leads to some that lack different numbers.
    """
    n, inside = len(characters.copy), len(rows) - len(characters.copy)
    more = no_copies(inside)
    whole = Copies(
        np.concatenate([characters.copy, more.copy]),
        np.concatenate([characters.more, more.more]),
        np.concatenate([characters.following, np.full(inside, -2, np.int32)]),
        characters.cut,
    )
    if library.count_inside(rows, n, whole) == _CLASH:
        raise UncountableError
    return whole


def merged_copies(copies: Copies, number: NDArray[np.int32], states: int) -> Copies:
    """Return the counts of states after equal ones were merged.

    Args:
        copies: Before.
        number: int32[n] new number of each old state, -1: dropped.
        states: New states.

    Raises:
        UncountableError: Equal states lack different numbers of copies.
    """
    found = Copies(
        np.full(states, -1, np.int32),
        np.zeros(states, np.int32),
        np.full(states, -2, np.int32),
        copies.cut,
    )
    if library.merge_copies(copies, number, found) == _CLASH:
        raise UncountableError
    return found
