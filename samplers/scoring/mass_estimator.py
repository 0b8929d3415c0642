"""Estimation of the mass of a model that satisfies a constraint, with certified bounds.

Candidate t has x = c(root) * prod Z, as ASAp's proposal draws it (arXiv 2405.21047, section 3): its
mean, given all that was drawn before, is P(S). So a mean over a number of candidates fixed in
advance, with weights fixed in advance, is unbiased, although each round's proposal learns from the
rounds before. The first candidates know nothing and count least (``mass.rising``). Since x minus
P(S) is a martingale difference, the candidates are uncorrelated, and their squared deviations
estimate the mean's variance as those of independent ones do (``mass.estimate``). What they miss is
what the candidates never met: texts of high mass that the proposal hardly ever draws. The
certified bracket does not depend on luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError, UsageError
from cdec.core.options import Option
from cdec.samplers.learning.rounds import Rounds
from cdec.samplers.options import (
    DEFAULT_MAX_WALKS,
    DEFAULT_ROUND,
    DEFAULT_TREE_CACHE,
    MAX_WALKS,
    ROUND,
    TREE_CACHE,
    UNTIL_CONVERGED,
)
from cdec.samplers.prefix_tree import EVALUATED, IN_RUN
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.decoding import candidate_uniforms, draw_candidates
from cdec.samplers.walks.mass import distinct_ess, estimate, length_mass_upper, rising

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.samplers.learning.saved import TreeFile
    from cdec.samplers.request import Request

_Weights: TypeAlias = tuple[NDArray[Any], ...]
"""Of some candidates: log x, log of the weight that the length limit cut off, and their texts."""
DEFAULT_CANDIDATES = 256
CANDIDATES = Option(
    name="candidates", type=int, default=DEFAULT_CANDIDATES, unit="candidates", at_least=1
)


@dataclass(frozen=True, slots=True)
class Mass:
    """Estimate of P(S) of one record; logs are natural.

    Attributes:
        mass: The mean of x, or the certified bound that it lies beyond. None where the run stopped
            early: a stopped mean is biased. (So is, a little, the mean of those runs that could
            have stopped and did not: no width, where the estimate is what counts.)
        log_mass: Its log; None also where it is 0.
        log_mass_se, log_mass_reliable: Standard error of ``log_mass``, widened by what was not
            seen, and whether both may be relied on, as in ``walks.mass.estimate``.
        log_mass_unclipped: Log of the mean of x as it is; None where it is 0.
        log_mass_lower, log_mass_upper: Certified bounds; None stands for no mass.
        converged: Whether the bounds came as near to each other as was asked for; None if it was
            not.
        candidates: How many were drawn in this run.
        ess: Effective sample size of the candidates drawn, by text (``distinct_ess``).
        length_mass_upper: Estimated upper bound of the share of the valid mass beyond the length
            limit, of the same.
        target_calls, target_tokens, distinct_evaluations: What they cost, as in samples.
        seed: Of all candidates.
    """

    mass: float | None
    log_mass: float | None
    log_mass_se: float | None
    log_mass_reliable: bool | None
    log_mass_unclipped: float | None
    log_mass_lower: float | None
    log_mass_upper: float | None
    converged: bool | None
    candidates: int
    ess: float | None
    length_mass_upper: float | None
    target_calls: int
    target_tokens: int
    distinct_evaluations: int
    round: int
    seed: int

    def to_json(self) -> dict[str, object]:
        """Return the fields, JSON-ready, and the bounds as probabilities."""
        fields: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        bounds = {
            name: 0.0 if log is None else math.exp(log)
            for name, log in (
                ("mass_lower", self.log_mass_lower),
                ("mass_upper", self.log_mass_upper),
            )
        }
        return {"mass": fields.pop("mass"), **bounds, **fields}


class MassEstimator:
    """Estimates P(S) of records, all in lockstep.

    Args:
        candidates: How many are drawn for each record.
        until_converged: Stop a record earlier, after a round that leaves the certified bounds of
            log P(S) no further apart than this, in nats.
        round: Candidates that read the same tree; decides results.
        remember: Whether candidates learn from the rounds before them; if not, each is masked
            decoding, and all are independent.
        tree_cache: Bytes of the tree's vectors kept; changes no result.
        max_walks: Candidates that decode together; changes no result.
        tree: Keeps the tree of a single record between runs.

    Raises:
        UsageError: An option out of range, or a tree for candidates that do not remember.
    """

    def __init__(
        self,
        *,
        candidates: int = DEFAULT_CANDIDATES,
        until_converged: float | None = None,
        round: int = DEFAULT_ROUND,
        remember: bool = True,
        tree_cache: int = DEFAULT_TREE_CACHE,
        max_walks: int = DEFAULT_MAX_WALKS,
        tree: TreeFile | None = None,
    ) -> None:
        self.candidates = CANDIDATES.check(candidates)
        self.until_converged = UNTIL_CONVERGED.check(until_converged)
        self.round = ROUND.check(round)
        self.remember = bool(remember)
        self.tree_cache = TREE_CACHE.check(tree_cache)
        self.max_walks = MAX_WALKS.check(max_walks)
        self.tree = tree
        if tree is not None and not self.remember:
            raise UsageError(
                "a tree is kept for candidates that remember", hint="Leave out one of the two."
            )

    def run(self, model: LanguageModel, requests: Sequence[Request]) -> list[Mass | CdecError]:
        """Estimate the mass of each request's constraint.

        Args:
            model: Its vocabulary must be the constraints'.
            requests: Each with a constraint; of the seeds, the first one counts.

        Returns:
            For each request what was found, or the error it met. On a tabular model the results do
            not depend on what else is asked for.

        Raises:
            UsageError: Several requests, and a tree of one.
        """
        if self.tree is not None and len(requests) != 1:
            raise UsageError(
                f"a tree belongs to one record, and there are {len(requests)}",
                hint="Ask for one record at a time, each with a tree of its own.",
            )
        try:
            with Batch(model, requests) as batch:
                found = _Run(self, batch).masses()
                return [batch.errors.get(i) or found[i] for i in range(len(requests))]
        except CdecError as error:
            if len(requests) == 1:
                return [error]
            # One record failed while decoding and took the others with it: each alone, then.
            return [self.run(model, [request])[0] for request in requests]


class _Run:
    """The candidates of one batch."""

    def __init__(self, options: MassEstimator, batch: Batch) -> None:
        self._options = options
        self._batch = batch
        count = len(batch.requests)
        self._drawn = np.zeros(count, np.int64)
        self._before = np.zeros(len(batch.requests), np.int64)
        self._weights: list[list[_Weights]] = [[] for _ in range(count)]
        for i, request in enumerate(batch.requests):
            if i not in batch.errors and (
                batch.session_of[i] == UNCONSTRAINED or not request.seeds
            ):
                what = "constraint" if batch.session_of[i] == UNCONSTRAINED else "seed"
                batch.errors[i] = UsageError(f"a record has no {what}, and its mass was asked for")
        self._open = np.array([i for i in range(count) if i not in batch.errors], np.int64)
        self._first_draw = np.searchsorted(batch.draw_request, np.arange(count))

    def masses(self) -> dict[int, Mass]:
        """Draw all candidates; return the mass of each open request."""
        options, batch = self._options, self._batch
        if not self._open.size:
            return {}
        rounds = None
        if options.remember:
            rounds = Rounds(
                batch,
                size=options.round,
                max_walks=options.max_walks,
                tree_cache=options.tree_cache,
                file=options.tree,
            )
            self._before = rounds.before
        active = self._open
        while active.size:
            counts = np.minimum(options.round, options.candidates - self._drawn[active])
            if rounds is None:
                self._draw_masked(active, counts)
            else:
                for drawn in rounds.draw(active, counts):
                    found = drawn.candidates
                    self._weights[drawn.request].append(
                        (found.log_x, drawn.log_truncated, found.last)
                    )
            self._drawn[active] += counts
            going = [r for r in active.tolist() if not self._is_done(r)]
            active = np.array(going, np.int64)
        if rounds is not None:
            rounds.save()
        return {r: self._mass(r) for r in self._open.tolist()}

    def _draw_masked(self, active: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Draw the next candidates of each request without memory; all want the same number."""
        batch, number = self._batch, int(counts[0])
        at_once = max(1, self._options.max_walks // number)
        for begin in range(0, len(active), at_once):
            requests = active[begin : begin + at_once]
            draws = self._first_draw[requests]
            first = int(self._drawn[requests[0]])
            uniforms = candidate_uniforms(batch, draws, number, first)
            candidates = draw_candidates(batch, draws, uniforms)
            for i, r in enumerate(requests.tolist()):
                rows = slice(i * number, (i + 1) * number)
                columns = candidates.log_x, candidates.log_truncated, candidates.last
                self._weights[r].append(tuple(column[rows] for column in columns))

    def _is_done(self, request: int) -> bool:
        return self._drawn[request] >= self._options.candidates or bool(self._converged(request))

    def _converged(self, request: int) -> bool | None:
        wanted = self._options.until_converged
        root = int(self._batch.roots[request])
        return None if wanted is None else self._batch.tree.bounds(request, root).width <= wanted

    def _mass(self, request: int) -> Mass:
        batch = self._batch
        log_x, log_truncated, texts = (
            np.concatenate(part) for part in zip(*self._weights[request], strict=True)
        )
        weights = None
        if self._options.remember:
            weights = rising(len(log_x), int(self._before[request]))
        bracket = batch.tree.bounds(request, int(batch.roots[request]))
        bounds, found = bracket.fields(), estimate(log_x, bracket, weights)
        is_whole = self._drawn[request] == self._options.candidates
        estimated = 0.0 if found.log_mass is None else math.exp(found.log_mass)
        return Mass(
            mass=estimated if is_whole else None,
            log_mass=found.log_mass if is_whole else None,
            log_mass_se=found.log_mass_se if is_whole else None,
            log_mass_reliable=found.log_mass_reliable if is_whole else None,
            log_mass_unclipped=found.log_mass_unclipped if is_whole else None,
            log_mass_lower=bounds["log_mass_lower"],
            log_mass_upper=bounds["log_mass_upper"],
            converged=self._converged(request),
            candidates=int(self._drawn[request]),
            ess=distinct_ess(log_x, texts),
            length_mass_upper=length_mass_upper(log_x, log_truncated),
            round=self._options.round,
            seed=batch.seeds[int(self._first_draw[request])],
            **self._costs(request),
        )

    def _costs(self, request: int) -> dict[str, int]:
        """Return what the record computed, each distinct prefix once."""
        tree = self._batch.tree
        nodes = tree.visited()
        flags = tree["flags"][nodes[tree["request"][nodes] == request]]
        flags = flags[flags & EVALUATED > 0]
        evaluations = len(flags)
        prompt = int(self._batch.prompt_lengths[request]) - 1
        return {
            "target_calls": int(np.count_nonzero(flags & IN_RUN == 0)),
            # The root's evaluation reads the whole prompt, every other one a single token.
            "target_tokens": evaluations + (prompt if evaluations else 0),
            "distinct_evaluations": evaluations,
        }
