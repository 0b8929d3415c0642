"""Greedy decoding: the most probable allowed event at every prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.run import DraftOptions, DraftRun
from cdec.samplers.drafts.speculate import decode as decode_drafted
from cdec.samplers.drafts.verify import Comparer
from cdec.samplers.options import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import chooser, decode
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.selection import chunks

if TYPE_CHECKING:
    from cdec.samplers.drafts.counts import Counts


class GreedySampler(Sampler):
    """Takes the most probable event within the mask; all draws of a prompt are the same text.

    The end of the text is one event, whose probability is summed over all end ids; of equally
    probable events the lowest token id is taken, and the end last.

    Args:
        opportunistic: Ask for the mask only where the model's own choice is not allowed: the same
            texts; ``log_candidate_weight`` is then null.
        speculate: Most tokens guessed in a row and evaluated ahead; 0 is off. Changes no text.
        speculate_threshold: A token is guessed while its estimated probability is above this.
        counts: What guesses are learnt from, and added to; None begins with none.
        max_walks: Texts that decode together; bounds memory, changes no result.

    Raises:
        UsageError: An option out of range.
    """

    method: ClassVar[Method] = METHODS["greedy"]
    exactness = "heuristic"
    opportunistic: bool
    speculate: int
    speculate_threshold: float
    counts: Counts | None
    max_walks: int

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.guessing = DraftOptions.of_counts(
            self.speculate, self.speculate_threshold, self.counts
        )

    def run(self, batch: Batch) -> Outcome:
        """Decode one text for every draw of ``batch``."""
        if self.guessing is None:
            return self._run(batch, None)
        with self.guessing.on(batch) as run:
            return run.account(self._run(batch, run))

    def _run(self, batch: Batch, run: DraftRun | None) -> Outcome:
        parts = [
            self._decode(batch, draws, run) for draws in chunks(len(batch.seeds), self.max_walks)
        ]
        chosen = concatenate(parts)
        is_known = chosen.is_complete & (not self.opportunistic)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full(len(chosen.lengths), np.nan),
            log_candidate_weight=np.where(is_known, chosen.log_x, np.nan),
        )

    def _decode(self, batch: Batch, draws: NDArray[np.int64], run: DraftRun | None) -> Candidates:
        where = batch, batch.draw_request[draws], batch.draw_index[draws], None
        if run is None:
            return decode(*where, is_opportunistic=self.opportunistic)
        choose = chooser(None, is_opportunistic=self.opportunistic)
        return decode_drafted(*where, run, Comparer(choose), weighed=False)
