"""Level and Verdict: what a step's walks were proposed, and what became of it.

Shared by all that verify: ``verify`` (on the host), ``verify_torch``, ``residual``, the budgets of
mentored decoding, and the loop of ``speculate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts import proposals
from cdec.samplers.drafts.verify_kernels import DRAWN, ONE_HOT, PLAIN
from cdec.samplers.walks.categorical_kernels import NONE
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.step import Step


@dataclass(frozen=True, slots=True)
class Level:
    """The proposals to the W walks of a step, in their order; none where ``kinds`` is PLAIN.

    Attributes:
        kinds: int64[W] PLAIN, ONE_HOT (a guess) or DRAWN. events: int64[W]. rows: int64[W].
        scores, log_normalizer: Of the draft, as in ``Proposal``.
        forced: bool[W] whether the constraint leaves nothing else.
    """

    kinds: NDArray[np.int64]
    events: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: Any
    log_normalizer: Any
    forced: NDArray[np.bool_]

    @classmethod
    def of(cls, proposal: proposals.Proposal | None, walks: NDArray[np.int64]) -> Level:
        """Line a proposal up with the walks (int64[W] of the round, ascending) of a step."""
        n = len(walks)
        kinds, said = np.full(n, PLAIN), np.full(n, NONE)
        rows, forced = np.full(n, -1), np.zeros(n, np.bool_)
        scores, log_normalizer = np.zeros((0, 1)), np.zeros(0)
        if proposal is not None and n:
            place = np.searchsorted(proposal.walks, walks)
            place = np.minimum(place, len(proposal.walks) - 1)
            at = np.flatnonzero(proposal.walks[place] == walks)
            place = place[at]
            own = proposal.kinds[place]
            kinds[at] = np.where(own == proposals.DRAWN, DRAWN, ONE_HOT)
            forced[at] = own == proposals.FORCED
            said[at], rows[at] = proposal.events[place], proposal.rows[place]
            scores, log_normalizer = proposal.scores, proposal.log_normalizer
        return cls(kinds, said, rows, scores, log_normalizer, forced)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a level, W walks at N nodes.

    Attributes:
        chosen: The events taken.
        accepted: bool[W] whether the walk's proposal was taken.
        log_ratio: float64[W] log of the target's law over the law aimed at, at the event.
        spent: float64[W] min(limit, KL(target || draft)) in nats where a proposal was verified.
        charged: float64[W] KL(target || law aimed at) there.
    """

    chosen: SampledEvents
    accepted: NDArray[np.bool_]
    log_ratio: NDArray[np.float64]
    spent: NDArray[np.float64]
    charged: NDArray[np.float64]


class Judge(Protocol):
    """Chooses the events of a step of which some were proposed."""

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Return the events of the walks ``alive`` (int64[W]), and which proposals they took."""
