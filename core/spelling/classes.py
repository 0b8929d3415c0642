"""Classes of characters: which sets of a tokenizer's patterns hold each, as the library has them.

What ``\\p{L}`` holds depends on the version of Unicode that the library was built with. So every
set is asked of the library itself, once for all characters, and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.files.cache import CacheFolder

CODEPOINTS = 0x110000
DIGIT, NO_DIGIT = r"\p{cdec_digit}", r"\P{cdec_digit}"
"""The characters of the pre-tokenizer ``Digits``, and all others; Unicode has no such property."""
_SPARSE = ((0x34000, 0xE0000), (0xE0200, 0x110000))
"""Ranges without characters that have properties of their own in any version of Unicode: one of
each 16, the unit in which characters are given out, stands for all."""
_UNIT = 16
_KEPT, _MOST_BYTES = 256, 1 << 20


@cache
def _asked() -> tuple[str, NDArray[np.int64]]:
    """Return the characters that are asked about, and their code points, ascending."""
    points = np.arange(CODEPOINTS)
    is_sparse = np.zeros(CODEPOINTS, np.bool_)
    for start, stop in _SPARSE:
        is_sparse[start:stop] = points[start:stop] % _UNIT > 0
    is_sparse[0xD800:0xE000] = True  # surrogates, which no text has
    points = points[~is_sparse]
    return "".join(map(chr, points.tolist())), points


def _pre_tokenizer(atom: str) -> Any:
    """Return what cuts a text into characters of a set, dropped but for ``DIGIT``, and others."""
    from tokenizers import Regex, pre_tokenizers

    if atom == DIGIT:
        return pre_tokenizers.Digits(individual_digits=False)
    return pre_tokenizers.Split(Regex(f"(?:{atom})+"), "removed")


def _edges(atom: str) -> NDArray[np.int32]:
    """Return the code points from which on a set holds characters, or none, in turn; ascending."""
    if atom == NO_DIGIT:
        return np.concatenate(([0], _edges(DIGIT))).astype(np.int32)
    text, points = _asked()
    spans = [span for _, span in _pre_tokenizer(atom).pre_tokenize_str(text)]
    if atom == DIGIT:  # pieces of both kinds are left; the first character, U+0000, is no digit
        return points[[start for start, _ in spans[1:]]].astype(np.int32)
    # What is left are the others: the set holds what lies between.
    flat = [0, *(place for span in spans for place in span), len(text)]
    borders = np.append(points, CODEPOINTS)[flat]
    pairs = borders.reshape(-1, 2)
    return pairs[pairs[:, 0] < pairs[:, 1]].reshape(-1).astype(np.int32)


def edges(atom: str) -> NDArray[np.int32]:
    """Return the code points from which on a set holds characters, or none, in turn; ascending.

    Cost: half a second once for all, then a read of the cache.
    """
    from tokenizers import __version__ as version

    name = hashlib.sha256(f"edges 1 {version} {atom}".encode()).hexdigest()[:40]
    kept = CacheFolder("characters", most=_KEPT, max_bytes=_MOST_BYTES)
    data = kept.read(name)
    if data is None or len(data) % 4:
        found = _edges(atom)
        kept.keep(name, found.data.cast("B"))
        return found
    return np.frombuffer(data, np.int32)


class CharacterClasses:
    """A partition of the characters by which sets hold them.

    Args:
        atoms: The sets, as patterns write them.

    Attributes:
        of: int16[CODEPOINTS] class of each code point, from 0; surrogates are in any.
        holds: bool[classes, atoms] whether a set holds the characters of a class.
    """

    def __init__(self, atoms: Sequence[str]) -> None:
        all_edges = [edges(atom) for atom in atoms]
        starts = np.unique(np.concatenate(([0, CODEPOINTS], *all_edges)))
        held = np.zeros((len(starts) - 1, len(atoms)), np.bool_)
        for column, each in enumerate(all_edges):
            held[:, column] = np.searchsorted(each, starts[:-1], side="right") % 2
        self.holds: NDArray[np.bool_]
        self.holds, number = np.unique(held, axis=0, return_inverse=True)
        lengths = np.diff(starts).astype(np.int64)
        self.of: NDArray[np.int16] = np.repeat(number.reshape(-1).astype(np.int16), lengths)
