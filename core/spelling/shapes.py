"""Shapes of tokens: the classes of their characters, and where they begin or end within one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.spelling.splits import DEAD_PLACE, Splits

_LEAST_CONTINUING, _PAST_CONTINUING = 0x80, 0xC0


class Parts(NamedTuple):
    """A token's bytes: the end of a character, whole characters, and the begin of one."""

    lead: bytes
    text: str
    tail: bytes


def needed_bytes(first: int) -> int:
    """Return how many bytes a character has that begins with one; 0 for none."""
    if first < 0x80:
        return 1
    if not 0xC2 <= first < 0xF5:
        return 0
    return 2 + (first >= 0xE0) + (first >= 0xF0)


def code_points_of(begun: bytes) -> range:
    """Return the code points whose UTF-8 begins with some bytes; empty for none."""
    missing = needed_bytes(begun[0]) - len(begun)
    if missing < 0 or any(not _LEAST_CONTINUING <= b < _PAST_CONTINUING for b in begun[1:]):
        return range(0)
    size = len(begun) + missing
    value = begun[0] if size == 1 else begun[0] & (0x7F >> size)
    for byte in begun[1:]:
        value = value << 6 | byte & 0x3F
    least = (0, 0x80, 0x800, 0x10000)[size - 1]
    start, stop = value << 6 * missing, (value + 1) << 6 * missing
    start, stop = max(start, least), min(stop, 0x110000)
    if start < 0xE000 and stop > 0xD800:  # surrogates are no characters
        stop = min(stop, 0xD800) if start < 0xD800 else start
    return range(start, max(start, stop))


def parts_of(token: bytes) -> Parts | None:
    """Return the parts of a token; None where no text holds its bytes."""
    try:
        return Parts(b"", token.decode(), b"")
    except UnicodeDecodeError:
        pass
    lead = 0
    while lead < min(3, len(token)) and _LEAST_CONTINUING <= token[lead] < _PAST_CONTINUING:
        lead += 1
    for tail in range(min(3, len(token) - lead) + 1):
        end = token[len(token) - tail :]
        if tail and not (code_points_of(end) and len(end) < needed_bytes(end[0])):
            continue
        try:
            return Parts(token[:lead], token[lead : len(token) - tail].decode(), end)
        except UnicodeDecodeError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of a vocabulary's tokens: what places judge, instead of each token.

    Attributes:
        sequences: int16[shapes, longest] classes of whole characters, -1 after the last.
        tails: Begin of a character at the end, by shape.
        leads: End of a character at the begin, by shape.
        of: int32[width] shape of a token; -1 where it is no text.
        classes: int16 class by code point.
    """

    sequences: NDArray[np.int16]
    tails: Sequence[bytes]
    leads: Sequence[bytes]
    of: NDArray[np.int32]
    classes: NDArray[np.int16]

    @classmethod
    def read(cls, parts: Sequence[Parts | None], classes: NDArray[np.int16], width: int) -> Shapes:
        """Return the shapes of tokens given by their parts, by id."""
        text = "".join(p.text for p in parts if p is not None)
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        flat, at = classes[points].tobytes(), 0
        numbers: dict[tuple[bytes, bytes, bytes], int] = {}
        of = np.full(width, -1, np.int32)
        for token, each in enumerate(parts):
            if each is not None:
                end = at + 2 * len(each.text)
                shape = each.lead, flat[at:end], each.tail
                of[token] = numbers.setdefault(shape, len(numbers))
                at = end
        longest = max((len(middle) // 2 for _, middle, _ in numbers), default=0)
        sequences = np.full((len(numbers), longest), -1, np.int16)
        for (_, middle, _), number in numbers.items():
            sequences[number, : len(middle) // 2] = np.frombuffer(middle, np.int16)
        leads, tails = [n[0] for n in numbers], [n[2] for n in numbers]
        return cls(sequences, tails, leads, of, classes)

    def walk(self, splits: Splits, first: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the place after the whole characters of every shape, int32[shapes].

        Args:
            splits: Steps between characters within a pre-token.
            first: int32[classes] place after the first character. Shapes without any: DEAD_PLACE.
        """
        column = self.sequences[:, 0].astype(np.int64)
        at = np.where(column >= 0, first[column], DEAD_PLACE)
        return self.walk_on(splits, at, 1)

    def walk_on(self, splits: Splits, at: NDArray[np.int32], column: int) -> NDArray[np.int32]:
        """Return the places after the characters of every shape from a column on."""
        at, rows = at.copy(), np.arange(len(at))
        for each in range(column, self.sequences.shape[1]):
            char = self.sequences[rows, each]
            rows = rows[(char >= 0) & (at[rows] >= 0)]
            if not rows.size:
                break
            at[rows] = splits.within[at[rows], self.sequences[rows, each]]
        return at
