"""States of automata under construction: lists of integers, equal ones once; smallest automata.

The loops are compiled (``native/automata``). States that differ by a count alone are copies of a
counted repetition: ``X{1,100000}`` is not written out, but some copies at the beginning, and as
many at its end as a token can pass, tell how all others behave. The others are put in when the
artifact is assembled (``scanner.loops``), behind the copy ``cut``: there, one copy more is the same
state of the pattern. Which states are the same but for their count is known from the threads of the
pattern, and is carried through every construction until then. What does not fit is an
``UncountableError``, and all copies are written out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_LENGTH_ALLOWED = 64
"""Numbers in all states together for each state that is allowed: a bound on memory."""
_WIDTH_ALLOWED = 256
"""Cells of a table for each row that is allowed: as many as a table over bytes has."""
_Key = TypeVar("_Key", bound=Hashable)
_UNDER_WAY, _TOO_LARGE = 1, 2
_OPERATIONS = 2_000_000
"""Of one part, some ten milliseconds; in between, Python hears of interruptions."""
SPREAD = 4
"""Copies that one state may be in at once where copies are put in."""
_CLASH = -1


class Numbering(Generic[_Key]):
    """Numbers of keys, equal ones once, in the order in which they are met.

    Attributes:
        keys: The key of each number.
    """

    def __init__(self, keys: Iterable[_Key] = ()) -> None:
        self.keys = list(keys)
        self._numbers = {key: number for number, key in enumerate(self.keys)}

    def __call__(self, key: _Key) -> int:
        """Return the number of a key, a new one if it was not met before."""
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number


class Most(NamedTuple):
    """Bounds of a construction: states, numbers in all of them, cells of the table."""

    states: int = 2**31 - 1
    items: int = 2**62
    cells: int = 2**62


class Construction(NamedTuple):
    """States are lists of integers, in the order in which they were found.

    Attributes:
        offsets: int64[n + 1] where each list begins.
        items: int32, the lists one after another.
        delta: int32[n, K] state after each, -1 dead.
    """

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    delta: NDArray[np.int32]

    def holding(self, *values: int) -> NDArray[np.bool_]:
        """Say in bool[n] which states list one of some numbers."""
        found = np.zeros(len(self.offsets) - 1, np.bool_)
        places = np.flatnonzero(np.isin(self.items, values))
        found[np.searchsorted(self.offsets, places, "right") - 1] = True
        return found


def allowed(max_states: int) -> Most:
    """Return what a construction of so many states may grow to."""
    cells = _WIDTH_ALLOWED * max_states
    return Most(max_states, _LENGTH_ALLOWED * max_states, cells)


def constructed(begun: Any, most: Most = Most()) -> Construction | None:
    """Complete what a function of the library began; None where it grows too large.

    Args:
        begun: The construction.
        most: What it may grow to.
    """
    status = _UNDER_WAY
    while status == _UNDER_WAY:
        status = library.construction_run(begun, most, _OPERATIONS)
    if status == _TOO_LARGE:
        return None
    sizes = np.empty(3, np.int64)
    width = library.construction_sizes(begun, sizes)
    lists, items, rows = sizes.tolist()
    found = Construction(
        np.zeros(lists + 1, np.int64), np.empty(items, np.int32), np.empty((rows, width), np.int32)
    )
    library.construction_read(begun, *found)
    return found


def merged_states(
    delta: NDArray[np.int32], labels: NDArray[np.int32], starts: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Do as ``minimised``, and return what every state became instead of the starts alone.

    Returns:
        (delta int32[n', K], representative int32[n'], number int32[n], -1 where a state was
        dropped).
    """
    smallest = np.empty(delta.shape, np.int32)
    old, numbers = np.empty(len(delta), np.int32), np.empty(len(delta), np.int32)
    n = library.merge_states(delta, labels, starts, smallest, old, numbers)
    return smallest[:n].copy(), old[:n].copy(), numbers


def merge_classes(
    byte_class: NDArray[np.int32], delta: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (byte_class, delta) with columns that are equal in all states made one class."""
    numbers: dict[bytes, int] = {}
    columns = np.ascontiguousarray(delta.T)
    merged, first = np.zeros(len(columns), np.int32), np.zeros(256, np.int64)
    # By byte, so that classes are numbered in the order of their first byte.
    for kind in dict.fromkeys(byte_class.tolist()):
        merged[kind] = numbers.setdefault(columns[kind].tobytes(), len(numbers))
        if merged[kind] == len(numbers) - 1:
            first[merged[kind]] = kind
    return merged[byte_class].astype(np.int32), np.ascontiguousarray(
        columns[first[: len(numbers)]].T
    )


class UncountableError(Exception):
    """Repetitions cannot be told apart from what runs beside them: they are to be written out."""


class CounterStates(NamedTuple):
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
        """True where there are copies to be put in."""
        return bool(self.more.any())


def no_copies(states: int, cut: int = 0) -> CounterStates:
    """Return the counts of states that count nothing."""
    none = np.zeros(states, np.int32)
    return CounterStates(none, none, np.full(states, -1, np.int32), cut)


def lacks_some(copies: CounterStates | None) -> bool:
    """Say whether there are copies to be put in."""
    return copies is not None and copies.lacks_some


def joined_copies(parts: list[CounterStates | None], sizes: list[int]) -> CounterStates | None:
    """Return the counts of automata side by side; None where nothing is counted."""
    cuts = {part.cut for part in parts if part is not None}
    if not cuts:
        return None
    cut = max(cuts)
    whole = [part or no_copies(size) for part, size in zip(parts, sizes, strict=True)]
    bases = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
    return CounterStates(
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


def copies_of_rows(
    states: Construction, items: CounterStates, *, flagged: bool, ordered: bool
) -> CounterStates:
    """Return the counts of states that are lists of counted items.

    Args:
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


def copies_in_bytes(rows: NDArray[np.int32], characters: CounterStates) -> CounterStates:
    """Return the counts of an automaton over bytes (``expand``) from those over characters.

    Raises:
        UncountableError: A state within a character leads to some that lack different numbers.
    """
    n, inside = len(characters.copy), len(rows) - len(characters.copy)
    more = no_copies(inside)
    whole = CounterStates(
        np.concatenate([characters.copy, more.copy]),
        np.concatenate([characters.more, more.more]),
        np.concatenate([characters.following, np.full(inside, -2, np.int32)]),
        characters.cut,
    )
    if library.count_inside(rows, n, whole) == _CLASH:
        raise UncountableError
    return whole


def merged_copies(copies: CounterStates, number: NDArray[np.int32], states: int) -> CounterStates:
    """Return the counts of states after equal ones were merged.

    Args:
        copies: Before.
        number: int32[n] new number of each old state, -1: dropped.
        states: New states.

    Raises:
        UncountableError: Equal states lack different numbers of copies.
    """
    found = CounterStates(
        np.full(states, -1, np.int32),
        np.zeros(states, np.int32),
        np.full(states, -2, np.int32),
        copies.cut,
    )
    if library.merge_copies(copies, number, found) == _CLASH:
        raise UncountableError
    return found
