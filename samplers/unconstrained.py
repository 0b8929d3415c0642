"""Unconstrained sampling: texts from the model itself, with the constraint only watching.

A draw that happens to be a member is an exact draw of Q = P(. | S) (this is rejection sampling), so
members have ``log_weight`` 0 and all others null. A set holds canonical tokenisations: a member's
text spelt in other tokens is ``valid`` and yet no element of S, so its weight is null too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, draw_candidates
from cdec.samplers.walks.mass import MassAccumulator
from cdec.samplers.walks.outcome import Outcome


class UnconstrainedSampler(Sampler):
    """Draws from the model alone and says which texts the constraint accepts.

    Without a constraint ``valid`` is null: nothing was checked. A text cut at the length limit
    took no end event and has no weight.
    """

    method: ClassVar[Method] = METHODS["unconstrained"]
    exactness = "exact"
    max_walks: int

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        masses = MassAccumulator(batch, unbiased=True)
        parts = []
        for draws in chunks(len(batch.seeds), self.max_walks):
            drawn = draw_candidates(batch, draws, candidate_uniforms(batch, draws, 1))
            # The indicator of S has mean P(S) under P.
            masses.weigh(draws, replace(drawn, log_x=np.where(drawn.is_text, 0.0, -np.inf)))
            parts.append(drawn)
        chosen = concatenate(parts)
        log_weight = np.where(chosen.is_text, 0.0, np.nan)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_weight,
            log_candidate_weight=log_weight,
            per_request=masses.fields(bounds=False),
        )
