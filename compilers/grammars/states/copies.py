"""Copies of a counted repetition: states that differ by a count alone, up to where it ends.

``X{1,100000}`` is not written out: some copies at the beginning, and as many at its end as a token
can pass, tell how all others behave. The others are put in when the artifact is assembled
(``scanner.loops``), behind the copy ``cut``: there, one copy more is the same state of the pattern.
Which states are the same but for their count is known from the threads of the pattern, and is
carried through every construction until then. What does not fit is an ``UncountableError``, and all
copies are written out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.construction import Construction
from cdec.compilers.grammars.states.row_store import Rows, RowStore, find_row, sort_row
from cdec.core.kernels import inner, kernel

SPREAD = 4
"""Copies that one state may be in at once where copies are put in."""
_CLASH = -1
_MANY = np.int32(2**31 - 1)


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
    n = len(states.offsets) - 1
    store = RowStore(n + 1, len(states.items) + 1)
    for i in range(n):
        store.add(states.items[states.offsets[i] : states.offsets[i + 1]])
    rows = store.rows
    found = no_copies(n, items.cut)
    found = found._replace(more=found.more.copy())
    if _count_rows(rows, items, flagged, ordered, found) == _CLASH:
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
    if _count_inside(rows, n, whole) == _CLASH:
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
    if _merge(copies, number, found) == _CLASH:
        raise UncountableError
    return found


@inner
def _shifted(members: Any, following: Any, copy: Any, flagged: bool, row: Any) -> bool:
    """Write the list that has counted one more to ``row``; say whether there is one."""
    for i in range(len(members)):
        item = members[i] >> 1 if flagged else members[i]
        row[i] = members[i]
        if copy[item] > 0:
            if following[item] < 0:
                return False
            row[i] = following[item] << 1 | members[i] & 1 if flagged else following[item]
    return True


@kernel
def _count_rows(rows: Rows, items: Copies, flagged: bool, ordered: bool, found: Copies) -> int:
    pool, offsets, _, used = rows
    longest = 0
    for state in range(used[0]):
        longest = max(longest, offsets[state + 1] - offsets[state])
    row = np.empty(longest, np.int32)
    for state in range(used[0]):
        members = pool[offsets[state] : offsets[state + 1]]
        lowest, highest, lacking, clashes = _MANY, np.int32(0), np.int32(-1), 0
        for member in members:
            item = member >> 1 if flagged else member
            at = items.copy[item]
            if at > 0:
                lowest, highest = min(lowest, at), max(highest, at)
                clashes += int(lacking >= 0 and lacking != items.more[item])
                lacking = items.more[item]
        if highest == 0:
            continue
        if clashes or (lacking > 0 and lowest <= items.cut and highest > items.cut + SPREAD):
            return _CLASH
        found.copy[state], found.more[state] = lowest, lacking
        if _shifted(members, items.following, items.copy, flagged, row):
            if not ordered:
                sort_row(row, len(members))
            found.following[state] = find_row(row, len(members), rows)
    return 0


@kernel
def _count_inside(rows: Any, n: int, whole: Copies) -> int:
    copy, more, following = whole.copy, whole.more, whole.following
    for state in range(n, len(rows)):
        lowest = _MANY
        for target in rows[state]:
            if target >= 0 and copy[target] > 0:
                if lowest < _MANY and more[target] != more[state]:
                    return _CLASH
                lowest, more[state] = min(lowest, copy[target]), more[target]
        copy[state] = lowest if lowest < _MANY else 0
    for i in range(len(rows)):
        # subtle: of states within characters the outer ones have the larger numbers.
        state = i if i < n else n + len(rows) - 1 - i
        beside = following[state]
        if beside < 0:
            continue
        for k in range(rows.shape[1]):
            target, other = rows[state, k], rows[beside, k]
            if target >= n and copy[target] > 0 and following[target] != other:
                following[target] = other if following[target] == -2 else -1
    for state in range(n, len(rows)):
        following[state] = max(following[state], -1)
    return 0


@kernel
def _merge(copies: Copies, number: Any, found: Copies) -> int:
    for state in range(len(number)):
        new, beside = number[state], copies.following[state]
        if new < 0:
            continue
        if found.copy[new] >= 0 and (
            found.copy[new] != copies.copy[state] or found.more[new] != copies.more[state]
        ):
            if found.more[new] > 0 or copies.more[state] > 0:
                return _CLASH
            found.copy[new], found.following[new] = 0, -1
            continue
        found.copy[new], found.more[new] = copies.copy[state], copies.more[state]
        after = number[beside] if beside >= 0 else -1
        if found.following[new] != after:
            found.following[new] = after if found.following[new] == -2 else -1
    for new in range(len(found.copy)):
        found.copy[new] = max(found.copy[new], 0)
        found.following[new] = max(found.following[new], -1)
    return 0
