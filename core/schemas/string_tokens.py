"""Tokens within JSON strings: content alone, or content and then a quote or an escape.

Inside of a string that may hold anything the allowed tokens are always the same, but for those in
which the string ends or an escape begins; these are tries of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import kernel
from cdec.core.mask import mask_words
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["StringTokens", "string_tokens"]

MOST_ROWS = 256
"""Rows by number of characters are kept up to so many."""
_KNOWN: WeakKeyDictionary[Vocabulary, StringTokens] = WeakKeyDictionary()


@dataclass(frozen=True)
class StringTokens:
    """How the T tokens of a vocabulary read within a string, from between two characters on.

    Attributes:
        trie: All tokens.
        crossing: Those with a quote or a backslash behind whole characters, which are no control
            characters.
        endings: Of these what stands from the quote or backslash on; tokens by their ids.
        characters: int32[T] characters that begin in a token of content alone, of which the last
            may be unfinished; -1 of others.
        longest: Most characters that begin in a token.
        rows: int32[longest + 1, stride] masks of the content tokens of at most so many characters;
            the last has all. Written when a kernel needs them.
        ready: uint8[longest + 1] where they are.
    """

    trie: TokenTrie
    crossing: TokenTrie
    endings: TokenTrie
    characters: NDArray[np.int32]
    rows: NDArray[np.int32] = field(repr=False)
    ready: NDArray[np.uint8] = field(repr=False)

    @property
    def longest(self) -> int:
        """Most characters that are told apart: those of the longest token of content, or more."""
        return len(self.ready) - 1


def string_tokens(vocabulary: Vocabulary) -> StringTokens:
    """Return a vocabulary's tokens within strings; made once for a vocabulary while it lives.

    Cost: 20 ms for 131,072 tokens, where the trie is in the cache directory.
    """
    known = _KNOWN.get(vocabulary)
    if known is None:
        known = _KNOWN[vocabulary] = _read(vocabulary)
    return known


def _read(vocabulary: Vocabulary) -> StringTokens:
    trie = TokenTrie.of(vocabulary)
    data, starts = vocabulary.flat_bytes, vocabulary.byte_offsets
    characters, cuts = np.empty(vocabulary.size, np.int32), np.empty(vocabulary.size, np.int32)
    _classify(data, starts, characters, cuts)
    crossing = np.flatnonzero(cuts >= 0)
    firsts, ends = starts[crossing] + cuts[crossing], starts[crossing + 1]
    offsets = np.zeros(len(crossing) + 1, np.int64)
    np.cumsum(ends - firsts, out=offsets[1:])
    texts = np.empty(int(offsets[-1]), np.uint8)
    _copy(data, firsts, offsets, texts)
    tails = TokenTrie.of_texts(texts, offsets)
    ids = crossing.astype(np.int32)[tails.token_ids]
    longest = min(max(int(characters.max(initial=0)), 1), MOST_ROWS)
    stride = (mask_words(vocabulary.size) + 15) // 16 * 16
    return StringTokens(
        trie,
        trie.without(cuts >= 0),
        TokenTrie(tails.node_byte, tails.depth, tails.skip, tails.token_offsets, ids),
        characters,
        np.empty((longest + 1, stride), np.int32),
        np.zeros(longest + 1, np.uint8),
    )


@kernel
def _classify(data: Any, starts: Any, characters: Any, cuts: Any) -> None:
    """Write how many characters begin in each token of content alone, and where others are cut."""
    for token in range(len(characters)):
        first, last = starts[token], starts[token + 1]
        characters[token], cuts[token] = -1, -1
        begun, more, low, high = 0, 0, 0x80, 0xBF
        at = first
        while at < last:
            byte = data[at]
            if more > 0:
                if byte < low or byte > high:
                    break
                more, low, high = more - 1, 0x80, 0xBF
            elif byte == 0x22 or byte == 0x5C:
                cuts[token] = at - first
                break
            elif byte < 0x20 or (0x80 <= byte < 0xC2) or byte > 0xF4:
                break
            else:
                begun += 1
                more = (byte >= 0xC2) + (byte >= 0xE0) + (byte >= 0xF0)
                low = 0xA0 if byte == 0xE0 else (0x90 if byte == 0xF0 else 0x80)
                high = 0x9F if byte == 0xED else (0x8F if byte == 0xF4 else 0xBF)
            at += 1
        if at == last and last > first:
            characters[token] = begun


@kernel
def _copy(data: Any, firsts: Any, offsets: Any, out: Any) -> None:
    """Write the texts that begin at ``firsts`` one after another."""
    for i in range(len(firsts)):
        for at in range(offsets[i], offsets[i + 1]):
            out[at] = data[firsts[i] + at - offsets[i]]
