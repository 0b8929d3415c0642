"""Masked decoding: every event drawn among the allowed ones, renormalised (trie decoding, GCD).

Biased: a text has probability P(text) / prod Z instead of P(text) / P(S). Its weight prod Z is
known, so weighted records target Q.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cdec.samplers.base import DEFAULT_MAX_WALKS, Sampler, require
from cdec.samplers.batch import Batch
from cdec.samplers.candidates import concatenate
from cdec.samplers.outcome import Outcome
from cdec.samplers.selection import Tally, candidate_uniforms, chunks, draw_candidates


class MaskedSampler(Sampler):
    """Draws each event from the model restricted to what the constraint allows there.

    Args:
        top_m: Verify the model's M most probable tokens only (PPV); ``log_weight`` is then null
            and ``missed_mass`` tells what was not looked at: 1 - prod(1 - m) over the path, m the
            model's mass outside the top M.
        max_walks: Texts that decode together; bounds memory, changes no result.

    Raises:
        UsageError: An option out of range.
    """

    name: ClassVar[str] = "masked"
    exactness = "biased"

    def __init__(self, *, top_m: int | None = None, max_walks: int = DEFAULT_MAX_WALKS) -> None:
        self.top_m = None if top_m is None else require("top_m", top_m, at_least=1)
        self.max_walks = require("max_walks", max_walks, at_least=1)

    def run(self, batch: Batch) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        tally = Tally(batch, unbiased=self.top_m is None)
        parts = []
        for draws in chunks(len(batch.seeds), self.max_walks):
            uniforms = candidate_uniforms(batch, draws, 1)
            drawn = draw_candidates(batch, draws, uniforms, self.top_m)
            tally.weigh(draws, drawn.log_x)
            tally.find(draws, drawn)
            parts.append(drawn)
        chosen = concatenate(parts)
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        per_draw = {}
        if self.top_m is not None:
            per_draw["missed_mass"] = (-np.expm1(chosen.log_kept)).tolist()
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_x if self.top_m is None else np.full(len(log_x), np.nan),
            log_candidate_weight=log_x,
            per_draw=per_draw,
            per_request=tally.fields(),
        )
