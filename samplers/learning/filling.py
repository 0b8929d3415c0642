"""Trees filled by searches: what ``topn`` and ``beam`` looked at, kept for ``asap`` and ``exact``.

A search draws nothing, so it counts as no candidate of ASAp (Park et al. 2024, arXiv 2405.21047,
which leaves other ways to fill the tree to future work). But each prefix that it evaluated has an
exact mass, its dead ends are mass that is gone, and its texts are mass that is found. All that is
true whoever found it: bounds stay bounds, and the law of later draws is the one that the tree says,
as if candidates had come by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.learning.descent import Descent
from cdec.samplers.learning.saved import level_order
from cdec.samplers.options import DEFAULT_TREE_CACHE
from cdec.samplers.prefix_tree import EVALUATED, TERMINAL, Visit
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.decoding import chunks, log_truncated_mass, note_step
from cdec.samplers.walks.frontier import Frontier, Step

if TYPE_CHECKING:
    from cdec.samplers.learning.rounds import SavedTree
    from cdec.samplers.prefix_tree import PrefixTree


_PASS_BYTES = 64 << 20
"""Bytes of distributions that are looked at together."""


@contextmanager
def filled(batch: Batch, file: SavedTree | None, round_size: int) -> Iterator[None]:
    """Enter into the tree of a file what a search of the batch's one record visits meanwhile.

    The search knows nothing of what the file holds, so its results are what they are without it.

    Args:
        batch: Of one record, with nothing visited yet.
        file: Where the tree is kept; None keeps none.
        round_size: A note for readers of the file.

    Raises:
        CdecError: The file cannot be used; before anything is searched.

    Cost: each visited prefix once more, of which the model's cache spares what it still holds.
    """
    if file is None:
        yield
        return
    with Batch(batch.model, batch.requests, stop_loops=batch.stop_loops) as known:
        descent = Descent(known, DEFAULT_TREE_CACHE)
        candidates = file.load(known)
        yield
        _replay(batch, known, descent)
        file.save(known, candidates, round_size)


def _replay(batch: Batch, known: Batch, descent: Descent) -> None:
    """Visit in ``known`` all that was visited in ``batch``, level by level."""
    nodes = level_order(batch, 0)
    depth, parent = batch.tree["depth"][nodes], batch.tree["parent"][nodes]
    edge = batch.tree["edge"][nodes]
    everyone = np.zeros(1, np.int64)
    frontier, above = Frontier.at_start(known, everyone, everyone), nodes[:1]
    evaluated = []
    for level in range(int(depth.max()) - int(depth[0]) + 1):
        if level:
            # A search may follow a guess to what has no probability: no mass is found there.
            is_real = np.isin(parent, above) & (edge > -np.inf)
            mine = np.flatnonzero((depth == depth[0] + level) & is_real)
            order = np.argsort(above)
            rows = order[np.searchsorted(above[order], parent[mine])]
            tokens = batch.tree["token"][nodes[mine]].astype(np.int64)
            frontier = frontier.advance(rows, tokens, edge[mine])
            above = nodes[mine]
        evaluated.append(_visited(frontier, batch.tree, above))
    descent.weigh(np.concatenate(evaluated))


def _visited(places: Frontier, tree: PrefixTree, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Record prefixes as they stand in another tree; return those that were evaluated, int64[n].

    Args:
        places: W prefixes. tree: Of the search. nodes: int64[W] their contexts there.
    """
    flags = tree["flags"][nodes]
    is_text = flags & TERMINAL > 0
    whole = places.take(np.flatnonzero(is_text))
    nothing = np.zeros(len(whole.context))
    places.batch.tree.visit(whole, Visit(nothing, evaluated=False, exact=True, terminal=True))
    is_asked = ~is_text & (flags & EVALUATED > 0)
    left = places.take(np.flatnonzero(~is_text & ~is_asked))
    # What is cut is weighed; what is left besides was given up for a loop.
    left.take(np.flatnonzero(~left.is_cut())).give_up()
    asked = places.take(np.flatnonzero(is_asked))
    for rows in chunks(
        len(asked.context), _PASS_BYTES // (4 * places.batch.model.vocabulary.width)
    ):
        step = Step.of(asked.take(rows))
        note_step(step, events.best(step, 1), log_truncated_mass(step))
    return asked.context
