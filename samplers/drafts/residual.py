"""Residual mass of prefixes: the allowed mass but for the tokens drawn there, for learning trees.

A tree whose later draws walk down it (``learning``) gives each drawn token a node of its own, and
keeps the mass of all others. Without a draft, all walks that come to a prefix come in the same
step. With one they may come in different passes, so what earlier ones drew is remembered until the
candidates are finished.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cdec.samplers.drafts.levels import Level, Verdict
from cdec.samplers.drafts.verify import Verifier
from cdec.samplers.walks.allowed import allowed_ids, host_scores
from cdec.samplers.walks.categorical_kernels import weigh
from cdec.samplers.walks.randomness import CandidateUniforms
from cdec.samplers.walks.step import Step
from cdec.samplers.walks.sum_kernels import BLOCK, positive_sum


class LearningVerifier:
    """Verifies proposals without loss, and says the residual mass of every prefix.

    Args:
        uniforms: Of the candidates that walk now; their constraints must be known.
    """

    def __init__(self, uniforms: CandidateUniforms) -> None:
        self._verifier = Verifier(uniforms)
        self._taken: dict[int, set[int]] = {}

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Choose the next events; ``log_residual`` leaves out all tokens drawn there so far."""
        verdict = self._verifier.judge(step, alive, level)
        contexts = step.nodes.context.tolist()
        pairs = zip(step.walk_node.tolist(), verdict.chosen.tokens.tolist(), strict=True)
        for node, token in pairs:
            if token >= 0:
                self._taken.setdefault(contexts[node], set()).add(token)
        taken = [sorted(self._taken.get(context, ())) for context in contexts]
        chosen = replace(verdict.chosen, log_residual=log_residual(step, taken))
        return replace(verdict, chosen=chosen)


def log_residual(step: Step, taken: list[list[int]]) -> NDArray[np.float64]:
    """Return log of the allowed mass but for some tokens at constrained nodes, float64[N].

    Args:
        step: An evaluated frontier of N nodes.
        taken: Allowed tokens to leave out, a sorted list a node.
    """
    counts = [len(tokens) for tokens in taken]
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    flat = np.array([token for tokens in taken for token in tokens], np.int64)
    if not step.nodes.batch.on_host:
        from cdec.samplers.walks import events_torch

        nodes = np.repeat(np.arange(len(taken)), counts)
        return events_torch.log_residual(step, nodes, flat)
    scores, log_normalizer = host_scores(step)
    allowed = allowed_ids(step, scores, log_normalizer)
    residual = np.full(len(step.rows), -np.inf)
    lists = allowed.which, allowed.lists, allowed.offsets, allowed.ids
    _residual(scores, log_normalizer, step.rows, lists, starts, flat, residual)
    return residual


@njit(cache=True, nogil=True, error_model="numpy")
def _residual(  # type: ignore[no-untyped-def]
    scores, log_normalizer, rows, lists, starts, taken, residual
) -> Any:
    """Write ``residual`` of the nodes ``which``: sums over the other tokens, never differences."""
    which, list_of, offsets, ids = lists
    longest = 1
    for number in list_of:
        longest = max(longest, offsets[number + 1] - offsets[number])
    values, sums = np.empty(longest), np.empty(longest // BLOCK + 1)
    for s in range(len(which)):
        node = which[s]
        start = offsets[list_of[s]]
        n = offsets[list_of[s] + 1] - start
        row = rows[node]
        shift, total = weigh(scores, row, log_normalizer[row], ids, start, n, values, sums)
        if not total > 0.0:
            continue
        for token in taken[starts[node] : starts[node + 1]]:
            place = np.searchsorted(ids[start : start + n], token)
            if place < n and ids[start + place] == token:
                values[place] = 0.0
        others = positive_sum(values, n)
        if others > 0.0:
            residual[node] = min(0.0, shift + math.log(others))
