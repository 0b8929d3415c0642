"""Regular sets of texts as smallest deterministic automata over UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.characters import byte_tree, expand
from cdec.compilers.grammars.automata.terminal import words_automaton as built
from cdec.compilers.grammars.states import Most, constructed, merge_classes, merged_states
from cdec.core.errors import LimitError
from cdec.core.mask import offsets_of
from cdec.core.native import library

MAX_STATES = 200_000
"""States of one automaton."""
_SMALL = 20_000
"""Transitions of automata of which many products are remembered."""
Ranges = tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int32]]
"""Edges of each state int64[n + 1], their first and last bytes, their targets."""
Labelled = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""byte_class int32[256], rows int32[n, K], labels int32[n], 0 where no text ends."""


class Automaton:
    """A set of Unicode texts; equal sets are equal values.

    Attributes:
        byte_class: int32[256], numbered by first byte.
        rows: int32[n, K] next state of each state and class, -1: no text of the set goes on so.
        accepts: bool[n]. State 0 is the start; from every other one an accepting state is reached.
    """

    __slots__ = ("_key", "_ranges", "accepts", "byte_class", "rows")

    def __init__(
        self, byte_class: NDArray[np.int32], rows: NDArray[np.int32], accepts: NDArray[np.bool_]
    ) -> None:
        self.byte_class = byte_class
        self.rows = rows
        self.accepts = accepts
        self._ranges: Ranges | None = None
        self._key = hash((byte_class.tobytes(), rows.tobytes(), accepts.tobytes()))

    def __len__(self) -> int:
        return len(self.rows)

    def __hash__(self) -> int:
        return self._key

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Automaton)
            and self._key == other._key
            and self.rows.shape == other.rows.shape
            and bool((self.rows == other.rows).all())
            and bool((self.byte_class == other.byte_class).all())
            and bool((self.accepts == other.accepts).all())
        )

    @property
    def is_empty(self) -> bool:
        """True where the set holds no text."""
        return len(self.rows) == 1 and not self.accepts[0]

    @property
    def ranges(self) -> Ranges:
        """The transitions by ranges of bytes, laid out once."""
        if self._ranges is None:
            self._ranges = byte_ranges(self.byte_class, self.rows)
        return self._ranges

    def accepted(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Say in bool[n] which of n texts, none with surrogates, are in the set."""
        spelled = [text.encode() for text in texts]
        offsets = offsets_of([len(text) for text in spelled])
        joined = np.frombuffer(b"".join(spelled), np.uint8)
        found = np.empty(len(spelled), np.bool_)
        library.accepted(self.byte_class, self.rows, self.accepts, joined, offsets, found)
        return found

    def __and__(self, other: Automaton) -> Automaton:
        if self is other or other is everything() or self.is_empty:
            return self
        if self is everything() or other.is_empty:
            return other
        return _combined(self, other, (False, False, False, True))

    def __or__(self, other: Automaton) -> Automaton:
        if self is other or self is everything() or other.is_empty:
            return self
        if other is everything() or self.is_empty:
            return other
        return _combined(self, other, (False, True, True, True))

    def __sub__(self, other: Automaton) -> Automaton:
        if self.is_empty or other.is_empty:
            return self
        if self is other or other is everything():
            return nothing()
        return _combined(self, other, (False, False, True, False))

    def __invert__(self) -> Automaton:
        return everything() - self


def smallest(
    byte_class: NDArray[np.int32], rows: NDArray[np.int32], labels: NDArray[np.int32]
) -> Automaton:
    """Return the smallest automaton of a deterministic one.

    Args:
        byte_class: int32[256], classes numbered by first byte.
        rows: int32[n, K] from state 0, -1 dead.
        labels: int32[n], not 0 where a text may end.
    """
    ends = (labels != 0).astype(np.int32)
    byte_class, delta, labels = smallest_labelled((byte_class, rows, ends))
    return _once(Automaton(byte_class, delta, labels != 0))


@lru_cache(maxsize=4096)
def _once(found: Automaton) -> Automaton:
    """Return the same value for equal automata."""
    return next((known for known in _known() if known == found), found)


@cache
def everything() -> Automaton:
    """Return the set of all texts; the same value every time."""
    tree = byte_tree(((0, 0x10FFFF, 0),))
    byte_class, rows = expand(np.zeros((1, 1), np.int32), tree, MAX_STATES)
    labels = np.zeros(len(rows), np.int32)
    labels[0] = 1
    byte_class, rows, labels = smallest_labelled((byte_class, rows, labels))
    return Automaton(byte_class, rows, labels != 0)


@cache
def nothing() -> Automaton:
    """Return the empty set; the same value every time."""
    rows = np.full((1, 1), -1, np.int32)
    return Automaton(np.zeros(256, np.int32), rows, np.zeros(1, np.bool_))


def _known() -> Iterator[Automaton]:
    yield nothing()
    yield everything()


def _combined(left: Automaton, right: Automaton, kept: tuple[bool, ...]) -> Automaton:
    is_large = max(left.rows.size, right.rows.size) > _SMALL
    return (_few_products if is_large else _products)(left, right, kept)


def _product(left: Automaton, right: Automaton, kept: tuple[bool, ...]) -> Automaton:
    return smallest(*followed(_sides(left), _sides(right), kept))


_products, _few_products = lru_cache(maxsize=4096)(_product), lru_cache(maxsize=64)(_product)


def _sides(automaton: Automaton) -> Labelled:
    return automaton.byte_class, automaton.rows, automaton.accepts.astype(np.int32)


def followed(left: Labelled, right: Labelled, kept: tuple[bool, ...]) -> Labelled:
    """Follow two automata at once.

    Args:
        left, right: (byte_class int32[256], rows int32[n, K], labels int32[n], 0: no text).
        kept: For (in the left one) * 2 + (in the right one): whether the text is kept.

    Returns:
        The same of both, with the sum of the labels of each text; not the smallest.

    Raises:
        LimitError: More than MAX_STATES states.
    """
    pairs = left[0].astype(np.int64) * 256 + right[0]
    values, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(values), np.int32)
    place[order] = np.arange(len(values))
    left_of = (values[order] // 256).astype(np.int32)
    right_of = (values[order] % 256).astype(np.int32)
    found = constructed(
        library.follow_both(left[1], right[1], left_of, right_of, np.array(kept)), Most(MAX_STATES)
    )
    if found is None:
        raise too_large()
    # A pair holds the number of states of an automaton that has ended.
    labels, others = (
        np.append(side[2], np.int32(0))[found.items[at::2]] for at, side in enumerate((left, right))
    )
    is_kept = np.array(kept)[(labels != 0) * 2 + (others != 0)]
    return (
        place[inverse.ravel()].astype(np.int32),
        found.delta,
        np.where(is_kept, labels + others, 0).astype(np.int32),
    )


def byte_ranges(byte_class: NDArray[np.int32], rows: NDArray[np.int32]) -> Ranges:
    """Return the transitions of an automaton by ranges of bytes."""
    offsets, empty = np.empty(len(rows) + 1, np.int64), np.empty(0, np.uint8)
    room = empty, empty.copy(), np.empty(0, np.int32)
    count = library.byte_ranges(byte_class, rows, offsets, *room)
    edges = np.empty(count, np.uint8), np.empty(count, np.uint8), np.empty(count, np.int32)
    library.byte_ranges(byte_class, rows, offsets, *edges)
    return offsets, *edges


def smallest_labelled(automaton: Labelled) -> Labelled:
    """Return the smallest automaton that gives every text the same label."""
    byte_class, rows, labels = automaton
    delta, old, _ = merged_states(rows, labels, np.zeros(1, np.int32))
    byte_class, delta = merge_classes(byte_class, delta)
    return byte_class, delta, labels[old]


def labelled_union(automata: Sequence[Automaton]) -> Labelled:
    """Return the automaton with label i + 1 for the texts of the i-th of some disjoint ones."""
    found: Labelled | None = None
    for label, automaton in enumerate(automata, 1):
        byte_class, rows, own = _sides(automaton)
        sides = byte_class, rows, own * np.int32(label)
        if found is None:
            found = sides
        else:
            found = smallest_labelled(followed(found, sides, (False, True, True, True)))
    return _sides(nothing()) if found is None else found


@lru_cache(maxsize=64)
def cells_of(
    automata: tuple[Automaton, ...], most: int
) -> tuple[tuple[frozenset[int], Automaton], ...] | None:
    """Split all texts by which automata accept them; None where these are more than ``most`` kinds.

    Returns:
        (numbers of the automata, the texts that just these accept). Cost: one product an automaton,
        and one minimisation a cell.

    Raises:
        LimitError: More than MAX_STATES states.
    """
    (byte_class, rows, labels), held = _joined(automata)
    if len(held) > most:
        return None
    return tuple(
        (members, smallest(byte_class, rows, (labels == k).astype(np.int32)))
        for k, members in enumerate(held, 1)
    )


@lru_cache(maxsize=64)
def _joined(automata: tuple[Automaton, ...]) -> tuple[Labelled, tuple[frozenset[int], ...]]:
    """Follow all automata at once; label k + 1 for the texts of the k-th cell, and the cells."""
    if not automata:
        return _sides(everything()), (frozenset(),)
    joined, held = _joined(automata[:-1])
    count = len(held)
    byte_class, rows, own = _sides(automata[-1])
    sides = byte_class, rows, own * np.int32(count)
    byte_class, rows, labels = followed(joined, sides, (False, True, True, True))
    used, numbers = np.unique(labels, return_inverse=True)
    none, last = frozenset[int](), frozenset((len(automata) - 1,))
    # Label 0 stands within characters, so it is always there.
    cells = tuple(held[(k - 1) % count] | (last if k > count else none) for k in used[1:].tolist())
    return smallest_labelled((byte_class, rows, numbers.ravel().astype(np.int32))), cells


def too_large() -> LimitError:
    """Return the error of an automaton with more than MAX_STATES states."""
    return LimitError(
        f"an automaton of strings or numbers has more than {MAX_STATES} states",
        hint="make patterns, counts and lengths simpler or smaller, or combine fewer of them",
        limit="max_states",
    )


def words_automaton(words: Iterable[str]) -> Automaton:
    """Return the smallest automaton of some words."""
    return _words_automaton(frozenset(words))


@lru_cache(maxsize=256)
def _words_automaton(words: frozenset[str]) -> Automaton:
    if not words:
        return nothing()
    byte_class, delta, accepts = built(sorted(words))
    return Automaton(byte_class, delta, accepts)
