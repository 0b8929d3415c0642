"""DraftRun: a draft at work on a batch, how far it runs ahead, and what the records say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.base import Draft
from cdec.samplers.drafts.ledger import TARGET_CALLS, Ledger, Tested
from cdec.samplers.drafts.proposals import Drafting
from cdec.samplers.options import ADAPTIVE

if TYPE_CHECKING:
    from typing import Self

    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.outcome import Outcome

DEFAULT_GAMMA = 4
LONGEST = 16
"""Most proposals of an adaptive draft."""


def opened(draft: Draft | None) -> DraftRun:
    """Return the draft of a method that needs one: its constructor has seen to it."""
    if not isinstance(draft, DraftRun):
        raise RuntimeError("a method that needs a draft runs without one")
    return draft


class DraftRun(Draft):
    """A draft at work on a batch.

    Args:
        batch: The open requests.
        drafting: Makes proposals.
        gamma: Proposals before each verification, or ``auto``.
        cost_ratio: c, the cost of a draft call in target calls; None where it is not known.
        is_verified: Whether the target verifies proposals; else no acceptance is told.

    Attributes:
        drafting: Makes proposals.
        ledger: What they cost and gained.
    """

    def __init__(
        self,
        batch: Batch,
        drafting: Drafting,
        gamma: int | str,
        cost_ratio: float | None,
        is_verified: bool,
    ) -> None:
        self.drafting = drafting
        self.ledger = Ledger(batch)
        self._batch = batch
        self._most = gamma
        self._cost_ratio = cost_ratio
        self._is_verified = is_verified
        self._gamma = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        self.drafting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.drafting.__exit__()

    @property
    def rows(self) -> int:
        """Most prefixes of a walk that one pass of the target evaluates."""
        return 1 + (LONGEST if self._most == ADAPTIVE else int(self._most))

    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""
        first = DEFAULT_GAMMA if self._most == ADAPTIVE else int(self._most)
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
        if self._most == ADAPTIVE:
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
        if self._is_verified:
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
        ratio = self._cost_ratio if self.drafting.calls_model else 0.0
        if ratio is None:
            return [None] * len(events)
        return _ratios(ratio * draft_calls + target_calls, events.astype(np.float64))


def _ratios(above: NDArray[Any], below: NDArray[Any]) -> list[float | None]:
    return [
        float(a / b) if b else None for a, b in zip(above.tolist(), below.tolist(), strict=True)
    ]
