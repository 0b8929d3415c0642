"""Verification of a level of proposals: which are accepted, and what is taken where one is not.

Lossless (Leviathan et al. 2023, Chen et al. 2023): a drafted event is accepted with probability
min(1, q / p), else one is drawn from (q - p)+; p and q are masked and renormalised alike. The law
claimed for a drafted event is the law it was drawn from: the draft's scores over the same allowed
ids, renormalised. A guess without a law is accepted if the target draws the same with its own
number: its acceptance and law are those of a one-hot p, and the texts are those of decoding without
a draft. All end ids are one event, the last of each list. Arithmetic is float64 whatever the
scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.samplers.drafts.proposals import FROM_LAW, ONE_HOT, PLAIN, Judge, Level, Verdict
from cdec.samplers.walks import events
from cdec.samplers.walks.decoding import Chooser, chooser
from cdec.samplers.walks.events import (
    allowed_ids,
    host_scores,
    log_residual,
)
from cdec.samplers.walks.frontier import Step
from cdec.samplers.walks.masks import AllowedIds
from cdec.samplers.walks.randomness import TEST, CandidateUniforms


@dataclass(frozen=True)
class Comparer(Judge):
    """Lets the target choose as it would without a draft; proposals are accepted where it agrees.

    Attributes:
        draws: How the target chooses. masked: As in ``Judge``.
    """

    draws: Chooser
    masked: bool = True
    compares = True

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Choose the next event of every walk of an evaluated step."""
        chosen, none = self.draws(step, alive), np.zeros(len(alive))
        proposed = level.kinds != PLAIN
        return Verdict(chosen, proposed & (chosen.tokens == level.events), none, none, none)

    def choose(self, step: Step, alive: NDArray[np.int64]) -> events.SampledEvents:
        """As ``Judge.choose``."""
        return self.draws(step, alive)


@dataclass
class Verifier(Judge):
    """Verifies levels of proposals.

    Args:
        uniforms: Of the target's own draws; None takes the most probable events.
        guesses_have_law: Treat a guess as a draw from a one-hot law, as a divergence needs it.
    """

    uniforms: CandidateUniforms | None
    guesses_have_law: bool = False
    tests: CandidateUniforms | None = field(init=False)

    def __post_init__(self) -> None:
        self.tests = None if self.uniforms is None else self.uniforms.stream(TEST)
        self._comparer = Comparer(chooser(self.uniforms))
        self.compares = not self.guesses_have_law

    def choose(self, step: Step, alive: NDArray[np.int64]) -> events.SampledEvents:
        """As ``Judge.choose``."""
        return self._comparer.choose(step, alive)

    def judge(
        self,
        step: Step,
        alive: NDArray[np.int64],
        level: Level,
        limits: NDArray[np.float64] | None = None,
    ) -> Verdict:
        """Choose the next event of every walk of an evaluated step.

        Args:
            step: W walks at N nodes. alive: int64[W] their candidates.
            level: What was proposed to them.
            limits: float64[W] divergence that each walk's position may spend, nats; None for 0.

        Raises:
            ModelError: Scores of the target hold NaN.
        """
        none = np.zeros(len(alive))
        is_drawn = level.kinds == FROM_LAW
        if self.guesses_have_law:
            is_drawn = is_drawn | ((level.kinds == ONE_HOT) & ~level.forced)
        if self.uniforms is None or not is_drawn.any():
            return self._comparer.judge(step, alive, level)
        return self._tested(step, alive, level, is_drawn, none if limits is None else limits)

    def _tested(
        self,
        step: Step,
        alive: NDArray[np.int64],
        level: Level,
        is_drawn: NDArray[np.bool_],
        limits: NDArray[np.float64],
    ) -> Verdict:
        """Put drawn proposals to the ratio test; draw from the target everywhere else."""
        if self.uniforms is None or self.tests is None:  # the caller has seen to it
            raise RuntimeError("a ratio test without random numbers")
        picks, tests = (source.at(step.depth, alive) for source in (self.uniforms, self.tests))
        kinds = np.where(is_drawn, level.kinds, PLAIN)
        numbers = tests, picks, limits
        if step.nodes.batch.on_host:
            verdict = on_host(step, level, kinds, numbers)
        else:
            from cdec.samplers.drafts import verify_torch

            verdict = verify_torch.on_device(step, level, kinds, numbers)
        events.require_numbers(verdict.chosen)
        guessed = (level.kinds == ONE_HOT) & ~is_drawn
        same = guessed & (verdict.chosen.tokens == level.events)
        np.logical_or(verdict.accepted, same, out=verdict.accepted)
        return verdict


