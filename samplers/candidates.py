"""Candidates: finished walks as columns, and how they are collected while walking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.core.sample import FINISH_COMPLETE, FINISH_DEAD_END, FINISH_LENGTH

COMPLETE, LENGTH, STUCK = 0, 1, 2
FINISH_REASONS = (FINISH_COMPLETE, FINISH_LENGTH, FINISH_DEAD_END)
"""By code: COMPLETE, LENGTH, STUCK."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """W finished walks.

    Attributes:
        tokens: int32[W, L] drawn tokens, end event left out; lengths: int64[W] how many count.
        log_p: float64[W] log P of tokens and end event under the model.
        log_x: float64[W] sum of log Z along the path; -inf where the walk found no end.
        log_kept: float64[W] sum of log(1 - missed) along the path; 0 under full masks.
        finish: int64[W] COMPLETE, LENGTH or STUCK.
        is_text: bool[W] whether the tokens are a member's by the constraint's states; True for
            every complete walk that a mask led.
        last: int64[W] the last context, which with the request identifies a complete text.
    """

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_x: NDArray[np.float64]
    log_kept: NDArray[np.float64]
    finish: NDArray[np.int64]
    is_text: NDArray[np.bool_]
    last: NDArray[np.int64]

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """Which walks ended as texts, bool[W]."""
        complete: NDArray[np.bool_] = self.finish == COMPLETE
        return complete

    def take(self, rows: NDArray[np.int64]) -> Candidates:
        """Return the given rows."""
        return Candidates(
            tokens=self.tokens[rows],
            lengths=self.lengths[rows],
            log_p=self.log_p[rows],
            log_x=self.log_x[rows],
            log_kept=self.log_kept[rows],
            finish=self.finish[rows],
            is_text=self.is_text[rows],
            last=self.last[rows],
        )

    def replaced(self, rows: NDArray[np.int64], others: Candidates) -> Candidates:
        """Return these candidates with ``rows`` (int64[n]) replaced by the n of ``others``."""
        if not rows.size:
            return self
        place = np.arange(len(self.lengths))
        place[rows] = len(place) + np.arange(len(rows))
        return concatenate([self, others]).take(place)


def concatenate(parts: Sequence[Candidates]) -> Candidates:
    """Join candidates, padding tokens to the longest."""
    width = max((part.tokens.shape[1] for part in parts), default=0)
    tokens = [np.pad(p.tokens, ((0, 0), (0, width - p.tokens.shape[1]))) for p in parts]
    floats = [
        np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0)])
        for name in ("log_p", "log_x", "log_kept")
    ]
    integers = [
        np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0, np.int64)])
        for name in ("lengths", "finish", "last", "is_text")
    ]
    return Candidates(
        tokens=np.concatenate(tokens or [np.zeros((0, 0), np.int32)]),
        lengths=integers[0],
        log_p=floats[0],
        log_x=floats[1],
        log_kept=floats[2],
        finish=integers[1],
        is_text=integers[3].astype(np.bool_),
        last=integers[2],
    )


class Recorder:
    """Candidates in the making: W walks of which some are still going.

    Attributes:
        log_p, log_x, log_kept: float64[W], to be added to.
    """

    def __init__(self, n: int) -> None:
        self.log_p = np.zeros(n)
        self.log_x = np.zeros(n)
        self.log_kept = np.zeros(n)
        self._tokens = np.zeros((n, 8), np.int32)
        self._lengths = np.zeros(n, np.int64)
        self._finish = np.full(n, STUCK, np.int64)
        self._last = np.full(n, -1, np.int64)
        self._is_text = np.zeros(n, np.bool_)

    def append(
        self, walks: NDArray[np.int64], tokens: NDArray[np.int64], depth: NDArray[np.int64]
    ) -> None:
        """Write token number ``depth`` (int64[n]) of each of ``walks`` (int64[n])."""
        deepest = int(depth.max(initial=-1))
        if deepest >= self._tokens.shape[1]:
            self._tokens = np.pad(self._tokens, ((0, 0), (0, deepest)))
        self._tokens[walks, depth] = tokens
        self._lengths[walks] = depth + 1

    def finish(
        self,
        walks: NDArray[np.int64],
        reason: int,
        context: NDArray[np.int64],
        is_text: NDArray[np.bool_] | bool = False,
    ) -> None:
        """End ``walks`` at ``context`` (int64[n]); a walk that found no end has weight 0."""
        self._is_text[walks] = is_text
        self._finish[walks] = reason
        self._last[walks] = context
        if reason != COMPLETE:
            self.log_x[walks] = -np.inf

    def candidates(self) -> Candidates:
        """Return all walks, each finished by now."""
        longest = int(self._lengths.max(initial=0))
        return Candidates(
            tokens=self._tokens[:, :longest],
            lengths=self._lengths,
            log_p=self.log_p,
            log_x=self.log_x,
            log_kept=self.log_kept,
            finish=self._finish,
            is_text=self._is_text,
            last=self._last,
        )
