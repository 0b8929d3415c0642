"""What is left at a prefix beside the tokens that were drawn there, for trees walked again.

Without a draft, all walks that come to a prefix come in the same step. With one they may come in
different passes, so what earlier ones drew is remembered until the candidates are finished.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cdec.samplers.drafts.verify import Level, Verdict, Verifier
from cdec.samplers.walks.allowed import allowed_ids, host_scores
from cdec.samplers.walks.categorical_kernels import weigh
from cdec.samplers.walks.randomness import CandidateUniforms
from cdec.samplers.walks.step import Step
from cdec.samplers.walks.sum_kernels import BLOCK, positive_sum


class LearningVerifier:
    """Verifies proposals without loss, and says what mass the drawn tokens leave.

    Args:
        uniforms: Of the candidates that walk now; their constraints must be known.
    """

    def __init__(self, uniforms: CandidateUniforms) -> None:
        self._verifier = Verifier(uniforms)
        self._taken: dict[int, set[int]] = {}

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Choose the next events; ``log_rest`` leaves out all that was drawn so far."""
        verdict = self._verifier.judge(step, alive, level)
        contexts = step.nodes.context.tolist()
        pairs = zip(step.walk_node.tolist(), verdict.chosen.tokens.tolist(), strict=True)
        for node, token in pairs:
            if token >= 0:
                self._taken.setdefault(contexts[node], set()).add(token)
        taken = [sorted(self._taken.get(context, ())) for context in contexts]
        chosen = replace(verdict.chosen, log_rest=log_rest(step, taken))
        return replace(verdict, chosen=chosen)


def log_rest(step: Step, taken: list[list[int]]) -> NDArray[np.float64]:
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
        return events_torch.log_rest(step, nodes, flat)
    scores, log_normalizer = host_scores(step)
    allowed = allowed_ids(step, scores, log_normalizer)
    rest = np.full(len(step.rows), -np.inf)
    lists = allowed.which, allowed.lists, allowed.offsets, allowed.ids
    _rest(scores, log_normalizer, step.rows, lists, starts, flat, rest)
    return rest


@njit(cache=True, nogil=True, error_model="numpy")
def _rest(  # type: ignore[no-untyped-def]
    scores, log_normalizer, rows, lists, starts, taken, rest
) -> Any:
    """Write ``rest`` of the nodes ``which``; a sum of what is left, never a difference."""
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
        left = positive_sum(values, n)
        if left > 0.0:
            rest[node] = min(0.0, shift + math.log(left))
