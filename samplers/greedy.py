"""Greedy decoding: the most probable allowed event at every prefix."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cdec.samplers.base import DEFAULT_MAX_WALKS, Sampler, require
from cdec.samplers.batch import Batch
from cdec.samplers.candidates import concatenate
from cdec.samplers.decoding import decode
from cdec.samplers.outcome import Outcome
from cdec.samplers.selection import chunks


class GreedySampler(Sampler):
    """Takes the most probable event within the mask; all draws of a prompt are the same text.

    The end of the text is one event, whose probability is summed over all end ids; of equally
    probable events the lowest token id is taken, and the end last.

    Args:
        max_walks: Texts that decode together; bounds memory, changes no result.

    Raises:
        UsageError: An option out of range.
    """

    name: ClassVar[str] = "greedy"
    exactness = "heuristic"

    def __init__(self, *, max_walks: int = DEFAULT_MAX_WALKS) -> None:
        self.max_walks = require("max_walks", max_walks, at_least=1)

    def run(self, batch: Batch) -> Outcome:
        """Decode one text for every draw of ``batch``."""
        chosen = concatenate(
            [
                decode(batch, batch.draw_request[draws], batch.draw_index[draws], None)
                for draws in chunks(len(batch.seeds), self.max_walks)
            ]
        )
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full(len(chosen.lengths), np.nan),
            log_candidate_weight=np.where(chosen.is_complete, chosen.log_x, np.nan),
        )
