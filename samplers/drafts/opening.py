"""Opening a draft: which kind of draft the options name, and how its proposals are verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.models.base import LanguageModel
from cdec.samplers.drafts.base import DraftOptions
from cdec.samplers.drafts.counts import Counts, CountsDrafting, LookupDrafting
from cdec.samplers.drafts.models import ModelDrafting
from cdec.samplers.drafts.proposals import Drafting
from cdec.samplers.drafts.run import DEFAULT_GAMMA, DraftRun
from cdec.samplers.drafts.speculate import decode, speculate_on
from cdec.samplers.drafts.verify import Comparer, LearningVerifier
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.walks.decoding import chooser
from cdec.samplers.walks.randomness import DRAFT

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.candidates import Candidates, Recorder
    from cdec.samplers.walks.frontier import Frontier
    from cdec.samplers.walks.randomness import CandidateUniforms


@dataclass(frozen=True, slots=True)
class NamedDraft(DraftOptions):
    """What proposes tokens, and how many.

    Attributes:
        draft: A language model of the same vocabulary, ``counts`` or ``prompt-lookup``.
        gamma: Proposals before each verification; ``auto`` adapts it to every walk: one more after
            all were accepted, one more than were accepted after a refusal, at most ``LONGEST``.
        temperature: Of a draft model, instead of the target's warping; 0 is a greedy draft.
        counts: What ``counts`` guesses from and adds to.
        cost_ratio: c, the cost of a draft call in target calls; None leaves ``cost_per_token``
            unknown.
        is_verified: Whether the target verifies proposals; else a draft only looks ahead, and no
            acceptance is told.
    """

    draft: LanguageModel | str
    gamma: int | str = DEFAULT_GAMMA
    temperature: float | None = None
    counts: Counts = field(default_factory=Counts)
    cost_ratio: float | None = None
    is_verified: bool = True

    def on(self, batch: Batch) -> VerifiedDraft:
        """Open the draft for a batch; as ``DraftOptions.on``."""
        drafting = self._drafting(batch)
        return VerifiedDraft(batch, drafting, self.gamma, self.cost_ratio, self.is_verified)

    def _drafting(self, batch: Batch) -> Drafting:
        if self.draft == COUNTS:
            return CountsDrafting(batch, self.counts)
        if isinstance(self.draft, str):
            return LookupDrafting(batch)
        return ModelDrafting(batch, self.draft, self.temperature)


def named_draft(options: Mapping[str, Any], is_verified: bool) -> NamedDraft:
    """Return the draft that a sampler's options name, as ``base.draft_of``.

    Raises:
        UsageError: It is neither a language model nor a kind of draft.
    """
    draft = options["draft"]
    if not isinstance(draft, LanguageModel) and draft not in (COUNTS, LOOKUP):
        raise UsageError(
            f"`draft` is {draft!r}, expected a language model, {COUNTS!r} or {LOOKUP!r}",
            hint="Load the draft with cdec.core.load_model.",
            option="draft",
        )
    # subtle: counts that hold nothing yet are false.
    counts = options.get("counts")
    return NamedDraft(
        draft,
        options["gamma"],
        options["draft_temperature"],
        Counts() if counts is None else counts,
        options["cost_ratio"],
        is_verified,
    )


class VerifiedDraft(DraftRun):
    """A draft at work whose proposals one pass of the target verifies."""

    def decode(
        self,
        batch: Batch,
        request: NDArray[np.int64],
        draw: NDArray[np.int64],
        uniforms: CandidateUniforms | None,
        *,
        repeats: Mapping[str, Any] | None = None,
        weighed: bool = True,
    ) -> Candidates:
        """Walk from the prompts to the ends; as ``Draft.decode``."""
        judge = None if repeats is None else Comparer(chooser(uniforms, **repeats))
        return decode(batch, request, draw, uniforms, self, judge, weighed=weighed)

    def learn_on(
        self,
        record: Recorder,
        alive: NDArray[np.int64],
        frontier: Frontier,
        uniforms: CandidateUniforms,
    ) -> None:
        """Walk on to the ends; as ``Draft.learn_on``."""
        judge = LearningVerifier(uniforms)
        speculate_on(record, alive, frontier, judge, self, uniforms.stream(DRAFT))
