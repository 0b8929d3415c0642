"""ASAp: masked decoding that remembers, so that its law converges to Q = P(. | S).

Paper: Park et al. 2024, arXiv 2405.21047, section 3. Every event is drawn with probability
proportional to P * c, c the tree's bound of what can follow. Deviations: the end of the text is an
event with a probability; draws run in rounds (``rounds``); each record carries its exact weight
P / Q~, so weighted records target Q from the first one on.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.learning.bookkeeping import Learning, wanted_of
from cdec.samplers.learning.rounds import Rounds, SavedTree
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome

OPEN = np.iinfo(np.int32).max
"""More candidates than are ever drawn."""


class AsapSampler(Sampler):
    """Draws masked candidates from an ever better known tree; the law tends to Q with the draws.

    Args:
        burn_in: Candidates that only teach the tree; the first of all is masked decoding.
        until_converged: Go on teaching until the certified bracket of log P(S) is no wider than
            this, in nats, or ``max_draws`` candidates per sample are spent. (The design says a
            difference of probabilities; that would stop at once where P(S) is small.)
        max_draws: Most candidates that teach, per sample asked for.
        tree: Kept between runs; what it has learnt from counts as ``burn_in``.
    """

    method: ClassVar[Method] = METHODS["asap"]
    exactness = "asymptotic"
    burn_in: int
    until_converged: float | None
    max_draws: int
    round: int
    tree_cache: int
    max_walks: int
    tree: SavedTree | None

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        rounds = Rounds(
            batch,
            size=self.round,
            max_walks=self.max_walks,
            tree_cache=self.tree_cache,
            file=self.tree,
        )
        burn_in = np.maximum(self.burn_in - rounds.before, 0)
        learning = Learning(batch, rounds, wanted_of(batch) + burn_in)
        learning.draw_unconstrained(self.max_walks)
        active = learning.constrained
        # The number of the first candidate that is recorded; OPEN while it is not known.
        starts = np.where(self.until_converged is None, burn_in, OPEN)
        for r in active.tolist():
            if self._is_known(batch, rounds, r):
                starts[r] = 0
        while active.size:
            left = starts[active] + learning.wanted[active] - rounds.drawn[active]
            for drawn in rounds.draw(active, np.minimum(self.round, left)):
                learning.add(drawn)
                first = max(0, int(starts[drawn.request]) - drawn.first)
                learning.take(drawn, np.arange(first, len(drawn.tests)))
                if self._is_known(batch, rounds, drawn.request):
                    starts[drawn.request] = min(starts[drawn.request], rounds.drawn[drawn.request])
            active = active[learning.taken[active] < learning.wanted[active]]
        rounds.save()
        chosen = learning.chosen()
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_x,
            log_candidate_weight=log_x,
            per_draw={"iteration": learning.iterations()},
            per_request=learning.fields(),
            owners=learning.owners(),
            seeds=learning.seeds(),
        )

    def _is_known(self, batch: Batch, rounds: Rounds, request: int) -> bool:
        """Say whether a record that is to converge has done so, or has spent its budget."""
        drawn = int(rounds.drawn[request])
        if self.until_converged is None or drawn + rounds.before[request] < self.burn_in:
            return False
        most = self.max_draws * len(batch.requests[request].seeds)
        bracket = batch.tree.bounds(request, int(batch.roots[request]))
        return drawn >= most or bracket.width <= self.until_converged
