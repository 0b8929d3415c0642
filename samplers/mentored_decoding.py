"""Mentored decoding: speculation that spends a budget of divergence for longer acceptance.

Tran-Thien, *Mentored decoding* (2023): at each drafted position the law aimed at is not the masked
target q but the law pi that the draft's proposals fit best among those with KL(q || pi) <= D
(``mentored_distribution``); where q is 0, pi is 0, so a constraint always holds. D = 0 is lossless
speculation. Along a text the budgets add up: KL(M || law) <= E[length] D for the masked law M,
which is not Q = P(. | S). The paper's printed Algorithm 1 moves alpha before its bounds and does
not end; the solver here is another (``samplers.mentored``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.drafts.proposals import Judge, Level, Verdict
from cdec.samplers.drafts.speculate import DraftRun, decode, opened
from cdec.samplers.drafts.verify import Verifier
from cdec.samplers.mentored import mentored_distribution
from cdec.samplers.method import Method
from cdec.samplers.options import COUNTS
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks
from cdec.samplers.walks.mass import MassAccumulator
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import CandidateUniforms

if TYPE_CHECKING:
    from cdec.samplers.walks.frontier import Step

__all__ = ["MentoredSampler", "mentored_distribution"]

DEFAULT_DIVERGENCE = 0.1


class MentoredSampler(Sampler):
    """Draws near the masked target, within a divergence a position or a text.

    Args:
        draft: A language model of the same vocabulary, or ``prompt-lookup``.
        divergence: Nats that each drafted position may spend; 0 is ``speculative``, inf follows the
            draft wherever the constraint and the target's zeros allow: what the draft gives no mass
            is then never drawn, so the mass is not estimated. 0.1 if neither is given.
        divergence_total: Nats that each text may spend: a position may spend what is left.

    Raises:
        UsageError: No draft, a draft without a law of its own, or an option out of range.
    """

    method: ClassVar[Method] = METHODS["mentored"]
    exactness = "divergence"
    draft_decides = True
    divergence: float | None
    divergence_total: float | None
    max_walks: int

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.divergence_total is None and self.divergence is None:
            self.divergence = DEFAULT_DIVERGENCE

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse a draft whose law follows what was drawn, and two budgets."""
        if options["draft"] == COUNTS:
            raise UsageError(
                "mentored does not take counts: they change with every text that is drawn, and a "
                "law that follows them would depend on the batch",
                hint="Give a draft model or prompt-lookup, or use speculative.",
                option="draft",
            )
        if options["divergence"] is not None and options["divergence_total"] is not None:
            raise UsageError(
                "`divergence` and `divergence_total` were both given",
                hint="give the budget of a token or that of a text",
                option="divergence_total",
            )

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        masses = MassAccumulator(batch, unbiased=self._covers_target, log_most=np.inf)
        at_work = opened(draft)
        parts, spent = [], []
        for draws in chunks(len(batch.seeds), self.max_walks // at_work.rows):
            drawn, budget = self._draw(batch, draws, at_work)
            masses.weigh(draws, drawn)
            parts.append(drawn)
            spent.append(budget.spent)
        chosen = concatenate(parts)
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_x,
            log_candidate_weight=log_x,
            per_draw={"kl_spent": np.concatenate(spent).tolist()},
            per_request=masses.fields(),
        )

    @property
    def _covers_target(self) -> bool:
        """Whether all that the target may draw can be drawn: a draft's zeros need an end to D."""
        return math.inf not in (self.divergence, self.divergence_total)

    def _draw(
        self, batch: Batch, draws: NDArray[np.int64], draft: DraftRun
    ) -> tuple[Candidates, Budget]:
        uniforms = candidate_uniforms(batch, draws, 1)
        budget = Budget(uniforms, self.divergence, self.divergence_total)
        request, draw = batch.draw_request[draws], batch.draw_index[draws]
        return decode(batch, request, draw, uniforms, draft, budget), budget


class Budget(Judge):
    """Verifies proposals within a divergence, and keeps the account of W candidates.

    Args:
        uniforms: Of the W candidates.
        divergence: Nats a position. total: Nats a text, if that is None.

    Attributes:
        spent: float64[W] sum of min(D, KL(q || p)) over them, nats.
    """

    def __init__(
        self, uniforms: CandidateUniforms, divergence: float | None, total: float | None
    ) -> None:
        # Without a budget guesses are compared: the texts are those of ``speculative``.
        self._verifier = Verifier(uniforms, guesses_have_law=bool(divergence or total))
        self._divergence, self._total = divergence, total
        self.spent = np.zeros(len(uniforms))
        self._charged = np.zeros(len(uniforms))

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Choose the next event of every walk, and charge what it spent."""
        if self._divergence is not None:
            limits = np.full(len(alive), self._divergence)
        elif self._total == math.inf:
            # subtle: what was charged may be infinite, too.
            limits = np.full(len(alive), math.inf)
        else:
            limits = np.maximum(0.0, (self._total or 0.0) - self._charged[alive])
        verdict = self._verifier.judge(step, alive, level, limits)
        self.spent[alive] += verdict.spent
        self._charged[alive] += verdict.charged
        return verdict
