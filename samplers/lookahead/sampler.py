"""Base of the samplers that look ahead with a reward, from options to records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.models.language_model import LanguageModel
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft, DraftOptions
from cdec.samplers.drafts.ledger import PASSED_OVER, TARGET_CALLS, Ledger
from cdec.samplers.drafts.models import ModelDrafting
from cdec.samplers.drafts.speculate import DraftRun, opened
from cdec.samplers.lookahead.rollout import DraftEvents, TargetEvents
from cdec.samplers.lookahead.run import Lookahead, Planner
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.rewards.base import Reward, require_reward
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import chunks
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.wrappers import draft_of


class RewardSampler(Sampler):
    """Decodes greedily but for what a reward of texts that lie ahead decides.

    Args:
        reward: Scores generated texts.
        branch: k, candidates a position. depth: d, events of a rollout.

    Attributes:
        verifies: Whether the target verifies what a draft proposes; else a draft only rolls out.
        last_path_calls: Of the last run, over all its draws: draft calls, target calls and events
            (tokens and ends), where no cache spares a call, as papers count them.
    """

    exactness = "heuristic"

    verifies: ClassVar[bool] = False
    reward: Reward
    branch: int
    depth: int
    max_walks: int

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        require_reward(self.reward)
        self.last_path_calls = (0, 0, 0)

    @property
    def takes_most_probable(self) -> bool:
        """True where texts are the most probable ones that are found."""
        return True

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse drafts that cannot look ahead."""
        draft = options.get("draft")
        if draft in (COUNTS, LOOKUP):
            raise UsageError(
                f"`draft` {draft} proposes what was seen before, and `method` {cls.name} looks "
                "ahead with a model",
                hint="give `draft` NAME_OR_PATH, a smaller model of the same vocabulary",
                option="draft",
            )

    @classmethod
    def draft_of(cls, options: Mapping[str, Any]) -> DraftOptions | None:
        """Return the greedy draft model that runs ``depth`` tokens ahead, if the method has one."""
        if not cls.method.needs_draft:
            return None
        draft = options["draft"]
        if not isinstance(draft, LanguageModel):
            raise UsageError(
                f"`draft` is {draft!r}, expected a language model",
                hint="Load a smaller model of the same vocabulary with cdec.core.load_model.",
                option="draft",
            )
        greedy = {"gamma": options["depth"], "draft_temperature": 0.0}
        return draft_of({**options, **greedy}, is_verified=cls.verifies)

    @abstractmethod
    def planner(
        self, ahead: Lookahead, draft: DraftRun | None, batch: Batch, draws: NDArray[np.int64]
    ) -> Planner:
        """Return what plans the next events of the walks of ``draws`` (int64[n], batch rows)."""

    @abstractmethod
    def fields(
        self, draft: DraftRun | None, ledger: Ledger, events: NDArray[np.int64]
    ) -> dict[str, list[Any]]:
        """Return the sampler's own fields; D values each, for texts of ``events`` int64[D]."""

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Decode one text for every draw of ``batch``."""
        at_work = None if draft is None else opened(draft)
        ledger = Ledger(batch) if at_work is None else at_work.ledger
        drafting = None if at_work is None else at_work.drafting
        if drafting is not None and not isinstance(drafting, ModelDrafting):
            raise RuntimeError("a lookahead by a draft that is no model")
        branch = min(self.branch, batch.model.vocabulary.width)
        target = TargetEvents(ledger, branch, self.max_walks)
        rolling = None if drafting is None else DraftEvents(drafting, self.max_walks)
        ahead = Lookahead(batch, self.reward, target, rolling, self.depth)
        together = chunks(len(batch.seeds), self.max_walks // self._rows(batch))
        parts = [self._decode(batch, ahead, at_work, draws) for draws in together]
        chosen = concatenate(parts)
        fields = self.fields(at_work, ledger, chosen.events)
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
        self, batch: Batch, ahead: Lookahead, draft: DraftRun | None, draws: NDArray[np.int64]
    ) -> Candidates:
        planner = self.planner(ahead, draft, batch, draws)
        return ahead.decode(batch.draw_request[draws], batch.draw_index[draws], planner)
