"""DraftRun: a draft at work on a batch, how far it runs ahead, and what the records say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
DEFAULT_THRESHOLD = 0.4
"""Estimated probability above which counts guess a token. Below a half, so that what was seen once
is tried: on JSON of a fixed shape twice as many tokens a pass as with 0.5 at first, no more later;
lower still, and the guesses that fail cost what the others save (measured)."""
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
        counts: What ``counts`` begins with and adds to.
        threshold: ``counts`` guesses a token while its estimated probability is above this.
        cost_ratio: c, the cost of a draft call in target calls; None leaves ``cost_per_token``
            unknown.
    """

    draft: LanguageModel | str
    gamma: int | str = DEFAULT_GAMMA
    temperature: float | None = None
    counts: Counts | None = None
    threshold: float = DEFAULT_THRESHOLD
    cost_ratio: float | None = None

    @classmethod
    def of(
        cls,
        draft: LanguageModel | str | None,
        gamma: int | str = DEFAULT_GAMMA,
        temperature: float | None = None,
        counts: Counts | None = None,
        threshold: float = DEFAULT_THRESHOLD,
        cost_ratio: float | None = None,
    ) -> DraftOptions | None:
        """Check the options of a sampler; None where there is no draft.

        Raises:
            UsageError: A value out of range, or a name that is no kind of draft.
        """
        if draft is None:
            return None
        _require_kind(draft)
        # subtle: counts that hold nothing yet are false.
        learnt = Counts() if counts is None else counts
        return cls(draft, gamma, temperature, learnt, threshold, cost_ratio)

    @classmethod
    def of_counts(cls, steps: int, threshold: float, counts: Counts | None) -> DraftOptions | None:
        """Return the options of ``speculate``: up to ``steps`` guesses from counts; None for 0."""
        options = cls.of(COUNTS, max(1, steps), counts=counts, threshold=threshold)
        return options if steps else None

    @property
    def rows(self) -> int:
        """Most prefixes of a walk that one pass of the target evaluates."""
        return 1 + (LONGEST if self.gamma == ADAPTIVE else int(self.gamma))

    def on(self, batch: Batch) -> DraftRun:
        """Open the draft for a batch.

        Raises:
            TokenizerMismatchError, UsageError: The draft does not fit the model.
        """
        return DraftRun(batch, self, self._drafting(batch))

    def _drafting(self, batch: Batch) -> Drafting:
        if self.draft == COUNTS:
            counts = Counts() if self.counts is None else self.counts
            return CountsDrafting(batch, counts, self.threshold)
        if isinstance(self.draft, str):
            return LookupDrafting(batch)
        return ModelDrafting(batch, self.draft, self.temperature)


def _require_kind(draft: object) -> None:
    if isinstance(draft, LanguageModel) or draft in (COUNTS, LOOKUP):
        return
    raise UsageError(
        f"`draft` is {draft!r}, expected a language model, {COUNTS!r} or {LOOKUP!r}",
        hint="Load the draft with cdec.core.load_model.",
        option="draft",
    )


def require_options(options: DraftOptions | None) -> DraftOptions:
    """Return the options of a draft.

    Raises:
        UsageError: There is none.
    """
    if options is None:
        raise UsageError(
            "there is no draft to propose tokens",
            hint="Give draft=load_model(...) with a smaller model of the same vocabulary, "
            "'counts' or 'prompt-lookup'; on the command line --draft PATH.",
            option="draft",
        )
    return options


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
        """
        self.ledger.replace("draft_calls", *self.drafting.calls())
        names = ("verified", "accepted", "rounds", "draft_calls", TARGET_CALLS)
        totals = [self.ledger.totals(name, owners) for name in names]
        verified, accepted, rounds, drafts, calls = totals
        return {
            "acceptance_rate": _ratios(accepted, verified),
            "accepted_length": _ratios(accepted, rounds),
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
