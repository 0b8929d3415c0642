"""Which ids are allowed at the nodes of a step, and the model's scores there, on the host.

With top-M (PPV, arXiv 2504.09135 section 3.2), the model's M most probable ids are verified and
only those valid are allowed (one end id stands for all of them); where none is, the full mask is
used. ``missed`` is then the model's mass outside the top M, an upper bound of the allowed mass left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks.step import Step


@dataclass(frozen=True, slots=True)
class AllowedIds:
    """Allowed ids of the constrained nodes ``which``; ``free`` nodes allow everything.

    Node ``which[i]`` has the ragged list ``lists[i]``: nodes of equal state share one.
    """

    which: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    free: NDArray[np.int64]
    missed: NDArray[np.float64]


def host_scores(step: Step) -> tuple[Any, NDArray[np.float64]]:
    """Return scores as numpy, viewed where possible, and the normalizers as float64."""
    scores, normalizer = step.scores, step.log_normalizer
    if not isinstance(scores, np.ndarray):
        import torch

        wide = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
        scores = wide.detach().cpu().numpy()
    if not isinstance(normalizer, np.ndarray):
        normalizer = normalizer.detach().cpu().numpy()
    return scores, np.ascontiguousarray(normalizer, np.float64)


def allowed_ids(
    step: Step,
    scores: Any,
    log_normalizer: NDArray[np.float64],
    top_m: int | None = None,
    masked: bool = True,
) -> AllowedIds:
    """Ask each session for the ids allowed at its nodes; only end ids at the length limit."""
    nodes, batch = step.nodes, step.nodes.batch
    missed = np.zeros(len(step.rows))
    found = _Lists()
    if not masked:
        return found.allowed(np.arange(len(step.rows)), missed)
    at_limit = nodes.at_limit()
    for session, group in batch.groups(nodes.request) if batch.masks else []:
        open_nodes = group[~at_limit[group]]
        if top_m is not None and top_m < scores.shape[1]:
            open_nodes, verified, lengths, ids = _verified(
                session, step, scores, log_normalizer, open_nodes, top_m, missed
            )
            found.add(verified, np.arange(verified.size), lengths, ids)
        if open_nodes.size:
            states, own = np.unique(
                batch.to_host(nodes.state[batch.index(open_nodes)]), return_inverse=True
            )
            offsets, ids = map(batch.to_host, session.allowed(batch.index(states)))
            found.add(open_nodes, own.reshape(-1), np.diff(offsets), ids)
    ending = np.flatnonzero(at_limit)
    found.add(ending, np.zeros_like(ending), np.array([len(batch.end_ids)]), batch.end_ids)
    return found.allowed(np.flatnonzero(batch.is_free(nodes.request)), missed)


class _Lists:
    """Ragged lists of allowed ids in the making, and which nodes have them."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, Any, Any]] = []
        self._count = 0

    def add(
        self,
        which: NDArray[np.int64],
        own: NDArray[np.int64],
        lengths: NDArray[np.int64],
        ids: NDArray[np.integer[Any]],
    ) -> None:
        """Give nodes ``which`` (int64[n]) the lists ``own`` (int64[n]) of those now added."""
        if not which.size:
            return
        self._parts.append((which, own + self._count, lengths, ids))
        self._count += len(lengths)

    def allowed(self, free: NDArray[np.int64], missed: NDArray[np.float64]) -> AllowedIds:
        """Return all lists."""
        which, lists, lengths, ids = zip(*self._parts, strict=True) if self._parts else [()] * 4
        offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(_joined(lengths, np.int64), out=offsets[1:])
        return AllowedIds(
            which=_joined(which, np.int64),
            lists=_joined(lists, np.int64),
            offsets=offsets,
            ids=_joined(ids, np.int32),
            free=free,
            missed=missed,
        )


def _joined(parts: Sequence[Any], dtype: Any) -> Any:
    """Concatenate, without a copy where there is one part only."""
    if len(parts) == 1:
        return np.asarray(parts[0], dtype)
    return np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype)


def _verified(
    session: Any,
    step: Step,
    scores: Any,
    log_normalizer: NDArray[np.float64],
    group: NDArray[np.int64],
    top_m: int,
    missed: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Split ``group`` into nodes that need the full mask and nodes with valid ids in their top M.

    Returns:
        Nodes without any; nodes with some; for the latter their lists' lengths and ids, sorted.
        Writes ``missed`` of the latter.
    """
    batch, rows = step.nodes.batch, step.rows[group]
    proposed = _top_ids(step.scores, scores, rows, top_m)
    valid = session.check(step.nodes.state[group], proposed)
    log_p = scores[rows[:, None], proposed] - log_normalizer[rows, None]
    # subtle: a valid id of probability zero is no way on.
    valid = valid & (log_p > -np.inf)
    some = valid.any(axis=1)
    top_mass = np.exp(log_p[some].astype(np.float64)).sum(axis=1)
    missed[group[some]] = np.maximum(0.0, 1.0 - top_mass)
    proposed, valid = proposed[some], valid[some]
    # The end is one event: one verified end id brings all end ids in, each in one place.
    is_end = batch.is_end[proposed]
    ends = np.broadcast_to(batch.end_ids, (len(proposed), len(batch.end_ids)))
    may_end = np.broadcast_to((valid & is_end).any(axis=1)[:, None], ends.shape)
    proposed = np.concatenate([proposed, ends], axis=1)
    valid = np.concatenate([valid & ~is_end, may_end], axis=1)
    order = np.argsort(proposed, axis=1)
    proposed = np.take_along_axis(proposed, order, 1)
    valid = np.take_along_axis(valid, order, 1)
    return group[~some], group[some], valid.sum(axis=1), proposed[valid]


def _top_ids(original: Any, scores: Any, rows: NDArray[np.int64], top_m: int) -> NDArray[np.int64]:
    """Return the ``top_m`` ids of highest score of each row, int64[n, M], in no order."""
    if isinstance(original, np.ndarray):
        at = scores.shape[1] - top_m
        return np.argpartition(scores[rows], at, axis=1)[:, at:]
    import torch

    ids = torch.topk(original[torch.from_numpy(rows)], top_m, dim=1, sorted=False).indices
    return np.asarray(ids.numpy())
