"""Candidates: finished walks as columns, and how they are collected while walking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.core.sample import FINISH_COMPLETE, FINISH_DEAD_END, FINISH_LENGTH, FINISH_LOOP

if TYPE_CHECKING:
    from cdec.samplers.loops import LoopWatch
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents

Grown: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""int64[n] tokens, and int64[n] which token of its text each is."""
Told: TypeAlias = "Callable[[Batch, NDArray[np.int64], NDArray[np.int64], Grown], None]"
"""Takes what draws (int64[n] request, int64[n] position there) grew by, once that is decided."""
COMPLETE, LENGTH, LOOP, STUCK = 0, 1, 2, 3
FINISH_REASONS = (FINISH_COMPLETE, FINISH_LENGTH, FINISH_LOOP, FINISH_DEAD_END)
"""By code: COMPLETE, LENGTH, LOOP, STUCK."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """W finished walks.

    Attributes:
        tokens: int32[W, L] drawn tokens, end event left out; lengths: int64[W] how many count.
        log_p: float64[W] log P of tokens and end event under the model.
        log_x: float64[W] log of the weight: the sum of log Z along the path, and of log q / pi
            where an event came from another law pi than the masked target q; -inf where the walk
            found no end.
        log_kept: float64[W] sum of log(1 - missed) along the path; 0 under full masks.
        finish: int64[W] COMPLETE, LENGTH, LOOP or STUCK.
        is_text: bool[W] whether the tokens are a member's by the constraint's states; True for
            every complete walk that a mask led.
        last: int64[W] the last context, which with the request identifies a complete text.
        log_truncated: float64[W] log of the weight of what the length limit cut off along the path.
    """

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_x: NDArray[np.float64]
    log_kept: NDArray[np.float64]
    finish: NDArray[np.int64]
    is_text: NDArray[np.bool_]
    last: NDArray[np.int64]
    log_truncated: NDArray[np.float64]

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """True at walks that ended as texts, bool[W]."""
        complete: NDArray[np.bool_] = self.finish == COMPLETE
        return complete

    @property
    def events(self) -> NDArray[np.int64]:
        """Tokens of each walk, the end event of complete ones counted, int64[W]."""
        return self.lengths + self.is_complete

    def take(self, rows: NDArray[np.int64]) -> Candidates:
        """Return the given rows."""
        return Candidates(*(getattr(self, column.name)[rows] for column in fields(self)))

    def replaced(self, rows: NDArray[np.int64], others: Candidates) -> Candidates:
        """Return these candidates with ``rows`` (int64[n]) replaced by the n of ``others``."""
        if not rows.size:
            return self
        place = np.arange(len(self.lengths))
        place[rows] = len(place) + np.arange(len(rows))
        return concatenate([self, others]).take(place)


def concatenate(parts: Sequence[Candidates]) -> Candidates:
    """Join candidates, padding tokens to the longest."""
    if not parts:
        return TrajectoryBuffer(0).candidates()
    width = max(part.tokens.shape[1] for part in parts)
    tokens = [
        part.tokens
        if part.tokens.shape[1] == width
        else np.pad(part.tokens, ((0, 0), (0, width - part.tokens.shape[1])))
        for part in parts
    ]
    columns = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts])
        for column in fields(Candidates)
        if column.name != "tokens"
    }
    return Candidates(tokens=np.concatenate(tokens), **columns)


def listener(
    batch: Batch, request: NDArray[np.int64], draw: NDArray[np.int64]
) -> Callable[[NDArray[np.int64], Grown], None] | None:
    """Return what takes the tokens of walks that are the draws' own; None where nobody asks.

    Args:
        batch: The open requests.
        request: int64[W] of each walk. draw: int64[W] its draw's position there.
    """
    told = batch.told
    if told is None:
        return None
    return lambda walks, grown: told(batch, request[walks], draw[walks], grown)


class TrajectoryBuffer:
    """Candidates in the making: W walks of which some are still going.

    Attributes:
        log_p, log_x, log_kept: float64[W], to be added to.
        has_floor: Whether walks may be given up.

    Args:
        n: W.
        log_floor: float64[W] walks whose ``log_x`` has come down to it are given up, since it never
            rises again; None gives up none.
        loops: Sees whether the W walks loop; None where nobody asks.
        told: Told of walks (int64[n]) and what they grew by; None where nobody asks.
    """

    def __init__(
        self,
        n: int,
        log_floor: NDArray[np.float64] | None = None,
        loops: LoopWatch | None = None,
        told: Callable[[NDArray[np.int64], Grown], None] | None = None,
    ) -> None:
        self.log_p = np.zeros(n)
        self.log_x = np.zeros(n)
        self.log_kept = np.zeros(n)
        self._log_truncated = np.full(n, -np.inf)
        self._tokens = np.zeros((n, 8), np.int32)
        self._lengths = np.zeros(n, np.int64)
        self._finish = np.full(n, STUCK, np.int64)
        self._last = np.full(n, -1, np.int64)
        self._is_text = np.zeros(n, np.bool_)
        self._log_floor = np.full(n, -np.inf) if log_floor is None else log_floor
        self.has_floor = log_floor is not None
        self._loops = loops
        self._told = told

    @property
    def watches_loops(self) -> bool:
        """Whether walks may be ended for a loop."""
        return self._loops is not None

    def is_hopeless(self, walks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which of ``walks`` (int64[n]) weigh too little to be carried on, bool[n]."""
        floor = self._log_floor[walks]
        hopeless: NDArray[np.bool_] = (self.log_x[walks] <= floor) & (floor > -np.inf)
        return hopeless

    def add(self, walks: NDArray[np.int64], node: NDArray[np.int64], chosen: SampledEvents) -> None:
        """Add the events that ``walks`` drew, where any was drawn.

        Args:
            walks: int64[n]. node: int64[n] where each stands.
            chosen: The events of n walks.
        """
        at, *columns = chosen.weighed(node)
        library.walks_add(walks, at, tuple(columns), (self.log_p, self.log_x, self.log_kept))

    def append(
        self, walks: NDArray[np.int64], tokens: NDArray[np.int64], depth: NDArray[np.int64]
    ) -> None:
        """Write token number ``depth`` (int64[n]) of each of ``walks`` (int64[n])."""
        deepest = int(depth.max(initial=-1))
        if deepest >= self._tokens.shape[1]:
            self._tokens = np.pad(self._tokens, ((0, 0), (0, deepest)))
        self._tokens[walks, depth] = tokens
        self._lengths[walks] = depth + 1
        if self._loops is not None:
            self._loops.append(walks, tokens)
        if self._told is not None:
            self._told(walks, (tokens, depth))

    def looping(self, walks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of ``walks`` (int64[n]) are to be ended for a loop, int64[m] positions."""
        if self._loops is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self._loops.is_looping(walks))

    def inherit(self, slots: NDArray[np.int64], ancestors: NDArray[np.int64]) -> None:
        """Put copies of the walks ``ancestors`` (int64[n]) in the places ``slots`` (int64[n])."""
        # Every array of a recorder has one value, or row, a walk.
        for column in vars(self).values():
            if isinstance(column, np.ndarray):
                column[slots] = column[ancestors]
        if self._loops is not None:
            self._loops.inherit(slots, ancestors)

    def overrun(
        self, walks: NDArray[np.int64], log_truncated: NDArray[np.float64] | float = 0.0
    ) -> None:
        """Note that the length limit cuts off a share of the mass where ``walks`` stand.

        Args:
            walks: int64[n]. log_truncated: float64[n] log of the share; -inf for none.
        """
        found = self.log_x[walks] + log_truncated
        self._log_truncated[walks] = np.logaddexp(self._log_truncated[walks], found)

    def finish(
        self,
        walks: NDArray[np.int64],
        reason: int,
        context: NDArray[np.int64],
        is_text: NDArray[np.bool_] | bool = False,
    ) -> None:
        """End ``walks`` at ``context`` (int64[n]); a walk that found no end has weight 0."""
        if not walks.size:
            return
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
            log_truncated=self._log_truncated,
        )