def on_host(
    step: Step,
    level: Level,
    kinds: NDArray[np.int64],
    numbers: tuple[NDArray[np.float64], ...],
) -> Verdict:
    """Draw every walk's event from the target, then put the proposals to the test.

    Args:
        step, level: As in ``Verifier.judge``. kinds: int64[W], guesses without a law made PLAIN.
        numbers: tests, picks and limits, float64[W] each.
    """
    _, picks, _ = numbers
    scores, log_normalizer = host_scores(step)
    allowed = allowed_ids(step, scores, log_normalizer)
    chosen = events.sample_allowed(step, (scores, log_normalizer), allowed, picks)
    none = np.zeros(len(picks))
    verdict = Verdict(chosen, none > 0.0, none, none.copy(), none.copy())
    tested = np.flatnonzero(kinds != PLAIN)
    if not tested.size:
        return verdict
    laws = np.where(kinds == FROM_LAW, level.rows, -1)
    # By node, and walks that share a law of the draft side by side.
    tested = tested[np.lexsort((laws[tested], step.walk_node[tested]))]
    nodes, starts = np.unique(step.walk_node[tested], return_index=True)
    list_of, offsets, ids = _lists(allowed, nodes, len(step.rows), scores.shape[1])
    ends = step.nodes.batch.end_ids, step.nodes.batch.is_end
    starts = np.append(starts, tested.size)
    library.verify(
        (scores, log_normalizer),
        (offsets, ids, *ends),
        (step.rows[nodes], list_of, chosen.log_end[nodes], starts, tested),
        _draft_law(level, scores.dtype),
        (laws, level.events),
        numbers,
        (chosen.tokens, chosen.log_p),
        (verdict.accepted, verdict.log_ratio, verdict.spent, verdict.charged),
    )
    return verdict


def _lists(
    allowed: AllowedIds, nodes: NDArray[np.int64], count: int, width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return the list of each of ``nodes``, offsets and ids; free nodes share one of all ids."""
    list_of = np.full(count, len(allowed.offsets) - 1)
    list_of[allowed.which] = allowed.lists
    offsets, ids = allowed.offsets, allowed.ids
    if (list_of[nodes] == len(offsets) - 1).any():
        ids = np.concatenate([ids, np.arange(width, dtype=np.int32)])
        offsets = np.append(offsets, len(ids))
    return list_of[nodes], offsets, ids


def _draft_law(level: Level, dtype: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return a draft's scores and normalizers as the compiled library reads them."""
    scores, log_normalizer = level.scores, np.asarray(level.log_normalizer, np.float64)
    if not len(scores):
        scores = np.zeros((1, 1), dtype)
    if not isinstance(scores, np.ndarray):
        scores = scores.detach().numpy()
    return np.ascontiguousarray(scores), log_normalizer


class LearningVerifier(Judge):
    """Verifies proposals without loss, and says the residual mass of every prefix.

    Args:
        uniforms: Of the candidates that walk now; their constraints must be known.
    """

    def __init__(self, uniforms: CandidateUniforms) -> None:
        self._verifier = Verifier(uniforms)
        self._taken: dict[int, set[int]] = {}

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Choose the next events; ``log_residual`` leaves out all tokens drawn there so far."""
        verdict = self._verifier.judge(step, alive, level)
        contexts = step.nodes.context.tolist()
        pairs = zip(step.walk_node.tolist(), verdict.chosen.tokens.tolist(), strict=True)
        for node, token in pairs:
            if token >= 0:
                self._taken.setdefault(contexts[node], set()).add(token)
        taken = [sorted(self._taken.get(context, ())) for context in contexts]
        chosen = replace(verdict.chosen, log_residual=log_residual(step, taken))
        return replace(verdict, chosen=chosen)
