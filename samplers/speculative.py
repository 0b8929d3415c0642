"""Speculative sampling: masked or greedy decoding, several tokens a pass of the target.

A draft proposes, one pass of the target verifies (Leviathan et al. 2023, Chen et al. 2023), and the
constraint masks both. The law is the masked target's, so as biased with respect to Q as ``masked``,
and its weight is the same sum of log Z, which the target's scores give for free.
"""

from __future__ import annotations

from typing import Any, ClassVar

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.registry import METHODS, Method
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome


class SpeculativeSampler(Sampler):
    """Draws from the masked target, or takes its most probable events, with the help of a draft.

    Args:
        draft: A language model of the same vocabulary, ``counts`` (what a grammar's states were
            followed by before) or ``prompt-lookup`` (what the last tokens were followed by before).
        gamma: Tokens proposed before each verification, or ``auto``, which adapts it to each text.
        draft_temperature: Of a draft model, instead of the target's warping; 0 is a greedy draft.
        greedy: Take the most probable events: the texts of ``greedy``.
        counts: ``counts``: what it is learnt from, and added to; None begins with none.
        cost_ratio: Cost of a draft call in target calls, for ``cost_per_token``.
        max_walks: Prefixes that are evaluated together; bounds memory, changes no result.

    Raises:
        UsageError: No draft, or an option out of range.
    """

    method: ClassVar[Method] = METHODS["speculative"]
    greedy: bool
    max_walks: int

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        plain = GreedySampler if self.greedy else MaskedSampler
        self._plain: Sampler = plain(max_walks=self.max_walks)

    @property
    def exactness(self) -> str:
        """That of the method without a draft."""
        return self._plain.exactness

    @property
    def takes_most_probable(self) -> bool:
        """Whether texts are the most probable ones."""
        return self.greedy

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        return self._plain.run(batch, draft)
