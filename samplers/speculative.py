"""Speculative sampling: masked or greedy decoding, several tokens a pass of the target.

A draft proposes, one pass of the target verifies (Leviathan et al. 2023, Chen et al. 2023), and the
constraint masks both. The law is the masked target's, so as biased with respect to Q as ``masked``,
and its weight is the same sum of log Z, which the target's scores give for free.

With ``ratio`` the rule is the one that Constrained Decoding with Speculative Lookaheads prints and
counts with (Nakshatri et al. 2025, Tables 7b and 8b): the draft proposes its most probable token x
and it is kept with probability min(1, q(x) / p(x)), as if it had been drawn from p. So x comes with
that probability where its own is q(x), and all else with what is left, in proportion to
max(0, q - p): no law of the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft, DraftOptions
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.method import Method
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.mass import UNKNOWN
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.wrappers import draft_of


class SpeculativeSampler(Sampler):
    """Draws from the masked target, or takes its most probable events, with the help of a draft.

    Args:
        greedy: Take the most probable events: the texts of ``greedy``.
        ratio: Keep the draft's most probable tokens by the ratio rule of drawn ones; ``log_weight``
            and the mass are then null, and the law depends on ``gamma``.

    Raises:
        UsageError: No draft; ``ratio`` with ``greedy``, or without a draft model that has a law.
    """

    method: ClassVar[Method] = METHODS["speculative"]
    greedy: bool
    ratio: bool
    max_walks: int

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        plain = GreedySampler if self.greedy else MaskedSampler
        self._plain: Sampler = plain(max_walks=self.max_walks)

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse the ratio rule where there is no ratio."""
        if options["ratio"] and options["counts"] is not None:
            raise UsageError(
                "`ratio` and `counts` were both given: with `ratio` the law depends on what was "
                "proposed, and counts change with every text",
                hint="Give one of `ratio` and `counts`.",
                option="ratio",
            )
        is_greedy = options["greedy"] or options["draft_temperature"] == 0.0
        if options["ratio"] and (is_greedy or options["draft"] in (COUNTS, LOOKUP)):
            raise UsageError(
                "`ratio` is about the probability that a draft model gives its token, and there is "
                "none",
                hint="Give a model as `draft`, at a temperature above 0, and no `greedy`.",
                option="ratio",
            )

    @classmethod
    def draft_of(cls, options: Mapping[str, Any]) -> DraftOptions | None:
        """As ``Sampler.draft_of``; with the ratio rule the draft decides what is drawn."""
        found = super().draft_of(options)
        return draft_of(options, decides=True) if options["ratio"] else found

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
        outcome = self._plain.run(batch, draft)
        if not self.ratio:
            return outcome
        nothing = np.full(len(outcome.log_weight), np.nan)
        unknown = {**UNKNOWN, "ess": None, "length_mass_upper": None}
        return replace(
            outcome,
            log_weight=nothing,
            log_candidate_weight=nothing,
            per_request={
                number: {**fields, **unknown} for number, fields in outcome.per_request.items()
            },
        )
