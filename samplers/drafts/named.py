"""Drafts as options name them: what proposes tokens, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdec.core.errors import UsageError
from cdec.core.models.language_model import LanguageModel
from cdec.samplers.drafts.base import DraftOptions
from cdec.samplers.drafts.counts import Counts, CountsDrafting, LookupDrafting
from cdec.samplers.drafts.joint import JointDrafting
from cdec.samplers.drafts.lengths import AcceptedLengths, GivenLengths, PayingLengths
from cdec.samplers.drafts.models import ModelDrafting
from cdec.samplers.drafts.pace import Pace
from cdec.samplers.drafts.speculate import DraftRun, Lengths
from cdec.samplers.options import ADAPTIVE, COUNTS, DEFAULT_MAX_WALKS, LOOKUP

if TYPE_CHECKING:
    from cdec.samplers.drafts.proposals import Drafting
    from cdec.samplers.walks.batch import Batch


@dataclass(frozen=True, slots=True)
class NamedDraft(DraftOptions):
    """A draft by name, and how many tokens it proposes.

    Attributes:
        draft: A language model of the same vocabulary, ``counts`` or ``prompt-lookup``.
        gamma: Proposals before each verification; ``auto`` makes as many as pay, by the clock, or
            as each text accepts where they decide what is drawn.
        temperature: Of a draft model; 0 proposes its most probable tokens. None is the target's
            warping, and 0 where guesses are only compared.
        counts: What ``counts`` guesses from and adds to. Beside a model they are asked first, and
            the model where they say nothing; None asks the model alone.
        freeze_counts: Whether nothing is added.
        threshold: Estimated probability from which it guesses; None is that of the counts.
        cost_ratio: c, the cost of a draft call in target calls; None leaves ``cost_per_token``
            unknown.
        is_verified: Whether the target verifies proposals; else a draft only looks ahead, and no
            acceptance is told.
        decides: Whether what is drawn depends on what is proposed.
        takes_best: Whether a draft model proposes its most probable events as if it had drawn them.
        most_prefixes: That one pass of the target evaluates, where ``gamma`` is left to the clock.
        pace: What is known of what pays; it lasts from batch to batch.
    """

    draft: LanguageModel | str
    gamma: int | str = ADAPTIVE
    temperature: float | None = None
    counts: Counts | None = None
    freeze_counts: bool = False
    threshold: float | None = None
    cost_ratio: float | None = None
    is_verified: bool = True
    decides: bool = False
    takes_best: bool = False
    most_prefixes: int = DEFAULT_MAX_WALKS
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pace", Pace(reads_texts=not isinstance(self.draft, str)))

    @property
    def is_paced(self) -> bool:
        """True where the clock says how many tokens are proposed."""
        return self.gamma == ADAPTIVE and not self.decides

    def on(self, batch: Batch) -> DraftRun:
        """Open the draft for a batch; as ``DraftOptions.on``."""
        return DraftRun(
            batch, self._drafting(batch), self._lengths(batch), self.cost_ratio, self.is_verified
        )

    def _lengths(self, batch: Batch) -> Lengths:
        longest = int(batch.limits.max(initial=0))
        if self.is_paced:
            return PayingLengths(self.pace, self.most_prefixes)
        if self.gamma == ADAPTIVE:
            return AcceptedLengths(longest)
        return GivenLengths(int(self.gamma), longest)

    def _drafting(self, batch: Batch) -> Drafting:
        if self.draft == LOOKUP:
            return LookupDrafting(batch)
        if isinstance(self.draft, str):
            return self._counting(batch, Counts() if self.counts is None else self.counts)
        # A test of laws would tie what is drawn to how much was proposed, so to the clock.
        is_sure = self.is_paced and self.temperature is None
        temperature = 0.0 if is_sure else self.temperature
        model = ModelDrafting(
            batch,
            self.draft,
            temperature,
            has_law=not self.is_paced,
            takes_best=self.takes_best,
        )
        if self.counts is None:
            return model
        return JointDrafting(self._counting(batch, self.counts), model)

    def _counting(self, batch: Batch, counts: Counts) -> CountsDrafting:
        return CountsDrafting(batch, counts, self.threshold, learns=not self.freeze_counts)


def named_draft(options: Mapping[str, Any], is_verified: bool, decides: bool) -> NamedDraft:
    """Return the draft that a sampler's options name, as ``registry.draft_of``.

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
    counts = options.get("counts")
    is_frozen = bool(options.get("freeze_counts"))
    if is_frozen and counts is None:
        raise UsageError(
            "`freeze_counts` was given without `counts`: there is nothing to guess from",
            hint="give the file that `save_counts` wrote, or let counts learn",
            option="freeze_counts",
        )
    return NamedDraft(
        draft,
        options["gamma"],
        options["draft_temperature"],
        # subtle: what they learn lasts from batch to batch; those that hold nothing are false.
        Counts() if counts is None and draft == COUNTS else counts,
        cost_ratio=options["cost_ratio"],
        is_verified=is_verified,
        decides=decides,
        takes_best=bool(options.get("ratio")),
        most_prefixes=options["max_walks"],
        freeze_counts=is_frozen,
        threshold=options.get("count_threshold"),
    )
