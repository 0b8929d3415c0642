"""Speculative sampling: masked or greedy decoding, several tokens a pass of the target.

A draft proposes, one pass of the target verifies (Leviathan et al. 2023, Chen et al. 2023), and the
constraint masks both. The law is the masked target's, so as biased with respect to Q as ``masked``,
and its weight is the same sum of log Z, which the target's scores give for free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.run import DraftOptions, DraftRun, require_options
from cdec.samplers.drafts.speculate import decode
from cdec.samplers.options import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.selection import Tally, candidate_uniforms, chunks

if TYPE_CHECKING:
    from cdec.core.models.base import LanguageModel
    from cdec.samplers.drafts.counts import Counts


class SpeculativeSampler(Sampler):
    """Draws from the masked target, or takes its most probable events, with the help of a draft.

    Args:
        draft: A language model of the same vocabulary, ``counts`` (what a grammar's states were
            followed by before) or ``prompt-lookup`` (what the last tokens were followed by before).
        gamma: Tokens proposed before each verification, or ``auto``, which adapts it to each text.
        draft_temperature: Of a draft model, instead of the target's warping; 0 is a greedy draft.
        greedy: Take the most probable events: the texts of ``greedy``.
        speculate_threshold: ``counts``: a token is guessed while its probability is above this.
        counts: ``counts``: what it is learnt from, and added to; None begins with none.
        cost_ratio: Cost of a draft call in target calls, for ``cost_per_token``.
        max_walks: Prefixes that are evaluated together; bounds memory, changes no result.

    Raises:
        UsageError: No draft, or an option out of range.
    """

    method: ClassVar[Method] = METHODS["speculative"]
    draft: LanguageModel | str
    gamma: int | str
    draft_temperature: float | None
    greedy: bool
    speculate_threshold: float
    counts: Counts | None
    cost_ratio: float | None
    max_walks: int

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.options = require_options(
            DraftOptions.of(
                self.draft,
                self.gamma,
                self.draft_temperature,
                self.counts,
                self.speculate_threshold,
                self.cost_ratio,
            )
        )

    @property
    def exactness(self) -> str:
        """Biased, as masked decoding is; greedy texts follow no law."""
        return "heuristic" if self.greedy else "biased"

    def run(self, batch: Batch) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        tally = Tally(batch, unbiased=True)
        with self.options.on(batch) as run:
            parts = []
            for draws in chunks(len(batch.seeds), self.max_walks // self.options.rows):
                drawn = self._draw(batch, draws, run)
                tally.weigh(draws, drawn.log_x, drawn.log_beyond)
                parts.append(drawn)
        chosen = concatenate(parts)
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        outcome = Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full_like(log_x, np.nan) if self.greedy else log_x,
            log_candidate_weight=log_x,
            per_request={} if self.greedy else tally.fields(),
        )
        return run.account(outcome)

    def _draw(self, batch: Batch, draws: NDArray[np.int64], run: DraftRun) -> Candidates:
        uniforms = None if self.greedy else candidate_uniforms(batch, draws, 1)
        return decode(batch, batch.draw_request[draws], batch.draw_index[draws], uniforms, run)
