"""DISC: masked candidates accepted with probability x, importance resampling after K rejections.

Paper: arXiv 2504.09135, Algorithm 1, with these deviations (design, ALGORITHMS section 3): a
candidate goes on past members until its end event, whose probability enters x; dead ends count as
rejected candidates of weight 0; the K candidates are drawn as one batch and tested in index order,
which changes no law.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.options import DEFAULT_MAX_WALKS, Method
from cdec.samplers.registry import METHODS
from cdec.samplers.search.beam_search import beam_search
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import CandidateUniforms, single_uniform
from cdec.samplers.walks.selection import Tally, candidate_uniforms, chunks, draw_candidates

MOST_TOGETHER = DEFAULT_MAX_WALKS
"""Most candidates of one draw that decode together, each with as many walks as it has beams."""


class DiscSampler(Sampler):
    """Draws up to K masked candidates; the law tends to Q as K grows.

    Candidate i is accepted with probability x_i, the product of its step masses Z. If none of the K
    is, K fresh candidates are drawn and one of them taken with probability proportional to x.

    Args:
        K: K. All K are drawn for every sample, since the mass is estimated from all: time
            grows with K, and memory by some 300 bytes and 8 a token each.
        recycle: Resample the K rejected candidates with weights x / (1 - x) instead of drawing K
            fresh ones: half the bias at equal cost.
        top_m: Verify the model's M most probable tokens only (PPV); weights then refer to the texts
            reachable that way, and ``missed_mass`` is as in ``MaskedSampler``.
        beams: Make each candidate the best text of a beam search of this width whose first step
            that has a choice is drawn; a heuristic.
        draft: Proposes the candidates' tokens: fewer passes of the target, the same law; as in
            ``SpeculativeSampler``, which has ``gamma``, ``draft_temperature``, ``counts`` and
            ``cost_ratio`` too. With full masks only.
        max_walks: Candidates that decode together, unless one draw has more; those of a draw go in
            parts of ``MOST_TOGETHER``. Bounds memory, changes no result.

    Raises:
        UsageError: An option out of range.
    """

    method: ClassVar[Method] = METHODS["disc"]
    K: int
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
        tally = Tally(batch, unbiased=unbiased)
        is_free = batch.session_of[batch.draw_request] == FREE
        order, parts, counts, accepted = [], [], [], []
        # Without a constraint x is 1: the first candidate is always accepted.
        for rows, tries in (
            (np.flatnonzero(~is_free), self.K),
            (np.flatnonzero(is_free), 1),
        ):
            for chunk in chunks(len(rows), self.max_walks // (tries * (self.beams or 1))):
                chosen, drawn, taken = self._choose(batch, tally, rows[chunk], tries, draft)
                order.append(rows[chunk])
                parts.append(chosen)
                counts.append(drawn)
                accepted.append(taken)
        place = np.argsort(np.concatenate(order))
        chosen = concatenate(parts).take(place)
        was_accepted = np.concatenate(accepted)[place]
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        per_draw: dict[str, list[object]] = {
            "draws": np.concatenate(counts)[place].tolist(),
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
            per_request=tally.fields(),
        )

    def _choose(
        self,
        batch: Batch,
        tally: Tally,
        draws: NDArray[np.int64],
        tries: int,
        draft: Draft | None,
    ) -> tuple[Candidates, NDArray[np.int64], NDArray[np.bool_]]:
        """Return one candidate a draw, how many were drawn for it, and whether it was accepted."""
        first, numbers = self._drawn(batch, draws, tries, 0, draft)
        tests = numbers.reshape(-1, tries)
        owners = np.repeat(draws, tries)
        tally.weigh(owners, first)
        log_x = first.log_x.reshape(-1, tries)
        is_free = batch.session_of[batch.draw_request[draws]] == FREE
        passed = (tests < np.exp(log_x)) | is_free[:, None]
        accepted = passed.any(axis=1)
        best = np.argmax(passed, axis=1)
        counts = np.where(accepted, best + 1, tries if self.recycle else 2 * tries)
        chosen = first.take(np.arange(len(draws)) * tries + best)
        rejected = np.flatnonzero(~accepted)
        if not rejected.size:
            return chosen, counts, accepted
        picks = np.array([single_uniform(batch.seeds[d], 2 * tries) for d in draws[rejected]])
        if self.recycle:
            weights = log_x[rejected]
            # subtle: x = 1 cannot be rejected, so 1 - x is positive here.
            picked = resample(weights - np.log(-np.expm1(weights)), picks)
            taken = first.take(rejected * tries + picked)
        else:
            fresh, _ = self._drawn(batch, draws[rejected], tries, tries, draft)
            picked = resample(fresh.log_x.reshape(-1, tries), picks)
            taken = fresh.take(np.arange(len(rejected)) * tries + picked)
        return chosen.replaced(rejected, taken), counts, accepted

    def _drawn(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        tries: int,
        first: int,
        draft: Draft | None,
    ) -> tuple[Candidates, NDArray[np.float64]]:
        """Return candidates ``first..first+tries-1`` of each draw, and their tests' uniforms.

        All are drawn, whichever is accepted: the mass is their mean, and a mean over a number that
        chance has stopped would be biased. They decode in parts of a size that nobody sets, so
        nothing depends on it, not even how many calls of the target a draw with a draft takes.
        """
        parts, tests, owners = [], [], []
        for some in chunks(tries, MOST_TOGETHER // (self.beams or 1)):
            uniforms = candidate_uniforms(batch, draws, len(some), first + int(some[0]))
            tests.append(uniforms.acceptance())
            parts.append(self._candidates(batch, draws, uniforms, draft))
            owners.append(np.repeat(np.arange(len(draws)), len(some)))
        if len(parts) == 1:
            return parts[0], tests[0]
        # Those of one draw adjacent, as in each part.
        order = np.argsort(np.concatenate(owners), kind="stable")
        return concatenate(parts).take(order), np.concatenate(tests)[order]

    def _candidates(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        uniforms: CandidateUniforms,
        draft: Draft | None,
    ) -> Candidates:
        if draft is not None:
            return draft.draw_candidates(batch, draws, uniforms)
        if self.beams is None:
            return draw_candidates(batch, draws, uniforms, self.top_m)
        walks = np.repeat(draws, len(uniforms) // len(draws))
        return beam_search(
            batch,
            batch.draw_request[walks],
            batch.draw_index[walks],
            beams=self.beams,
            uniforms=uniforms,
            top_m=self.top_m,
        )


def resample(log_weights: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Take one of K with probability proportional to its weight, in each row.

    Args:
        log_weights: float64[n, K] natural logs; -inf is weight 0.
        uniforms: float64[n] in [0, 1).

    Returns:
        int64[n]; 0 where all weights are 0.
    """
    peak = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(peak == -np.inf, 0.0, peak))
    running = np.cumsum(weights, axis=1)
    below = (running <= (uniforms * running[:, -1])[:, None]).sum(axis=1)
    # Rounding must not push the choice past the last weight that is positive.
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.where(peak[:, 0] == -np.inf, 0, np.minimum(below, last))
