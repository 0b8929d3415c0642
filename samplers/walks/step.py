"""Step: a frontier evaluated at its distinct prefixes, with the runs that begin there.

A *run* is a chain of prefixes each with one possible token: the tail of a set's member, a forced
prefix or suffix, the fixed parts of a grammar. All its tokens go through the model in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks.frontier import Frontier, distinct

_RUN_BYTES = 64 << 20
"""Bytes of distributions that runs may fill in one step; what is left over is evaluated later."""
_HOST_NODES = 32
"""Most nodes of a step whose runs are evaluated ahead on the CPU. A small batch waits for memory,
so a run is nearly free (half the time for one prompt, measured); a large one computes, and rows of
unequal length are padded (a fifth slower with 128 walks)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A frontier evaluated: its N nodes and the model's distributions there.

    Attributes:
        nodes: One walk for every distinct (request, context), of the lowest draw there.
        walk_node: int64[W] node of each walk.
        walk_starts: int64[N + 1], walk_order: int64[W]: the walks by node.
        scores: float[M, V], log_normalizer: float64[M], rows: int64[N]: log P(t | node i) is
            ``scores[rows[i], t] - log_normalizer[rows[i]]``.
    """

    nodes: Frontier
    walk_node: NDArray[np.int64]
    walk_starts: NDArray[np.int64]
    walk_order: NDArray[np.int64]
    scores: Any
    log_normalizer: Any
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, frontier: Frontier, *, look_ahead: bool = False) -> Step:
        """Find the nodes of ``frontier`` and evaluate them in one batch of distinct prefixes.

        Args:
            frontier: Live walks; ``ahead`` is written.
            look_ahead: Evaluate the forced runs that begin at the nodes in the same forward pass;
                for walks that will surely follow them.
        """
        order, starts, walk_node = distinct(frontier.context, frontier.request, frontier.draw)
        nodes = frontier.take(order[starts])
        if look_ahead:
            lengths = cover_runs(nodes)
            np.copyto(frontier.ahead, lengths[walk_node], where=~frontier.in_run)
        distributions = frontier.batch.model.evaluate(nodes.context)
        return cls(
            nodes=nodes,
            walk_node=walk_node,
            walk_starts=np.append(starts, len(order)),
            walk_order=order,
            scores=distributions.scores,
            log_normalizer=distributions.log_normalizer,
            rows=distributions.rows,
        )

    @property
    def depth(self) -> NDArray[np.int64]:
        """Tokens drawn so far by each walk, int64[W]."""
        return self.nodes.depth[self.walk_node]

    def of_nodes(self, nodes: NDArray[np.int64]) -> Step:
        """Return this step for some of its nodes (int64[n], ascending) and the walks there."""
        return self.of_walks(np.flatnonzero(np.isin(self.walk_node, nodes)))[0]

    def without_limit(self) -> Step:
        """Return this step as if no text had a length limit."""
        return replace(self, nodes=replace(self.nodes, depth=np.full(len(self.rows), -1)))

    def of_walks(self, walks: NDArray[np.int64]) -> tuple[Step, NDArray[np.int64]]:
        """Return this step for some of its walks (int64[n]) alone, and their nodes here."""
        used, node = np.unique(self.walk_node[walks], return_inverse=True)
        node = node.reshape(-1)
        order = np.argsort(node, kind="stable")
        part = Step(
            nodes=self.nodes.take(used),
            walk_node=node,
            walk_starts=np.searchsorted(node[order], np.arange(len(used) + 1)),
            walk_order=order,
            scores=self.scores,
            log_normalizer=self.log_normalizer,
            rows=self.rows[used],
        )
        return part, used


def cover_runs(nodes: Frontier) -> NDArray[np.int64]:
    """Find the forced runs that begin at ``nodes``; evaluate them with the nodes if it pays.

    Args:
        nodes: Distinct prefixes; those a run already covers are left out.

    Returns:
        int64[N] prefixes of each node's run, 0 where there is none.
    """
    lengths = np.zeros(len(nodes.request), np.int64)
    if nodes.in_run.all():
        return lengths
    batch = nodes.batch
    alive = np.flatnonzero(~nodes.in_run)
    walk = nodes.take(alive)
    levels: list[Frontier] = []
    while alive.size:
        tokens = batch.forced(walk.request, walk.state)
        rows = np.flatnonzero((tokens >= 0) & (walk.depth < batch.limits[walk.request]))
        if not rows.size:
            break
        alive = alive[rows]
        walk = walk.advance(rows, tokens[rows], np.zeros(len(rows)))
        going = np.flatnonzero(~walk.is_done() & ~walk.is_overlong())
        alive, walk = alive[going], walk.take(going)
        lengths[alive] += 1
        levels.append(walk)
    if levels and (not batch.on_host or len(nodes.context) <= _HOST_NODES):
        _evaluate_ahead(nodes, levels)
    return lengths


def _evaluate_ahead(nodes: Frontier, levels: list[Frontier]) -> None:
    """Evaluate nodes and the prefixes of their runs, level by level, in one forward pass."""
    batch = nodes.batch
    room = _RUN_BYTES // (4 * batch.model.vocabulary.width)
    contexts = [nodes.context]
    for walk in levels:
        # Breadth first: a cut leaves every run without a gap.
        contexts.append(walk.context[:room])
        room -= len(contexts[-1])
    batch.model.evaluate(np.concatenate(contexts))
