"""Best segmentations of a text that grows: which pieces a Unigram model writes, piece by piece.

A Unigram model writes the pieces of the highest sum of scores (Viterbi). The best way to each place
of a text depends on what stands before it alone, so a row of pieces is what the model writes
exactly if each piece is the last one of the best way to its end. What counts of a text is the score
of the best way to its end, and which beginnings of longer pieces stand there, with the scores of
the best ways to where they begin.

Sums are made in the library's order, in double precision: of two ways of equal sums the one whose
last piece begins first is the best. How they are rounded depends on all that stands before, back to
where the text was split; so no state comes again but at the same place of a word.

Source: T. Kudo, "Subword Regularization" (2018), section 3.1; the order of the library's
``Unigram::encode_optimized``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import offsets_of
from cdec.core.native import library
from cdec.core.recent import Recent

_KEPT = 1 << 12
"""Beginnings of which is kept what completes them."""
_Completing: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"


class Segmented(NamedTuple):
    """What counts of a text that is cut into pieces.

    Attributes:
        score: Of the best way to its end.
        pending: Beginnings of longer pieces at its end, the longest first, and the scores of the
            best ways to where they begin.
    """

    score: float = 0.0
    pending: tuple[tuple[str, float], ...] = ()


class Pieces:
    """The pieces of a Unigram model.

    Args:
        scores: By text.
        unknown: Score of a character that is no piece.

    Attributes:
        nodes: Numbers of all texts that begin pieces, from 1 on, ascending by length; 0 is none.
    """

    def __init__(self, scores: Mapping[str, float], unknown: float) -> None:
        self.scores, self.unknown = scores, unknown
        self._longer = {text[:n] for text in scores for n in range(1, len(text))}
        texts = sorted(self._longer | scores.keys(), key=lambda text: (len(text), text))
        self.nodes = {"": 0} | {text: number for number, text in enumerate(texts, 1)}
        self._sorted = sorted(scores)
        self._completing: Recent[_Completing] = Recent(_KEPT)
        own = [scores.get(text, -np.inf) for text in self.nodes]
        self._own: NDArray[np.float64] = np.array(own, np.float64)
        self._sources, self._last_scores, self._offsets = self._read_ways()

    def step(self, at: Segmented, char: str) -> tuple[Segmented, int]:
        """Return what counts after a character, and the length of the last piece of the best way.

        That is 0 where the character is unknown, and the best way takes it so.
        """
        scores, best, length = self.scores, -np.inf, -1
        pending = []
        for begun, score in (*at.pending, ("", at.score)):
            text = begun + char
            if text in scores and (length < 0 or scores[text] + score > best):
                best, length = scores[text] + score, len(text)
            if text in self._longer:
                pending.append((text, score))
        if char not in scores and (length < 0 or self.unknown + at.score > best):
            best, length = self.unknown + at.score, 0
        return Segmented(best, tuple(pending)), length

    def after(self, at: Segmented, piece: str) -> Segmented | None:
        """Return what counts after a piece; None where it is not the last of the best way."""
        length = -1
        for char in piece:
            at, length = self.step(at, char)
        return at if length == len(piece) else None

    def may_follow(self, at: Segmented) -> NDArray[np.bool_]:
        """Say of all nodes whether they are pieces that are written next, bool[nodes].

        Cost: some half millisecond for 32,000 pieces.
        """
        best, crossing = np.empty(len(self.nodes)), np.full(len(self.nodes), -np.inf)
        best[0] = at.score
        for begun, score in at.pending:
            nodes, scores = self._completed(begun)
            crossing[nodes] = np.maximum(crossing[nodes], scores + score)
        library.best_ways(self._sources, self._last_scores, self._offsets, crossing, best)
        own = self._own + at.score
        is_written: NDArray[np.bool_] = (own == best) & (own > crossing)
        is_written[0] = False
        return is_written

    def _completed(self, begun: str) -> _Completing:
        """Return the nodes that complete pieces behind a beginning, and these pieces' scores."""
        known = self._completing.find(begun)
        if known is None:
            nodes, scores, at = [], [], bisect_left(self._sorted, begun)
            while at < len(self._sorted) and self._sorted[at].startswith(begun):
                node = self.nodes.get(self._sorted[at][len(begun) :], 0)
                if node:
                    nodes.append(node)
                    scores.append(self.scores[self._sorted[at]])
                at += 1
            known = np.array(nodes, np.int64), np.array(scores, np.float64)
            self._completing.put(begun, known)
        return known

    def _read_ways(self) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
        """Return the nodes before the last pieces of each node, these pieces' scores, offsets."""
        sources: list[int] = []
        scores: list[float] = []
        counts: list[int] = []
        for text in self.nodes:
            before = len(sources)
            for begin in range(len(text)):
                score = self.scores.get(text[begin:])
                if score is None and begin == len(text) - 1:
                    score = self.unknown
                if score is not None:
                    sources.append(self.nodes[text[:begin]])
                    scores.append(score)
            counts.append(len(sources) - before)
        return np.array(sources, np.int32), np.array(scores, np.float64), offsets_of(counts)
