"""DraftRun: a draft at work on a batch, how far it runs ahead, and what the records say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.models.base import LanguageModel
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.drafts.guesses import CountsDrafting, LookupDrafting
from cdec.samplers.drafts.ledger import TARGET_CALLS, Ledger, Tested
from cdec.samplers.drafts.model_draft import ModelDrafting
from cdec.samplers.drafts.proposals import Drafting
from cdec.samplers.options import ADAPTIVE, COUNTS, LOOKUP

if TYPE_CHECKING:
    from typing import Self

    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.outcome import Outcome

DEFAULT_GAMMA = 4
LONGEST = 16
"""Most proposals of an adaptive draft."""


@dataclass(frozen=True, slots=True)
class DraftOptions:
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

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DraftOptions | None:
        """Return the draft that a sampler's options name; None where they name none.

        Raises:
            UsageError: It is neither a language model nor a kind of draft.
        """
        draft = options.get("draft")
        if draft is None:
            return None
        if not isinstance(draft, LanguageModel) and draft not in (COUNTS, LOOKUP):
            raise UsageError(
                f"`draft` is {draft!r}, expected a language model, {COUNTS!r} or {LOOKUP!r}",
                hint="Load the draft with cdec.core.load_model.",
                option="draft",
            )
        # subtle: counts that hold nothing yet are false.
        counts = options.get("counts")
        return cls(
            draft,
            options["gamma"],
            options["draft_temperature"],
            Counts() if counts is None else counts,
            options["cost_ratio"],
        )

    def on(self, batch: Batch) -> DraftRun:
        """Open the draft for a batch.

        Raises:
            TokenizerMismatchError, UsageError: The draft does not fit the model.
        """
        return DraftRun(batch, self, self._drafting(batch))

    def _drafting(self, batch: Batch) -> Drafting:
        if self.draft == COUNTS:
            return CountsDrafting(batch, self.counts)
        if isinstance(self.draft, str):
            return LookupDrafting(batch)
        return ModelDrafting(batch, self.draft, self.temperature)


def opened(draft: DraftRun | None) -> DraftRun:
    """Return the draft of a method that needs one: its constructor has seen to it."""
    if draft is None:
        raise RuntimeError("a method that needs a draft runs without one")
    return draft


class DraftRun:
    """A draft at work on a batch; a context manager that releases its contexts.

    Attributes:
        drafting: Makes proposals.
        ledger: What they cost and gained.
    """

    def __init__(self, batch: Batch, options: DraftOptions, drafting: Drafting) -> None:
        self.drafting = drafting
        self.ledger = Ledger(batch)
        self._batch = batch
        self._options = options
        self._gamma = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        self.drafting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.drafting.__exit__()

    @property
    def rows(self) -> int:
        """Most prefixes of a walk that one pass of the target evaluates."""
        gamma = self._options.gamma
        return 1 + (LONGEST if gamma == ADAPTIVE else int(gamma))

    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""
        first = DEFAULT_GAMMA if self._options.gamma == ADAPTIVE else int(self._options.gamma)
        # No text is longer, and larger numbers may not fit.
        longest = int(self._batch.limits.max(initial=0))
        self._gamma = np.full(n, min(first, longest), np.int64)

    def gammas(self, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many proposals each candidate gets now, int64[n]."""
        return self._gamma[alive]

    def close_round(self, walks: Tested) -> None:
        """Book what a round gave to each of its walks."""
        owner = walks.start.request, walks.start.draw
        tested, alive = walks.verified > 0, walks.candidates
        self.ledger.add("verified", *owner, walks.verified)
        self.ledger.add("accepted", *owner, walks.accepted)
        self.ledger.add("rounds", *owner, tested)
        if self._options.gamma == ADAPTIVE:
            # subtle: only what was put to the test counts; to look at proposals behind a refusal
            # would tie the next draws, which use their random numbers again, to this decision.
            after = np.where(walks.refused, walks.accepted + 1, self._gamma[alive] + 1)
            self._gamma[alive] = np.where(tested, np.minimum(after, LONGEST), self._gamma[alive])

    def account(self, outcome: Outcome) -> Outcome:
        """Add what the draft cost and gained to an outcome."""
        owners = outcome.owners
        calls = self.ledger.totals(TARGET_CALLS, owners).astype(np.int64)
        return replace(
            outcome,
            per_draw={**outcome.per_draw, **self.fields(outcome.chosen.events, owners)},
            calls=calls.tolist(),
            wasted=self.ledger.wasted(owners).tolist(),
        )

    def fields(
        self, events: NDArray[np.int64], owners: Mapping[int, NDArray[np.int64]] | None = None
    ) -> dict[str, list[Any]]:
        """Return the fields of every draw, D values each.

        Args:
            events: int64[D] tokens of each text, its end event counted. owners: As in ``Outcome``.

        Returns:
            ``acceptance_rate``, the share accepted of the proposals that were put to the test;
            ``accepted_length``, accepted proposals a verification; ``draft_calls``; and
            ``cost_per_token``, (c draft calls + target calls) / events, null where c is not known.
            Of a draft that is not verified, the last two.
        """
        self.ledger.replace("draft_calls", *self.drafting.calls())
        names = ("verified", "accepted", "rounds", "draft_calls", TARGET_CALLS)
        totals = [self.ledger.totals(name, owners) for name in names]
        verified, accepted, rounds, drafts, calls = totals
        acceptance: dict[str, list[Any]] = {}
        if self._options.is_verified:
            acceptance["acceptance_rate"] = _ratios(accepted, verified)
            acceptance["accepted_length"] = _ratios(accepted, rounds)
        return {
            **acceptance,
            "draft_calls": drafts.astype(np.int64).tolist(),
            "cost_per_token": self.costs(drafts, calls, events),
        }

    def costs(
        self, draft_calls: NDArray[Any], target_calls: NDArray[Any], events: NDArray[np.int64]
    ) -> list[float | None]:
        """Return the cost of each draw's events in target calls; None where c is not known."""
        ratio = self._options.cost_ratio if self.drafting.calls_model else 0.0
        if ratio is None:
            return [None] * len(events)
        return _ratios(ratio * draft_calls + target_calls, events.astype(np.float64))


def _ratios(above: NDArray[Any], below: NDArray[Any]) -> list[float | None]:
    return [
        float(a / b) if b else None for a, b in zip(above.tolist(), below.tolist(), strict=True)
    ]
