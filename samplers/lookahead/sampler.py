"""RewardSampler: what the samplers that look ahead with a reward share, options to records."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.ledger import PASSED_OVER, TARGET_CALLS, Ledger
from cdec.samplers.drafts.model_draft import ModelDrafting
from cdec.samplers.lookahead.options import require_reward
from cdec.samplers.lookahead.run import Lookahead, Planner
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.selection import chunks

if TYPE_CHECKING:
    from cdec.samplers.drafts.run import DraftOptions, DraftRun
    from cdec.samplers.rewards.base import Reward


class RewardSampler(Sampler):
    """Decodes greedily but for what a reward of texts that lie ahead decides.

    Args:
        reward: Scores generated texts; the prompt is not shown to it.
        branch: k, candidates a position. depth: d, events of a rollout.
        max_walks: Prefixes that are evaluated together; bounds memory, changes no result.

    Attributes:
        last_path_calls: Of the last run, over all its draws: draft calls, target calls and events
            (tokens and ends), where no cache spares a call, as papers count them.

    Raises:
        UsageError: An option out of range.
    """

    exactness = "heuristic"

    reward: Reward
    branch: int
    depth: int
    max_walks: int
    options: DraftOptions | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        require_reward(self.reward)
        self.last_path_calls = (0, 0, 0)

    @abstractmethod
    def planner(
        self, ahead: Lookahead, run: DraftRun | None, batch: Batch, draws: NDArray[np.int64]
    ) -> Planner:
        """Return what plans the next events of the walks of ``draws`` (int64[n], batch rows)."""

    @abstractmethod
    def fields(
        self, run: DraftRun | None, ledger: Ledger, events: NDArray[np.int64]
    ) -> dict[str, list[Any]]:
        """Return the sampler's own fields; D values each, for texts of ``events`` int64[D]."""

    def run(self, batch: Batch) -> Outcome:
        """Decode one text for every draw of ``batch``."""
        with nullcontext() if self.options is None else self.options.on(batch) as run:
            ledger = Ledger(batch) if run is None else run.ledger
            drafting = None if run is None else run.drafting
            if drafting is not None and not isinstance(drafting, ModelDrafting):
                raise RuntimeError("a lookahead by a draft that is no model")
            branch = min(self.branch, batch.model.vocabulary.width)
            sizes = branch, self.depth, self.max_walks
            ahead = Lookahead(batch, self.reward, ledger, *sizes, drafting)
            together = chunks(len(batch.seeds), self.max_walks // self._rows(batch))
            parts = [self._decode(batch, ahead, run, draws) for draws in together]
            chosen = concatenate(parts)
            fields = self.fields(run, ledger, chosen.events)
            fields |= ahead.satisfaction(self.reward, chosen)
            calls = ledger.totals(TARGET_CALLS).astype(np.int64)
        self.last_path_calls = (*ahead.path_calls(), int(chosen.events.sum()))
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full(len(chosen.lengths), np.nan),
            log_candidate_weight=np.where(chosen.is_complete, chosen.log_x, np.nan),
            per_draw=fields,
            wasted=ledger.wasted().tolist(),
            passed_over=ledger.totals(PASSED_OVER).astype(np.int64).tolist(),
            calls=calls.tolist(),
        )

    def _rows(self, batch: Batch) -> int:
        """Return most prefixes of a text that need evaluation together: candidates or a draft."""
        longest = int(batch.limits.max(initial=0))
        return max(min(self.branch, batch.model.vocabulary.width), min(self.depth, longest) + 1)

    def _decode(
        self, batch: Batch, ahead: Lookahead, run: DraftRun | None, draws: NDArray[np.int64]
    ) -> Candidates:
        planner = self.planner(ahead, run, batch, draws)
        return ahead.decode(batch.draw_request[draws], batch.draw_index[draws], planner)
