"""Observer: what is told of a batch once its draws are decided, while it is still open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdec.core.errors import CdecError
    from cdec.core.models.base import LanguageModel
    from cdec.core.sample import Sample
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.outcome import Outcome


class Observer(Protocol):
    """Looks on; decides nothing. Where there is none, nothing is computed for it."""

    def watched(self, model: LanguageModel) -> LanguageModel:
        """Return a view of the model that tells what it evaluates."""

    def note(
        self, batch: Batch, outcome: Outcome, results: Sequence[list[Sample] | CdecError]
    ) -> None:
        """Take what was drawn, and write into the samples what is found of it.

        Args:
            batch: Still open.
            outcome: What the sampler decided.
            results: The samples of each request, in draw order, or its error.
        """
