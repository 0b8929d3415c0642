"""DISC: masked candidates accepted with probability x, importance resampling after K rejections.

Paper: arXiv 2504.09135, Algorithm 1, with these deviations (design, ALGORITHMS section 3): a
candidate goes on past members until its end event, whose probability enters x; dead ends count as
rejected candidates of weight 0; candidates are drawn in batches (1, then 1, 2, 4, ...) until one is
accepted, numbered by the draw's seed and tested in index order, which changes no law.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.options import DEFAULT_MAX_WALKS
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, draw_candidates
from cdec.samplers.walks.mass import MassAccumulator
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import CandidateUniforms, opening_uniforms, resample

SLACK = 1e-4
"""Nats: rounding moves the sum of a text's log Z by less."""
MOST_TOGETHER = DEFAULT_MAX_WALKS
"""Most candidates of one draw that decode together, each with as many walks as it has beams."""


class DiscSampler(Sampler):
    """Draws up to K masked candidates; the law tends to Q as K grows.

    Candidate i is accepted with probability x_i, the product of its step masses Z. If none of the K
    is, K fresh candidates are drawn and one of them taken with probability proportional to x.

    Args:
        K: K. About as many are drawn as it takes to accept one; where all are refused, memory
            grows with K, by some 300 bytes and 8 a token each.
        mass_draws: Candidates of each sample, the first ones, that are drawn whatever is accepted
            and from which alone the mass is estimated; the bracket is of all that was seen.
        recycle: Resample the K rejected candidates with weights x / (1 - x) instead of drawing K
            fresh ones: half the bias at equal cost.
        top_m: Verify the model's M most probable tokens only (PPV); weights then refer to the texts
            reachable that way, and ``missed_mass`` is as in ``MaskedSampler``.
        beams: Make each candidate the best text of a beam search of this width whose first step
            that has a choice is drawn; a heuristic.
        draft: Proposes the candidates' tokens, the same law; with full masks only.
        max_walks: Candidates that decode together, unless one draw has more; those of a draw go in
            parts of ``MOST_TOGETHER``. Bounds memory, changes no result.
    """

    method: ClassVar[Method] = METHODS["disc"]
    K: int
    mass_draws: int
    recycle: bool
    top_m: int | None
    beams: int | None
    max_walks: int

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse a draft where masks are not full."""
        given = [name for name in ("top_m", "beams") if options[name] is not None]
        if given and options["draft"] is not None:
            raise UsageError(
                f"`draft` and `{given[0]}` were both given, and a draft is verified against full "
                "masks",
                hint="Leave one of them out.",
                option=given[0],
            )

    @property
    def exactness(self) -> str:
        """Heuristic where beams search, biased where only the top M tokens are verified."""
        if self.beams is not None:
            return "heuristic"
        return "asymptotic" if self.top_m is None else "biased"

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        unbiased = self.exactness == "asymptotic"
        masses = MassAccumulator(batch, unbiased=unbiased)
        is_unconstrained = batch.session_of[batch.draw_request] == UNCONSTRAINED
        order, parts = [], []
        for rows, choose, fixed in (
            (np.flatnonzero(~is_unconstrained), self._choose, self.mass_draws),
            (np.flatnonzero(is_unconstrained), self._sample_model, 1),
        ):
            for chunk in chunks(len(rows), self.max_walks // (fixed * (self.beams or 1))):
                order.append(rows[chunk])
                parts.append(choose(batch, masses, rows[chunk], draft))
        place = np.argsort(np.concatenate(order))
        chosen = concatenate([part.candidates for part in parts]).take(place)
        was_accepted = np.concatenate([part.accepted for part in parts])[place]
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        per_draw: dict[str, list[object]] = {
            "draws": np.concatenate([part.counts for part in parts])[place].tolist(),
            "accepted": was_accepted.tolist(),
        }
        if self.top_m is not None:
            per_draw["missed_mass"] = (-np.expm1(chosen.log_kept)).tolist()
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.where(was_accepted & chosen.is_complete & unbiased, 0.0, np.nan),
            log_candidate_weight=log_x,
            per_draw=per_draw,
            per_request=masses.fields(),
        )

    def _sample_model(
        self, batch: Batch, masses: MassAccumulator, draws: NDArray[np.int64], draft: Draft | None
    ) -> _Chosen:
        """Draw from the model itself: without a constraint x is 1, and the first one is taken."""
        drawn = self._drawn(batch, draws, (0, 1), draft).candidates
        masses.weigh(draws, drawn)
        return _Chosen(drawn, np.ones(len(draws), np.int64), np.ones(len(draws), np.bool_))

    def _choose(
        self, batch: Batch, masses: MassAccumulator, draws: NDArray[np.int64], draft: Draft | None
    ) -> _Chosen:
        """Draw candidates of constrained draws (int64[n]) in batches until one of each is accepted.

        Draws of which none is accepted yet go into the next batch, all together. The first
        ``mass_draws`` of each are drawn and weighed whatever happens: a mean over a number that
        chance has stopped would be biased.
        """
        counts = np.full(len(draws), self.K if self.recycle else 2 * self.K)
        open_ones = np.arange(len(draws))
        parts, rows = [], []
        refused: list[CandidateBatch] = []
        for first, size in batch_sizes(self.K, self.mass_draws, MOST_TOGETHER):
            tried = self._drawn(batch, draws[open_ones], (first, size), draft, is_test=True)
            if first == 0:
                masses.weigh(np.repeat(draws, size), tried.candidates)
            tried = tried.first(self.K - first)
            is_taken, best = tried.passed.any(axis=1), np.argmax(tried.passed, axis=1)
            taken, left = np.flatnonzero(is_taken), np.flatnonzero(~is_taken)
            parts.append(tried.candidates.take(taken * tried.size + best[taken]))
            rows.append(open_ones[taken])
            counts[open_ones[taken]] = first + best[taken] + 1
            open_ones = open_ones[left]
            if not open_ones.size:
                break
            if self.recycle:
                refused = [each.take(left) for each in (*refused, tried)]
        accepted = np.ones(len(draws), np.bool_)
        if open_ones.size:
            accepted[open_ones] = False
            parts.append(self._resampled(batch, draws[open_ones], refused, draft))
            rows.append(open_ones)
        chosen = concatenate(parts).take(np.argsort(np.concatenate(rows)))
        return _Chosen(chosen, counts, accepted)

    def _resampled(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        refused: list[CandidateBatch],
        draft: Draft | None,
    ) -> Candidates:
        """Take one of K candidates of each draw (int64[n]) by its weight, after K were refused."""
        picks = opening_uniforms([batch.seeds[d] for d in draws], 2 * self.K)
        if self.recycle:
            pool = joined(refused).candidates
            weights = pool.log_x.reshape(-1, self.K)
            # subtle: x = 1 cannot be rejected, so 1 - x is positive here.
            weights = weights - np.log(-np.expm1(weights))
        else:
            pool = self._drawn(batch, draws, (self.K, self.K), draft).candidates
            weights = pool.log_x.reshape(-1, self.K)
        return pool.take(np.arange(len(draws)) * self.K + resample(weights, picks))

    def _drawn(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        numbers: tuple[int, int],
        draft: Draft | None,
        *,
        is_test: bool = False,
    ) -> CandidateBatch:
        """Draw the same candidates of every draw.

        They decode in parts of a size that nobody sets, so nothing depends on it, not even how many
        calls of the target a draw with a draft takes; parts of many draws go in chunks.

        Args:
            draws: int64[n]. numbers: The first candidate's number, and how many.
            is_test: Whether they only matter if they are accepted, but for the fixed first ones and
                those that are recycled: then each is given up when its weight, which only falls,
                has come below the number of its acceptance test; with a draft between its rounds,
                with beams when all of them have.
        """
        start, size = numbers
        beams = self.beams or 1
        gives_up = is_test and start > 0 and not self.recycle
        parts = []
        for some in chunks(size, MOST_TOGETHER // beams):
            chunk, tests = [], []
            for rows in chunks(len(draws), self.max_walks // (len(some) * beams)):
                uniforms = candidate_uniforms(batch, draws[rows], len(some), start + int(some[0]))
                tests.append(uniforms.acceptance())
                floor = log_below(tests[-1]) if gives_up else None
                chunk.append(self._candidates(batch, draws[rows], uniforms, draft, floor))
            parts.append(
                CandidateBatch(concatenate(chunk), np.concatenate(tests).reshape(-1, len(some)))
            )
        return joined(parts)

    def _candidates(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        uniforms: CandidateUniforms,
        draft: Draft | None,
        log_floor: NDArray[np.float64] | None = None,
    ) -> Candidates:
        if draft is not None:
            return draft.draw_candidates(batch, draws, uniforms, log_floor)
        if self.beams is None:
            return draw_candidates(batch, draws, uniforms, self.top_m, log_floor)
        walks = np.repeat(draws, len(uniforms) // len(draws))
        from cdec.samplers.search.beam_search import Ranking, beam_search

        return beam_search(
            batch,
            batch.draw_request[walks],
            batch.draw_index[walks],
            Ranking(self.beams, log_floor=log_floor),
            uniforms=uniforms,
            top_m=self.top_m,
        )


@dataclass(frozen=True, slots=True)
class CandidateBatch:
    """Candidates of n draws, equally many of each, those of one adjacent.

    Attributes:
        candidates: n * size of them.
        tests: float64[n, size] uniforms of their acceptance tests, passed by weights above them.
    """

    candidates: Candidates
    tests: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Candidates of a draw."""
        return int(self.tests.shape[1])

    @property
    def passed(self) -> NDArray[np.bool_]:
        """True where one is accepted, bool[n, size]."""
        x = np.exp(self.candidates.log_x).reshape(self.tests.shape)
        return np.asarray(self.tests < x)

    def first(self, size: int) -> CandidateBatch:
        """Return the first candidates of each draw, at most ``size``."""
        if size >= self.size:
            return self
        rows = np.arange(self.tests.size).reshape(self.tests.shape)[:, :size]
        return CandidateBatch(self.candidates.take(rows.reshape(-1)), self.tests[:, :size])

    def take(self, draws: NDArray[np.int64]) -> CandidateBatch:
        """Return the candidates of some of the draws."""
        rows = np.arange(self.tests.size).reshape(self.tests.shape)[draws]
        return CandidateBatch(self.candidates.take(rows.reshape(-1)), self.tests[draws])


