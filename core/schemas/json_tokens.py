"""How the tokens of a vocabulary read within JSON, whatever the schema; made once a vocabulary.

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

from cdec.core.kernels import inner, kernel
from cdec.core.mask import mask_words
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["JsonTokens", "json_tokens"]

_MOST_ROWS = 256
"""Rows by number of characters are kept up to so many."""
_KNOWN: WeakKeyDictionary[Vocabulary, dict[bool, JsonTokens]] = WeakKeyDictionary()
_BLANKS = b" \t\n\r"
_WORDS = (b"true", b"false", b"null")
_INSIDE = -2
"""Where a token's string would end, for tokens that stay within it."""


@dataclass(frozen=True)
class JsonTokens:
    """What the T tokens of a vocabulary are within JSON.

    From between two characters of a string on, *content* is characters as they are; *inside* is
    content and escapes, either of which may be unfinished at the end.

    Attributes:
        trie: All tokens.
        crossing: Those of content and then a quote or a backslash.
        endings: Those of which the string ends, by what they have from its quote on.
        behind: Those in which something follows whitespace, or nothing stands before it, by that.
        characters: int32[T] characters that begin in a token of content; -1 of others.
        rows: int32[longest + 2, stride] masks of the content tokens of at most so many characters,
            then of all; then of all tokens inside. Written when a kernel needs them.
        ready: uint8[longest + 2] which rows are written; the last always.
        run_of: int32[T] the whitespace that a token of ``behind`` or ``blank`` begins with.
        runs: uint8, all such whitespace, one after another. run_offsets: int64[R + 1].
        blank: int32, tokens of whitespace alone.
    """

    trie: TokenTrie
    crossing: TokenTrie
    endings: TokenTrie
    behind: TokenTrie
    characters: NDArray[np.int32]
    rows: NDArray[np.int32] = field(repr=False)
    ready: NDArray[np.uint8] = field(repr=False)
    run_of: NDArray[np.int32]
    runs: NDArray[np.uint8]
    run_offsets: NDArray[np.int64]
    blank: NDArray[np.int32]


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
    _classify(data, starts, few_escapes, *columns)
    characters, cuts, ends, blanks = columns
    longest = min(max(int(characters.max(initial=0)), 1), _MOST_ROWS)
    stride = (mask_words(vocabulary.size) + 15) // 16 * 16
    rows, ready = np.zeros((longest + 2, stride), np.int32), np.zeros(longest + 2, np.uint8)
    inside = np.packbits(ends == _INSIDE, bitorder="little")
    rows[-1].view(np.uint8)[: len(inside)] = inside
    ready[-1] = 1
    lengths = vocabulary.byte_lengths
    blank = np.flatnonzero((blanks == lengths) & (lengths > 0)).astype(np.int32)
    behind = _structural(data, starts, blanks, lengths)
    run_of, runs, run_offsets = _runs(vocabulary, blanks, np.union1d(behind, blank))
    return JsonTokens(
        trie,
        trie.without(cuts >= 0),
        _tails(data, starts, ends, np.flatnonzero(ends >= 0)),
        _tails(data, starts, blanks, behind),
        characters,
        rows,
        ready,
        run_of,
        runs,
        run_offsets,
        blank,
    )


def _tails(
    data: NDArray[np.uint8], starts: NDArray[np.int64], cuts: NDArray[np.int32], ids: NDArray[Any]
) -> TokenTrie:
    """Return the trie of what tokens have from a place in each on."""
    firsts, offsets = starts[ids] + cuts[ids], np.zeros(len(ids) + 1, np.int64)
    np.cumsum(starts[ids + 1] - firsts, out=offsets[1:])
    texts = np.empty(int(offsets[-1]), np.uint8)
    _copy(data, firsts, offsets, texts)
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
    offsets = np.zeros(len(known) + 1, np.int64)
    np.cumsum([len(run) for run in known], out=offsets[1:])
    return run_of, np.frombuffer(b"".join(known) or b"\0", np.uint8), offsets


