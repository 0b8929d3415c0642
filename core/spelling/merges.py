"""Byte pair encoding between two tokens: which may stand side by side within a pre-token.

A row of tokens is what byte pair encoding writes for a pre-token exactly if it writes each token
for that token's own text, and each two neighbours for theirs: the first merge across a border would
be the same in the whole pre-token as in those two tokens alone, since until then what happens on
both sides does not depend on what lies beyond. (Merges go by rank, then from the left.)

For one left token all right ones are judged at once. The symbol at its end is the token itself once
it is made, its right part before, that one's right part before that; the symbol at the begin of a
right token is one of its left parts. A merge of two such symbols happens if its rank comes before
those that make their parents. Which right tokens a merge hits is a range where tokens stand below
their left parts. Source: for ranks that grow with the tokens, github.com/github/rust-gems (crate
``bpe``), ``is_valid_token_pair``; tokens whose ranks do not grow are merged out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import mask_words, offsets_of
from cdec.core.native import library
from cdec.core.recent import Recent

_ROW_BYTES = 64 << 20
"""Most bytes of rows that are kept: of 131,072 tokens some four thousand."""
_CHUNK = 1 << 16


class Merges:
    """The merges of a tokenizer, and the rows of what may follow each token.

    Args:
        pairs: Merges as pairs of tokens, by rank.
        vocab: Token -> id.
        words: Symbols of every token that is text, by id; empty for others. -1 is a character that
            no token stands for.
        width: Of masks.

    Attributes:
        is_made: bool[width] tokens that byte pair encoding writes for their own text.
    """

    def __init__(
        self,
        pairs: Sequence[Sequence[str]],
        vocab: Mapping[str, int],
        words: Sequence[Sequence[int]],
        width: int,
    ) -> None:
        self._pairs, self._ranks, self._made = _sorted_merges(pairs, vocab)
        self._starts = offsets_of([len(word) for word in words])
        self._symbols = np.array([s for word in words for s in word], np.int32)
        merged, lengths, last = self._merged(self._symbols, self._starts)
        ids = np.flatnonzero(np.diff(self._starts))
        made = ids[(lengths[ids] == 1) & (merged[self._starts[ids]] == ids)]
        self._width = width
        self.is_made: NDArray[np.bool_] = np.zeros(width, np.bool_)
        self.is_made[made] = True
        self._lefts, self._rights, self._made_at = (last[:, i].copy() for i in range(3))
        self._is_tangled = np.zeros(len(words), np.bool_)
        self._is_tangled[made] = last[made, 3] == 0
        self._tangled = np.flatnonzero(self._is_tangled)
        self._tree(made[~self._is_tangled[made]], self._lefts)
        self._rows: Recent[NDArray[np.int32]] = Recent(1 << 30, _ROW_BYTES)
        self._all = np.packbits(np.pad(self.is_made, (0, -width % 32)), bitorder="little").view(
            np.int32
        )

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return what ``cdec_spelling`` holds of merges, from ``pairs`` on."""
        return (
            *(self._pairs, self._ranks, self._made, self._lefts, self._rights, self._made_at),
            *(self.is_made, self._is_tangled, self._tangled.astype(np.int32)),
            *(self._starts, self._symbols, self._place, self._token, self._stop, self._rank),
        )

    def row(self, token: int) -> NDArray[np.int32]:
        """Return the mask of the tokens that may stand behind one in a pre-token, int32[words].

        Cost: of 131,072 tokens some 50 microseconds, once while it is kept.
        """
        found = self._rows.find(token)
        if found is None:
            found = self._row(token)
            self._rows.put(token, found, found.nbytes)
        return found

    def _row(self, token: int) -> NDArray[np.int32]:
        if token >= len(self._is_tangled) or not self.is_made[token]:
            return np.zeros(mask_words(self._width), np.int32)
        row = self._all.copy()
        if self._is_tangled[token]:
            rights = np.flatnonzero(self.is_made)
        else:
            spine = [token]
            while self._rights[spine[-1]] >= 0:
                spine.append(int(self._rights[spine[-1]]))
            ends = np.array(spine, np.int32)
            library.follow_row(
                self._pairs,
                self._ranks,
                ends,
                self._made_at[ends],
                self._place,
                self._token,
                self._stop,
                self._rank,
                row,
            )
            rights = self._tangled
        bad = rights[~self._stay_apart(token, rights)]
        bits = row.view(np.uint32)
        np.bitwise_and.at(bits, bad >> 5, ~(np.uint32(1) << (bad & 31).astype(np.uint32)))
        return row

    def _stay_apart(self, left: int, rights: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of tokens int64[n] whether each stays apart from a left one, by merging both out."""
        apart = np.zeros(len(rights), np.bool_)
        own = self._word(left)
        for at in range(0, len(rights), _CHUNK):
            part = rights[at : at + _CHUNK].tolist()
            words = [np.concatenate((own, self._word(right))) for right in part]
            starts = offsets_of([len(word) for word in words])
            merged, lengths, _ = self._merged(np.concatenate(words), starts)
            firsts = merged[starts[:-1]]
            seconds = merged[np.minimum(starts[:-1] + 1, len(merged) - 1)]
            apart[at : at + _CHUNK] = (lengths == 2) & (firsts == left) & (seconds == part)
        return apart

    def _word(self, token: int) -> NDArray[np.int32]:
        return self._symbols[self._starts[token] : self._starts[token + 1]]

    def _merged(
        self, symbols: NDArray[np.int32], starts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        out, n = symbols.copy(), len(starts) - 1
        lengths, last = np.empty(n, np.int32), np.empty((n, 4), np.int32)
        library.merge_words(self._pairs, self._ranks, self._made, out, starts, lengths, last)
        return out, lengths, last

    def _tree(self, tokens: NDArray[np.int64], lefts: NDArray[np.int32]) -> None:
        """Lay tokens out in pre-order below their left parts, children by falling ranks."""
        below: dict[int, list[int]] = {}
        order = tokens[np.argsort(self._made_at[tokens], kind="stable")].tolist()
        for token in order:
            below.setdefault(int(lefts[token]), []).append(token)
        open_tokens, laid = below.pop(-1, []), []
        while open_tokens:
            token = open_tokens.pop()
            laid.append(token)
            open_tokens += below.get(token, ())
        place = np.full(len(lefts), -1, np.int32)
        place[laid] = np.arange(len(laid))
        sizes = np.ones(len(laid), np.int64)
        parents = np.where(lefts[laid] < 0, -1, place[lefts[laid]]).tolist()
        for at in range(len(laid) - 1, -1, -1):
            if parents[at] >= 0:
                sizes[parents[at]] += sizes[at]
        self._place, self._token = place, np.array(laid, np.int32)
        self._stop = (np.arange(len(laid)) + sizes).astype(np.int32)
        self._rank = np.ascontiguousarray(self._made_at[self._token])


def _sorted_merges(
    pairs: Sequence[Sequence[str]], vocab: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return merges by their pairs, ascending: left << 32 | right, rank, what is made."""
    found: dict[int, tuple[int, int]] = {}
    for rank, (left, right) in enumerate(pairs):
        # Of a pair that stands twice, the library keeps the later one.
        found[vocab[left] << 32 | vocab[right]] = rank, vocab[left + right]
    keys = np.fromiter(found, np.int64, len(found))
    values = np.array(list(found.values()), np.int32).reshape(-1, 2)
    order = np.argsort(keys)
    ranks, made = (np.ascontiguousarray(column[order]) for column in values.T)
    return keys[order], ranks, made


def merge_pairs(model: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the merges of a model as pairs; files of older releases have ``"left right"``."""
    return [m.split(" ", 1) if isinstance(m, str) else m for m in model["merges"]]
