"""Counts and a draft model together: counts where they are sure, else the model.

DOMINO proposes what a grammar's states were followed by, and says that this can be joined with a
draft model (Beurer-Kellner et al. 2024, arXiv 2403.06988, section 3.6). What counts guess costs no
call, so they are asked first, and the model where they say nothing. The target verifies
each proposal for what it is: a guess is taken where the target draws the same, a draw of the model
by the test of the two laws. Either keeps the target's law, whoever is asked for which token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.proposals import Drafting, Guess
from cdec.samplers.walks.frontier import NONE

if TYPE_CHECKING:
    from cdec.samplers.drafts.counts import CountsDrafting
    from cdec.samplers.drafts.models import ModelDrafting
    from cdec.samplers.drafts.proposals import Foreseen
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Frontier, Step


class JointDrafting(Drafting):
    """Counts and a draft model at work on one batch.

    Args:
        counts: Asked first. model: Asked where counts say nothing.
    """

    calls_model: ClassVar[bool] = True

    def __init__(self, counts: CountsDrafting, model: ModelDrafting) -> None:
        self.has_law = model.has_law
        self._counts, self._model = counts, model
        self._by_counts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def __exit__(self, *_: object) -> None:
        self._counts.__exit__()
        self._model.__exit__()

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the next event of each walk; as ``Drafting.guess``."""
        guess = self._counts.guess(walks, None)
        said = guess.events != NONE
        self._by_counts.append((walks.request[said], walks.draw[said]))
        silent = np.flatnonzero(~said)
        if not silent.size:
            return guess
        own = self._model.guess(walks.take(silent), None if uniforms is None else uniforms[silent])
        events, rows = guess.events.copy(), guess.rows.copy()
        kinds = np.full(len(events), guess.kind)
        events[silent], rows[silent], kinds[silent] = own.events, own.rows, own.kind
        return Guess(events, kinds, rows, own.scores, own.log_normalizer)

    def learn(self, step: Step, chosen: SampledEvents) -> Foreseen | None:
        """Let the counts hear which events a step chose.

        What they would have said tells nothing of the pair, so nothing is foreseen.
        """
        self._counts.learn(step, chosen)
        return None

    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every call of the draft model, int64[n] each."""
        return self._model.calls()

    def counted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every proposal of the counts; as ``Drafting``."""
        nothing = np.zeros(0, np.int64)
        request, draw = zip((nothing, nothing), *self._by_counts, strict=True)
        return np.concatenate(request), np.concatenate(draw)
