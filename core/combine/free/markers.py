"""Markers: where the first of some byte strings ends in a text that comes piece by piece.

Aho and Corasick, "Efficient string matching", 1975: a state is the longest end of the text so far
that begins a marker, so that "aab" is found in "aaab", and markers may overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdec.core.combine.free.free_text import FreeText
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

    States are 0 to ``count - 1``, of which 0 is that before any text.

    Args:
        texts: At least one, none of them empty.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = tuple(texts)
        beginnings = {text[:length] for text in texts for length in range(len(text))}
        # Shorter ones first: 0 is the empty one, and an end of one comes before it.
        self.beginnings = sorted(beginnings, key=lambda text: (len(text), text))
        self._numbers = {text: number for number, text in enumerate(self.beginnings)}
        self._steps: dict[tuple[int, int], int | Found] = {}

    @property
    def count(self) -> int:
        """How many states there are."""
        return len(self.beginnings)

    def step(self, state: int, byte: int) -> int | Found:
        """Return the state one byte on, or the marker that ends with it (its ``end`` is 1)."""
        key = state, byte
        if key not in self._steps:
            self._steps[key] = self._found(self.beginnings[state] + bytes([byte]))
        return self._steps[key]

    def follow(self, state: int, piece: bytes) -> int | Found:
        """Return the state after a piece of text, or the first marker that ends within it."""
        for at, byte in enumerate(piece, 1):
            after = self.step(state, byte)
            if isinstance(after, Found):
                return Found(after.marker, at)
            state = after
        return state

    def owed(self, state: int) -> tuple[int, int]:
        """Return the marker that the text stands within, and how many of its bytes are there.

        Of several the first; where it stands within none, none of the first marker.
        """
        begun = self.beginnings[state]
        marker = next(i for i, text in enumerate(self.texts) if text.startswith(begun))
        return marker, len(begun)

    def _found(self, text: bytes) -> int | Found:
        for marker, whole in enumerate(self.texts):
            if text.endswith(whole):
                return Found(marker, 1)
        return next(
            self._numbers[text[start:]]
            for start in range(len(text) + 1)
            if text[start:] in self._numbers
        )


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
                    f"the marker {marker!r} can never appear: no token of the model's vocabulary "
                    f"spells {character!r}",
                    hint="give a marker that the model can write",
                )