@inner
def _escaped(escape: int, unit: int, byte: int, few: bool) -> tuple[int, int]:
    """Return how far an escape is spelled after a byte, -1 where that is none, and its unit so far.

    0 none, 1 a backslash, 2 to 5 before a digit of a unit, 6 behind a high surrogate, 7 and a
    backslash, 8 to 11 before a digit of the low one.
    """
    if escape == 1:
        if byte == 0x75:
            return 2, 0
        if byte == 0x2F:
            return -1 if few else 0, 0
        return 0 if byte in (0x22, 0x5C, 0x62, 0x66, 0x6E, 0x72, 0x74) else -1, 0
    if escape == 6 or escape == 7:
        return escape + 1 if byte == (0x5C if escape == 6 else 0x75) else -1, 0
    digit = -1
    if 0x30 <= byte <= 0x39:
        digit = byte - 0x30
    elif 0x61 <= (byte | 0x20) <= 0x66:
        digit = (byte | 0x20) - 0x57
    unit = unit << 4 | digit
    read = escape - 1 if escape < 6 else escape - 7
    is_low = 0xDC00 <= unit << 4 * (4 - read) <= 0xDFFF
    if digit < 0 or (escape >= 8 and read == 1 and digit != 0xD):
        return -1, unit
    if read >= 2 and (is_low if escape < 6 else not is_low):
        return -1, unit
    # All that the digits can become needs no escape.
    left = 4 * (4 - read)
    if few and escape < 6 and unit << left >= 0x20 and (unit + 1) << left <= 0x7F:
        return -1, unit
    if escape == 5:
        return 6 if 0xD800 <= unit <= 0xDBFF else 0, unit
    return 0 if escape == 11 else escape + 1, unit


@kernel
def _classify(
    data: Any, starts: Any, few: bool, characters: Any, cuts: Any, ends: Any, blanks: Any
) -> None:
    """Write of each token what ``JsonTokens`` needs to know.

    Args:
        data: Bytes of all tokens. starts: int64[T + 1].
        few: Whether printable ASCII that needs no escape has none.
        characters: int32[T] as there.
        cuts: Where its first quote or backslash is, if that stands behind content; else -1.
        ends: Where the string ends in it; _INSIDE where it stays within, else -1.
        blanks: How much whitespace it begins with.
    """
    for token in range(len(characters)):
        first, last = starts[token], starts[token + 1]
        characters[token], cuts[token], ends[token], blanks[token] = -1, -1, -1, 0
        at = first
        while at < last and (data[at] == 0x20 or data[at] == 0x09 or data[at] in (0x0A, 0x0D)):
            at += 1
        blanks[token] = at - first
        begun, more, low, high = 0, 0, 0x80, 0xBF
        escape, unit = 0, 0
        at = first
        while at < last:
            byte = data[at]
            if more > 0:
                if byte < low or byte > high:
                    break
                more, low, high = more - 1, 0x80, 0xBF
            elif escape > 0:
                escape, unit = _escaped(escape, unit, byte, few)
                if escape < 0:
                    break
            elif byte == 0x22 or byte == 0x5C:
                if cuts[token] < 0:
                    cuts[token] = at - first
                if byte == 0x22:
                    ends[token] = at - first
                    break
                escape = 1
            elif byte < 0x20 or (0x80 <= byte < 0xC2) or byte > 0xF4:
                break
            else:
                begun += 1
                more = (byte >= 0xC2) + (byte >= 0xE0) + (byte >= 0xF0)
                low = 0xA0 if byte == 0xE0 else (0x90 if byte == 0xF0 else 0x80)
                high = 0x9F if byte == 0xED else (0x8F if byte == 0xF4 else 0xBF)
            at += 1
        if at == last and last > first:
            ends[token] = _INSIDE
            if cuts[token] < 0:
                characters[token] = begun


@kernel
def _copy(data: Any, firsts: Any, offsets: Any, out: Any) -> None:
    """Write the texts that begin at ``firsts`` one after another."""
    for i in range(len(firsts)):
        for at in range(offsets[i], offsets[i + 1]):
            out[at] = data[firsts[i] + at - offsets[i]]
