"""Roles of a vocabulary's tokens within JSON, whatever the schema; made once a vocabulary.

Inside of a string that may hold anything the allowed tokens are always the same, but for those in
which it ends; between values, those of whitespace alone are decided by the runs of whitespace that
may stand there, and others by what comes behind their whitespace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import mask_words, offsets_of
from cdec.core.native import library
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["JsonTokens", "json_tokens"]

_MOST_ROWS = 256
"""Masks by number of characters are kept up to so many."""
_KNOWN: WeakKeyDictionary[Vocabulary, dict[bool, JsonTokens]] = WeakKeyDictionary()
_BLANKS = b" \t\n\r"
_WORDS = (b"true", b"false", b"null")
_INSIDE = -2
"""Where a token's string would end, for tokens that stay within it."""


@dataclass(frozen=True)
class JsonTokens:
    """Classification of the T tokens of a vocabulary within JSON.

    From between two characters of a string on, *content* is characters as they are; *inside* is
    content and escapes, either of which may be unfinished at the end.

    Attributes:
        trie: All tokens.
        crossing: Those of content and then a quote or a backslash.
        endings: Those of which the string ends, by what they have from its quote on.
        behind: Those in which something follows whitespace, or nothing stands before it, by that.
        content: uint32[longest + 2, words] masks of the content tokens of at most so many
            characters, then of all; then of all tokens inside.
        run_of: int32[T] the whitespace that a token of ``behind`` or ``blank`` begins with.
        runs: uint8, all such whitespace, one after another. run_offsets: int64[R + 1].
        blank: int32, tokens of whitespace alone.
    """

    trie: TokenTrie
    crossing: TokenTrie
    endings: TokenTrie
    behind: TokenTrie
    content: NDArray[np.uint32] = field(repr=False)
    run_of: NDArray[np.int32]
    runs: NDArray[np.uint8]
    run_offsets: NDArray[np.int64]
    blank: NDArray[np.int32]

    def tries(self) -> list[tuple[NDArray[Any], ...]]:
        """Return the four tries as the library takes them."""
        return [trie.arrays() for trie in (self.trie, self.crossing, self.endings, self.behind)]

    def held(self) -> tuple[NDArray[Any], ...]:
        """Return all else as the library takes it."""
        return self.content, self.run_of, self.runs, self.run_offsets, self.blank


def json_tokens(vocabulary: Vocabulary, *, few_escapes: bool = False) -> JsonTokens:
    """Return what a vocabulary's tokens are within JSON; made once for it while it lives.

    Cost: 30 ms for 131,072 tokens, where the trie is in the cache directory.

    Args:
        vocabulary: The tokens.
        few_escapes: Take those for no content that escape printable ASCII which needs none.
    """
    known = _KNOWN.setdefault(vocabulary, {})
    if few_escapes not in known:
        known[few_escapes] = _read(vocabulary, few_escapes=few_escapes)
    return known[few_escapes]


def _read(vocabulary: Vocabulary, *, few_escapes: bool) -> JsonTokens:
    trie = TokenTrie.of(vocabulary)
    data, starts = vocabulary.flat_bytes, vocabulary.byte_offsets
    columns = [np.empty(vocabulary.size, np.int32) for _ in range(4)]
    library.json_tokens_classify(data, starts, few_escapes, *columns)
    characters, cuts, ends, blanks = columns
    longest = min(max(int(characters.max(initial=0)), 1), _MOST_ROWS)
    content = np.zeros((longest + 2, mask_words(vocabulary.size)), np.uint32)
    library.json_tokens_content(characters, content[:-1])
    inside = np.packbits(ends == _INSIDE, bitorder="little")
    content[-1].view(np.uint8)[: len(inside)] = inside
    lengths = vocabulary.byte_lengths
    blank = np.flatnonzero((blanks == lengths) & (lengths > 0)).astype(np.int32)
    behind = _structural(data, starts, blanks, lengths)
    run_of, runs, run_offsets = _runs(vocabulary, blanks, np.union1d(behind, blank))
    return JsonTokens(
        trie,
        trie.without(cuts >= 0),
        _tails(data, starts, ends, np.flatnonzero(ends >= 0)),
        _tails(data, starts, blanks, behind),
        content,
        run_of,
        runs,
        run_offsets,
        blank,
    )


def _tails(
    data: NDArray[np.uint8], starts: NDArray[np.int64], cuts: NDArray[np.int32], ids: NDArray[Any]
) -> TokenTrie:
    """Return the trie of what tokens have from a place in each on."""
    # Every second piece: what lies between two of them is left out.
    pieces = np.stack([starts[ids] + cuts[ids], starts[ids + 1]], axis=1).reshape(-1)
    offsets = offsets_of(pieces[1::2] - pieces[::2])
    texts = np.empty(int(offsets[-1]), np.uint8)
    library.gather_bytes(data, pieces, np.arange(0, len(pieces), 2), texts)
    made = TokenTrie.of_texts(texts, offsets)
    return replace(made, token_ids=ids.astype(np.int32)[made.token_ids])


def _structural(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    blanks: NDArray[np.int32],
    lengths: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Return the tokens that can stand between strings: what is behind whitespace begins so."""
    begins = np.zeros((256, 257), np.bool_)
    begins[[*b'"{}[]:,-0123456789']] = True
    for word in _WORDS:
        begins[word[0], [word[1], 256]] = True
    ids = np.flatnonzero(blanks < lengths)
    at = starts[ids] + blanks[ids]
    second = data[np.minimum(at + 1, len(data) - 1)].astype(np.int64)
    second[at + 1 >= starts[ids + 1]] = 256
    kept: NDArray[np.int64] = ids[begins[data[at], second]]
    return kept


def _runs(
    vocabulary: Vocabulary, blanks: NDArray[np.int32], ids: NDArray[Any]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
    """Number the whitespace that tokens begin with; 0 is none."""
    known, run_of, table = {b"": 0}, np.zeros(vocabulary.size, np.int32), vocabulary.token_bytes
    for token in ids[blanks[ids] > 0].tolist():
        run = table[token][: blanks[token]]
        run_of[token] = known.setdefault(run, len(known))
    offsets = offsets_of([len(run) for run in known])
    return run_of, np.frombuffer(b"".join(known) or b"\0", np.uint8), offsets
