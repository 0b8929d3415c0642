"""Speculative lookahead: a draft runs ahead, the target verifies it, a reward judges the text.

"Constrained Decoding with Speculative Lookaheads", Algorithm 1 (design, ALGORITHMS section 4); what
the listing leaves open is named in ``lookahead/rounds``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.run import DraftRun, opened
from cdec.samplers.facts.method import Method
from cdec.samplers.lookahead.rounds import SCENARIOS, DraftedPlanner, Thresholds
from cdec.samplers.lookahead.sampler import RewardSampler
from cdec.samplers.lookahead.verification import Tests
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.randomness import TEST
from cdec.samplers.walks.selection import candidate_uniforms

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.lookahead.run import Lookahead, Planner
    from cdec.samplers.walks.batch import Batch


class CdslSampler(RewardSampler):
    """Keeps what draft, target and reward agree on; looks ahead event by event where they do not.

    Each round the draft proposes d greedy events, one pass of the target accepts the first n, and
    r is the reward of the text with these. Accepted share n/d and r against their thresholds give
    the scenario: S1, both good: the n are kept, and nothing else. S2 and S3, few accepted (r bad,
    r good): up to b greedy events of the target follow, until a rollout of the draft behind them
    has a good reward; if none has, one event by ``cdlh-approx``. S4, r bad: one by ``cdlh-approx``.

    Args:
        draft: A language model of the same vocabulary; the mask applies to it as well.
        reward: Scores generated texts.
        branch: k, candidates of ``cdlh-approx``.
        depth: d, events of a draft and of a rollout.
        target_tries: b.
        accept_threshold: From which share accepted a draft is good, 0 to 1.
        reward_threshold: From which reward a text is good.
        verify: ``hard`` accepts the target's most probable events; ``speculative`` accepts each
            with its probability under the target, the lossless test of a greedy draft; ``ratio``,
            the rule as the paper prints it, with that over its probability under the draft, which
            accepts more and is not lossless.
        on_reject: Whether S2 to S4 ``keep`` the n (as the paper's listing) or ``discard`` them (as
            its prose).
        cost_ratio: Cost of a draft call in target calls, for ``cost_per_token``.
        max_walks: Prefixes that are evaluated together; bounds memory, changes no result.

    Raises:
        UsageError: No draft model, or an option out of range.
    """

    method: ClassVar[Method] = METHODS["cdsl"]
    verifies: ClassVar[bool] = True
    target_tries: int
    accept_threshold: float
    reward_threshold: float
    verify: str
    on_reject: str

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.thresholds = Thresholds(
            tries=self.target_tries,
            accept=self.accept_threshold,
            reward=self.reward_threshold,
            keeps=self.on_reject == "keep",
        )

    @property
    def takes_most_probable(self) -> bool:
        """Whether texts are the most probable ones that are found."""
        return self.verify == "hard"

    def planner(
        self, ahead: Lookahead, draft: DraftRun | None, batch: Batch, draws: NDArray[np.int64]
    ) -> Planner:
        """Return what plans a round of events a walk."""
        tests = None
        if self.verify != "hard":
            numbers = candidate_uniforms(batch, draws, 1).stream(TEST)
            tests = Tests(numbers, ahead.draft if self.verify == "ratio" else None)
        return DraftedPlanner(ahead, self.thresholds, opened(draft).ledger, tests)

    def fields(
        self, draft: DraftRun | None, ledger: Ledger, events: NDArray[np.int64]
    ) -> dict[str, list[Any]]:
        """Return what drafting cost and gained, and how often each scenario came up."""
        counts = np.stack([ledger.totals(name) for name in SCENARIOS], 1).astype(np.int64)
        scenarios = [dict(zip(SCENARIOS, row, strict=True)) for row in counts.tolist()]
        return {**opened(draft).fields(events), "scenario_counts": scenarios}