def joined(parts: Sequence[CandidateBatch]) -> CandidateBatch:
    """Return the candidates of the same draws as one batch, those of a draw in the given order."""
    if len(parts) == 1:
        return parts[0]
    owners = [np.repeat(np.arange(len(part.tests)), part.size) for part in parts]
    order = np.argsort(np.concatenate(owners), kind="stable")
    candidates = concatenate([part.candidates for part in parts]).take(order)
    return CandidateBatch(candidates, np.concatenate([part.tests for part in parts], axis=1))


def log_below(tests: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logs of weights that surely fail acceptance tests, float64[n] each.

    A weight that sums up to more on another device than on this one is not given up for it.
    """
    with np.errstate(divide="ignore"):
        return np.log(tests) - SLACK


def batch_sizes(tries: int, fixed: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first number and the size of each batch of candidates, ``tries`` in all or more.

    The first batch has the ``fixed`` ones, whole; each other one as many as all before it together,
    at most ``most``: with 1 these are 1, 1, 2, 4, ... So fewer than twice as many are drawn as are
    needed, in about log2(tries) batches.
    """
    done, size = 0, fixed
    while done < tries:
        yield done, size
        done += size
        size = min(done, most, tries - done)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """n draws: one candidate of each, int64[n] how many there were up to it, bool[n] whether it was
    accepted."""

    candidates: Candidates
    counts: NDArray[np.int64]
    accepted: NDArray[np.bool_]
