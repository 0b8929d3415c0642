"""Rounds: candidates of records whose draws learn from each other through their prefix tree.

A round reads the tree as it was at the round's start; what its candidates saw enters at its end.
So a record's results depend on the size of its rounds, which is recorded, and on nothing else
(design, ARCHITECTURE section 4). Candidate t of a record uses the numbers of candidate t of its
first draw's seed (``randomness``), those of earlier runs on the same tree counted as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.learning.descent import Descent
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, TrajectoryBuffer
from cdec.samplers.walks.decoding import Chooser, Stepping, walk_on
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.frontier import Step
from cdec.samplers.walks.randomness import CandidateUniforms

if TYPE_CHECKING:
    from cdec.samplers.drafts.base import Draft


@dataclass(frozen=True, slots=True)
class Round:
    """The candidates of one round of one record, n of them.

    Attributes:
        request: Number of the request.
        first: Number of the first candidate in this run; the others follow.
        candidates: ``log_x`` is log of c(root) * prod Z over the prefixes that the tree did not
            hold, unbiased for P(S); while aborting, log c(root) of those that ended.
        log_root: log c(root) at the round's start.
        tests: float64[n] uniforms of the acceptance tests.
        log_truncated: float64[n] log of each candidate's unbiased estimate of the mass beyond the
            length limit: what the tree knew, plus what the candidate found.
    """

    request: int
    first: int
    candidates: Candidates
    log_root: float
    tests: NDArray[np.float64]
    log_truncated: NDArray[np.float64]

    def slim(self) -> Round:
        """Return this round without the tokens."""
        none = np.zeros((len(self.tests), 0), np.int32)
        return replace(self, candidates=replace(self.candidates, tokens=none))

    @property
    def passed(self) -> NDArray[np.bool_]:
        """True where one is accepted as a draw of Q: with probability x / c(root), bool[n]."""
        with np.errstate(invalid="ignore"):
            ratio = np.exp(self.candidates.log_x - self.log_root)
        passed: NDArray[np.bool_] = self.candidates.is_complete & (self.tests < ratio)
        return passed


class SavedTree(Protocol):
    """A place where the tree of one record is kept between runs (``saved.TreeFile``)."""

    def load(self, batch: Batch) -> int:
        """Enter the tree into a batch of one record; return how many candidates grew it."""

    def save(self, batch: Batch, candidates: int, round_size: int) -> None:
        """Keep the tree of a batch, grown by so many candidates of all runs."""


class Rounds:
    """Draws rounds for the constrained requests of a batch.

    Args:
        batch: The open requests; its tree is walked and grown.
        size: Most candidates of a round.
        max_walks: Candidates that decode together; a round is never split.
        tree_cache: Budget of the tree's vectors.
        aborting: Draw unmasked where the tree knows nothing, and give up at the first event that is
            not allowed (constrained adaptive rejection sampling).
        file: Holds the tree of the batch's one record; None begins with nothing known.
        draft: Proposes the tokens of candidates beyond what the tree knows; None for none.

    Attributes:
        drawn: int64[R] candidates of each request so far. aborting: As given; may be changed.
        before: int64[R] candidates that earlier runs drew for the tree of ``file``.

    Raises:
        CdecError: What ``file`` holds cannot be used, or the batch has several records.
    """

    def __init__(
        self,
        batch: Batch,
        *,
        size: int,
        max_walks: int,
        tree_cache: int,
        aborting: bool = False,
        file: SavedTree | None = None,
        draft: Draft | None = None,
    ) -> None:
        self._draft = draft
        self.size = size
        self.drawn = np.zeros(len(batch.requests), np.int64)
        self._batch = batch
        self._max_walks = max_walks
        self.aborting = aborting
        self._descent = Descent(batch, tree_cache)
        first = np.searchsorted(batch.draw_request, np.arange(len(batch.requests)))
        self._first_draw = first
        self._file = file
        self.before = np.zeros(len(batch.requests), np.int64)
        if file is not None:
            self.before[:] = file.load(batch)

    def save(self) -> None:
        """Keep the tree in its file, if it has one."""
        if self._file is not None:
            self._file.save(self._batch, int(self.before[0] + self.drawn[0]), self.size)

    def draw(self, requests: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[Round]:
        """Draw one round of each request and let the trees learn from it.

        Args:
            requests: int64[n] distinct, constrained. counts: int64[n] candidates, at most ``size``.
        """
        begin = 0
        while begin < len(requests):
            taken = np.searchsorted(np.cumsum(counts[begin:]), self._max_walks, side="right")
            end = begin + max(1, int(taken))
            yield from self._together(requests[begin:end], counts[begin:end])
            begin = end

    def log_root(self, request: int) -> float:
        """Return log c(root) of a request."""
        return self._batch.tree.log_upper(int(self._batch.roots[request]))

    def seed(self, request: int) -> int:
        """Return the seed that all candidates of a request come from."""
        return self._batch.seeds[int(self._first_draw[request])]

    def _together(self, requests: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[Round]:
        batch, tree = self._batch, self._batch.tree
        request = np.repeat(requests, counts)
        starts = np.cumsum(counts) - counts
        number = self.drawn[request] + np.arange(len(request)) - np.repeat(starts, counts)
        longest = int(batch.limits[requests].max(initial=0))
        seeds = [self.seed(r) for r in request.tolist()]
        uniforms = CandidateUniforms(seeds, self.before[request] + number, longest + 1)
        tests = uniforms.acceptance()
        log_roots = np.array([self.log_root(r) for r in requests.tolist()])
        known_truncated = tree.log_truncated[requests].copy()
        buffer = TrajectoryBuffer(len(request), loops=batch.loop_watch(request))
        buffer.log_x[:] = np.repeat(log_roots, counts)
        alive, frontier = self._descent.start(buffer, request, number, uniforms)
        if self._draft is not None:
            # Walks with a draft are not in step, but draws do not depend on it.
            with tree.linked_in_order():
                self._draft.learn_on(buffer, alive, frontier, uniforms)
        else:
            # A walk that may be given up is not sure to follow a forced run.
            choose = self._chooser(uniforms)
            how = Stepping(look_ahead=not self.aborting)
            walk_on(buffer, alive, frontier, choose, how)
        self._descent.settle()
        tree.update()
        self.drawn[requests] += counts
        everything = buffer.candidates()
        for i, r in enumerate(requests.tolist()):
            rows = starts[i] + np.arange(counts[i])
            mine = everything.take(rows)
            yield Round(
                request=r,
                first=int(number[starts[i]]),
                candidates=mine,
                log_root=float(log_roots[i]),
                tests=tests[rows],
                log_truncated=np.logaddexp(known_truncated[i], mine.log_truncated),
            )

    def _chooser(self, uniforms: CandidateUniforms) -> Chooser:
        def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
            numbers = uniforms.at(step.depth, alive)
            chosen = events.sample(step, numbers, aborting=self.aborting, residual=True)
            if not self.aborting:
                return chosen
            # Aborting is the acceptance test: nothing is left to weigh.
            return replace(chosen, log_z=np.where(chosen.log_z > -np.inf, 0.0, -np.inf))

        return choose
