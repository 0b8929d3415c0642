"""CountGuesses: the next token that counts of (scanner state, parser substate) -> token suggest.

DOMINO (arXiv 2403.06988) section 3.6. Constraints that have no ``speculation_keys`` are
left alone: sets, whose forced runs are evaluated ahead anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.counts import Counts, CountTable, fingerprint_of
from cdec.samplers.walks.categorical_kernels import NONE

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Frontier
    from cdec.samplers.walks.step import Step


class CountGuesses:
    """Counts at work on a batch.

    Args:
        batch: The open requests.
        counts: Used and added to.

    Raises:
        TokenizerMismatchError: The counts were learnt with another vocabulary.
    """

    def __init__(self, batch: Batch, counts: Counts) -> None:
        counts.require_vocabulary(batch.model.vocabulary.vocabulary_hash)
        self._batch = batch
        self._threshold = counts.threshold
        self._tables: dict[int, CountTable] = {}
        for request, number in zip(batch.requests, batch.session_of.tolist(), strict=True):
            constraint = request.constraint
            if number >= 0 and constraint is not None and constraint.has_speculation_keys:
                self._tables[number] = counts.table(fingerprint_of(constraint))

    def guess(self, walks: Frontier) -> NDArray[np.int64]:
        """Return the token that is likely enough to be next, int64[n]; -1 where none is."""
        tokens = np.full(len(walks.request), -1, np.int64)
        for table, which, keys in self._keys(walks.request, walks.state):
            for row, key in zip(which, keys, strict=True):
                token, probability = table.likeliest(key)
                if probability > self._threshold:
                    tokens[row] = token
        return tokens

    def learn(self, step: Step, chosen: SampledEvents) -> None:
        """Count the events of a step, one a walk, in the order of the walks."""
        nodes = step.nodes
        which_key: dict[int, tuple[CountTable, int]] = {}
        for table, rows, keys in self._keys(nodes.request, nodes.state):
            which_key.update((row, (table, key)) for row, key in zip(rows, keys, strict=True))
        if not which_key:
            return
        for node, event in zip(step.walk_node.tolist(), chosen.tokens.tolist(), strict=True):
            known = which_key.get(node)
            if known is not None and event != NONE:
                known[0].add(known[1], event)

    def _keys(
        self, request: NDArray[np.int64], states: Any
    ) -> list[tuple[CountTable, list[int], list[int]]]:
        """Return for each session that has keys its table, the rows it holds and their keys."""
        batch = self._batch
        used = batch.session_of[request]
        found = []
        for number in np.unique(used).tolist():
            if number in self._tables:
                rows = np.flatnonzero(used == number)
                keys = batch.sessions[number].speculation_keys(states[batch.index(rows)])
                found.append((self._tables[number], rows.tolist(), batch.to_host(keys).tolist()))
        return found
