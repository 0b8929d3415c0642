"""Markers: the first of some byte strings to end in a text that comes piece by piece.

Aho and Corasick, "Efficient string matching", 1975: a state is the longest end of the text so far
that begins a marker, so that "aab" is found in "aaab", and markers may overlap. Their failure
links are followed beforehand, level by level: a step is one look into a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free_text import FreeText, shown
from cdec.core.errors import UsageError
from cdec.core.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Found:
    """A marker that ended.

    Attributes:
        marker: Its number; of several that end together the first.
        end: Bytes of the piece up to its end.
    """

    marker: int
    end: int


class Markers:
    """An automaton that finds the first marker to end.

    States are 0 to ``count - 1``, of which 0 is that before any text. Cost: a state for each byte
    of the markers, each with 4 bytes for every distinct byte of them.

    Args:
        texts: At least one, none of them empty.

    Attributes:
        count: How many states there are.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = tuple(texts)
        alphabet = np.unique(np.frombuffer(b"".join(self.texts), np.uint8))
        # Class 0 is that of all bytes that stand in no marker.
        self._classes = np.zeros(256, np.int32)
        self._classes[alphabet] = np.arange(1, len(alphabet) + 1)
        trie = _Trie(self.texts)
        self.count = len(trie.depths)
        self._depths = np.array(trie.depths, np.int32)
        self._owners = trie.owners
        # int32[count, classes]: the state one byte on, or -1 - m where marker m ends with it.
        self._steps = self._automaton(trie, len(alphabet) + 1)

    def beginning(self, state: int) -> bytes:
        """Return the beginning of a marker that the text so far ends with."""
        return self.texts[self._owners[state]][: self._depths[state]]

    def follow(self, state: int, piece: bytes) -> int | Found:
        """Return the state after a piece of text, or the first marker that ends within it."""
        for at, kind in enumerate(self._classes[np.frombuffer(piece, np.uint8)].tolist(), 1):
            state = int(self._steps[state, kind])
            if state < 0:
                return Found(-1 - state, at)
        return state

    def first_ends(
        self, state: int, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return where the first marker ends in each of n pieces that follow a state.

        Cost: one pass over the pieces' bytes; from another state than 0 over those that go on with
        a marker begun before.

        Args:
            state: Where they follow.
            data: uint8, the bytes of all pieces.
            starts: int64[n] where each begins. lengths: int[n] bytes of each.

        Returns:
            Bytes of the piece up to the marker's end, int32[n], 0 where none ends; from another
            state than 0 for the markers that were begun before the piece alone, if it goes on with
            them: from there on it is read as from state 0.
        """
        ends = np.zeros(len(starts), np.int32)
        rows = np.arange(len(starts))
        at = np.full(len(starts), state, np.int32)
        for place in range(int(lengths.max(initial=0))):
            left = lengths[rows] > place
            rows, at = rows[left], at[left]
            if not rows.size:
                break
            at = self._steps[at, self._classes[data[starts[rows] + place]]]
            ends[rows[at < 0]] = place + 1
            goes_on = at >= 0
            if state:
                goes_on &= self._depths[at] > place + 1
            rows, at = rows[goes_on], at[goes_on]
        return ends

    def owed(self, state: int) -> tuple[int, int]:
        """Return the marker that the text stands within, and how many of its bytes are there.

        Of several the first; where it stands within none, none of the first marker.
        """
        return self._owners[state], int(self._depths[state])

    def _automaton(self, trie: _Trie, classes: int) -> NDArray[np.int32]:
        """Return the table of steps, filled from the shortest beginnings to the longest."""
        steps = np.zeros((self.count, classes), np.int32)
        suffixes = np.zeros(self.count, np.int32)
        none = len(self.texts)
        ending = np.array([none if m is None else m for m in trie.whole], np.int64)
        parents = np.array(trie.parents, np.int32)
        kinds = self._classes[np.array(trie.bytes, np.int32)]
        order = np.argsort(self._depths, kind="stable")
        bounds = np.searchsorted(self._depths[order], np.arange(self._depths.max() + 2))
        for depth in range(1, len(bounds) - 1):
            nodes = order[bounds[depth] : bounds[depth + 1]]
            above, kind = parents[nodes], kinds[nodes]
            if depth > 1:
                suffixes[nodes] = steps[suffixes[above], kind]
            steps[above, kind] = nodes
            # subtle: a shorter state's row is whole by now, children included; these are the next.
            steps[nodes] = steps[suffixes[nodes]]
            ending[nodes] = np.minimum(ending[nodes], ending[suffixes[nodes]])
        ends = ending[steps] < none
        steps[ends] = -1 - ending[steps[ends]]
        return steps


class _Trie:
    """The beginnings of markers as nodes, 0 for the empty one.

    Attributes:
        parents: The node one byte before each. bytes: The byte that leads to it.
        depths: Bytes that lead to it. owners: The first marker that begins so.
        whole: The first marker that it is; None where it is none.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.parents, self.bytes, self.depths, self.owners = [0], [0], [0], [0]
        self.whole: list[int | None] = [None]
        children: dict[tuple[int, int], int] = {}
        for number, text in enumerate(texts):
            node = 0
            for byte in text:
                after = children.setdefault((node, byte), len(self.depths))
                if after == len(self.depths):
                    self.parents.append(node)
                    self.bytes.append(byte)
                    self.depths.append(self.depths[node] + 1)
                    self.owners.append(number)
                    self.whole.append(None)
                node = after
            if self.whole[node] is None:
                self.whole[node] = number


def require_spelt(free: FreeText, vocabulary: Vocabulary) -> None:
    """Refuse a marker of which no token of the vocabulary has some byte: it would never appear.

    Raises:
        UsageError: There is one.
    """
    spelt = vocabulary.spelt_bytes
    for marker in free.after or free.between or ():
        for character in marker:
            if not spelt.issuperset(character.encode()):
                raise UsageError(
                    f"the marker {shown(marker)} can never appear: no token of the model's "
                    f"vocabulary spells {character!r}",
                    hint="give a marker that the model can write",
                )
