"""Beam search: the most probable texts a beam finds; deterministic."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.learning.filling import filled
from cdec.samplers.learning.rounds import SavedTree
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.search.beam_search import Ranking, beam_search
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome


class BeamSampler(Sampler):
    """Returns the n best distinct texts of one beam search a prompt.

    A text's score is its log P, end event included, over events ** length_penalty. Where fewer
    than n texts exist, the others are records that ended as ``dead_end`` (or ``length``).

    Args:
        beams: Live hypotheses of a prompt; at least the number of draws.
        length_penalty: 0 ranks by probability; more favours longer texts, less shorter ones.
        tree: Takes what the search looked at; ``asap`` and ``exact`` begin with it.
    """

    method: ClassVar[Method] = METHODS["beam"]
    exactness = "heuristic"
    takes_most_probable = True
    beams: int
    length_penalty: float
    tree: SavedTree | None

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Search the texts of every request of ``batch``; draw i is the i-th best."""
        requests, counts = np.unique(batch.draw_request, return_counts=True)
        most = int(counts.max(initial=1))
        if most > self.beams:
            raise UsageError(
                f"{most} draws were asked of a beam search of {self.beams} beams",
                hint=f"Give `beams` {most} or more.",
                option="beams",
            )
        ranking = Ranking(self.beams, most, self.length_penalty)
        with filled(batch, self.tree, self.beams):
            found = beam_search(batch, requests, np.zeros(len(requests), np.int64), ranking)
        group = np.searchsorted(requests, batch.draw_request)
        chosen = found.take(group * most + batch.draw_index)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full(len(chosen.lengths), np.nan),
            log_candidate_weight=np.where(chosen.is_complete, chosen.log_x, np.nan),
        )
