"""Opportunistic masking: draw from the model first, ask for the mask only if that was forbidden.

DOMINO (arXiv 2403.06988) section 3.5. The law is that of masked sampling: with Z the allowed mass,
an allowed t comes with P(t) + (1 - Z) P(t) / Z = P(t) / Z. The second draw has a number of its own.
Where no mask was computed Z is unknown; ``log_z`` is then 0, its upper bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks import events
from cdec.samplers.walks.events import END, SampledEvents
from cdec.samplers.walks.frontier import Step


def sample(
    step: Step, uniforms: NDArray[np.float64], retries: NDArray[np.float64]
) -> SampledEvents:
    """Draw one event for every walk, as ``events.sample`` does in law.

    Args:
        step: An evaluated frontier of W walks at N nodes.
        uniforms, retries: float64[W] in [0, 1), independent: of the first draw and of the second.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    first = events.sample(step, uniforms, masked=False)
    refused = np.flatnonzero(~_is_allowed(step, first.tokens))
    if not refused.size:
        return first
    part, nodes = step.of_walks(refused)
    return _replaced(first, refused, nodes, events.sample(part, retries[refused]))


def most_probable(step: Step) -> SampledEvents:
    """Choose the most probable event of every walk, as ``events.most_probable`` does.

    If the model's own choice is allowed, it is the best of what is allowed, ties included.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    first = events.most_probable(step, masked=False)
    refused = np.flatnonzero(~_is_allowed(step, first.tokens))
    if not refused.size:
        return first
    part, nodes = step.of_walks(refused)
    return _replaced(first, refused, nodes, events.most_probable(part))


def _is_allowed(step: Step, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which events (int64[W]) the constraints allow, bool[W]; only ends at the length limit."""
    nodes, batch = step.nodes, step.nodes.batch
    allowed = np.ones(len(tokens), np.bool_)
    request = nodes.request[step.walk_node]
    # All end ids are allowed together: one stands for them.
    ids = np.where(tokens == END, batch.end_ids[:1] if len(batch.end_ids) else -1, tokens)
    for session, walks in batch.groups(request) if batch.masks else []:
        states = nodes.state[batch.index(step.walk_node[walks])]
        allowed[walks] = batch.to_host(session.check(states, batch.index(ids[walks, None])))[:, 0]
    at_limit = nodes.at_limit()[step.walk_node]
    within: NDArray[np.bool_] = ~at_limit | (tokens == END)
    return allowed & within


def _replaced(
    first: SampledEvents,
    walks: NDArray[np.int64],
    nodes: NDArray[np.int64],
    second: SampledEvents,
) -> SampledEvents:
    """Put the second events of ``walks`` and what is known of their ``nodes`` into the first."""
    first.tokens[walks] = second.tokens
    first.log_p[walks] = second.log_p
    first.log_z[nodes] = second.log_z
    first.log_end[nodes] = second.log_end
    return first
