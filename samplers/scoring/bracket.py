"""The certified bracket of P(S) that scored texts give, with masked candidates or without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.learning.tree.bracket import Bracket
from cdec.samplers.learning.tree.prefix_tree import Visit
from cdec.samplers.options import DEFAULT_MAX_WALKS
from cdec.samplers.scoring.paths import PathScores
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.selection import candidate_uniforms, chunks, draw_candidates


def mass_brackets(batch: Batch, scores: PathScores, candidates: int) -> dict[int, Bracket]:
    """Return the bracket of P(S) of every constrained request.

    The lower bound sums the distinct members along the scored and drawn paths, the upper one is
    c(root) of the prefixes evaluated under a mask.

    Args:
        batch: Open requests, one draw each.
        scores: Of their paths.
        candidates: Masked candidates to draw for each request.
    """
    _visit(batch, scores)
    constrained = np.flatnonzero((batch.session_of != FREE) & (batch.roots >= 0))
    draws = np.flatnonzero(np.isin(batch.draw_request, constrained))
    if draws.size:
        # A chunk's walks decode together; they write what they see into the tree.
        for numbers in chunks(candidates, DEFAULT_MAX_WALKS // len(draws)):
            uniforms = candidate_uniforms(batch, draws, len(numbers), int(numbers[0]))
            draw_candidates(batch, draws, uniforms)
    return {
        number: batch.tree.bounds(number, int(batch.roots[number]))
        for number in constrained.tolist()
    }


def _visit(batch: Batch, scores: PathScores) -> None:
    """Record what was evaluated under a mask, and the texts that their constraint ended."""
    nodes = replace(scores.nodes.frontier, log_edge=scores.log_edge, log_prefix=_prefixes(scores))
    inside = np.flatnonzero(scores.is_masked)
    log_z = np.minimum(scores.node_log_z[inside], 0.0)
    batch.tree.visit(nodes.take(inside), Visit(log_z, log_end=scores.node_log_end[inside]))
    ended = np.flatnonzero(scores.nodes.has_ended)
    seen = Visit(np.zeros(len(ended)), evaluated=False, terminal=True)
    batch.tree.visit(nodes.take(ended), seen)


def _prefixes(scores: PathScores) -> NDArray[np.float64]:
    """Return log P of all tokens of each node, float64[N]."""
    parent, depth = scores.nodes.parent, scores.nodes.frontier.depth
    total = scores.log_edge.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(depth == level)
        total[here] += total[parent[here]]
    return total
