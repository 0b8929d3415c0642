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
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome


class SpeculativeSampler(Sampler):
    """Draws from the masked target, or takes its most probable events, with the help of a draft.

    Args:
        greedy: Take the most probable events: the texts of ``greedy``.

    Raises:
        UsageError: No draft.
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
        """Exactness of the method without a draft."""
        return self._plain.exactness

    @property
    def takes_most_probable(self) -> bool:
        """True where texts are the most probable ones."""
        return self.greedy

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        return self._plain.run(batch, draft)
