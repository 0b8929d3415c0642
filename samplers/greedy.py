"""Greedy decoding: the most probable allowed event at every prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cdec.samplers.base import DEFAULT_MAX_WALKS, Sampler, require
from cdec.samplers.batch import Batch
from cdec.samplers.candidates import concatenate
from cdec.samplers.decoding import decode
from cdec.samplers.outcome import Outcome
from cdec.samplers.selection import chunks
from cdec.samplers.speculation import DEFAULT_THRESHOLD, Speculation

if TYPE_CHECKING:
    from cdec.samplers.counts import Counts


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

    name: ClassVar[str] = "greedy"
    exactness = "heuristic"

    def __init__(
        self,
        *,
        opportunistic: bool = False,
        speculate: int = 0,
        speculate_threshold: float = DEFAULT_THRESHOLD,
        counts: Counts | None = None,
        max_walks: int = DEFAULT_MAX_WALKS,
    ) -> None:
        self.opportunistic = bool(opportunistic)
        self.speculation = Speculation.of(speculate, speculate_threshold, counts)
        self.max_walks = require("max_walks", max_walks, at_least=1)

    def run(self, batch: Batch) -> Outcome:
        """Decode one text for every draw of ``batch``."""
        speculator = self.speculation.on(batch)
        chosen = concatenate(
            [
                decode(
                    batch,
                    batch.draw_request[draws],
                    batch.draw_index[draws],
                    None,
                    is_opportunistic=self.opportunistic,
                    speculator=speculator,
                )
                for draws in chunks(len(batch.seeds), self.max_walks)
            ]
        )
        is_known = chosen.is_complete & (not self.opportunistic)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=np.full(len(chosen.lengths), np.nan),
            log_candidate_weight=np.where(is_known, chosen.log_x, np.nan),
            per_draw={} if speculator is None else {"acceptance_rate": speculator.rates()},
            wasted=None if speculator is None else speculator.wasted(),
        )
