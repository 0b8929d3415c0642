"""Greedy decoding: the most probable allowed event at every prefix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import chunks, decode
from cdec.samplers.walks.outcome import Outcome


class GreedySampler(Sampler):
    """Takes the most probable event within the mask; all draws of a prompt are the same text.

    The end of the text is one event, whose probability is summed over all end ids; of equally
    probable events the lowest token id is taken, and the end last.

    Args:
        opportunistic: Ask for the mask only where the model's own choice is not allowed: the same
            texts; ``log_candidate_weight`` is then null.
        draft: Proposes tokens, of which those are taken that are the most probable ones: fewer
            passes, the same texts.
    """

    method: ClassVar[Method] = METHODS["greedy"]
    exactness = "heuristic"
    takes_most_probable = True
    opportunistic: bool
    max_walks: int

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Decode one text for every draw of ``batch``."""
        together = self.max_walks // (1 if draft is None else draft.rows)
        parts = [self._decode(batch, draws, draft) for draws in chunks(len(batch.seeds), together)]
        chosen = concatenate(parts)
        is_known = chosen.is_complete & (not self.opportunistic)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full(len(chosen.lengths), np.nan),
            log_candidate_weight=np.where(is_known, chosen.log_x, np.nan),
        )

    def _decode(self, batch: Batch, draws: NDArray[np.int64], draft: Draft | None) -> Candidates:
        where = batch, batch.draw_request[draws], batch.draw_index[draws], None
        options: dict[str, Any] = {"is_opportunistic": self.opportunistic}
        if draft is None:
            return decode(*where, **options)
        return draft.decode(*where, repeats=options, weighed=False)


def greedily(sampler: Sampler) -> GreedySampler:
    """Return greedy decoding as another sampler would have it, with its reward and its loops."""
    reward = None if sampler.method.needs_reward else sampler.reward
    return GreedySampler(stop_loops=sampler.stop_loops, reward=reward)
