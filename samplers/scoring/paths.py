"""Scores of token sequences: log P, and log Z under the constraint, at all their prefixes.

A *path* is one token sequence after its prompt; a *node* is a distinct prefix. The constraint walks
level by level, and the model sees the nodes in as few forward passes as memory allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import ModelError
from cdec.core.models.language_model import Distributions
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.frontier import Frontier, Step


@dataclass(frozen=True, slots=True)
class Nodes:
    """Distinct prefixes of T paths, N of them; a parent stands before its children.

    Attributes:
        frontier: One walk a node; ``state`` is DEAD behind a refused token.
        parent: int64[N] row of the node one token shorter, -1 at a root.
        token: int64[N] last token, -1 at a root.
        paths: int64[T, L + 1] node of each path by depth, -1 behind its end.
        is_open: bool[N] whether the constraint has a mask here; False where free, DEAD or DONE.
        complete: bool[N] whether the text may end here, or has been ended by its constraint.
        has_ended: bool[N] whether the constraint has ended the text itself.
    """

    frontier: Frontier
    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    paths: NDArray[np.int64]
    is_open: NDArray[np.bool_]
    complete: NDArray[np.bool_]
    has_ended: NDArray[np.bool_]


def walk(batch: Batch, request: NDArray[np.int64], rows: Sequence[Sequence[int]]) -> Nodes:
    """Find the distinct prefixes of ``rows`` and their constraint states, level by level.

    Cost: one call of each session a level; int64[T, L + 1].
    """
    lengths = np.fromiter(map(len, rows), np.int64, count=len(rows))
    paths = np.full((len(rows), int(lengths.max(initial=0)) + 1), -1, np.int64)
    used, at = np.unique(request, return_inverse=True)
    level = Frontier.at_start(batch, used, np.zeros(len(used), np.int64))
    at = at.reshape(-1)
    levels = [level]
    parents, tokens = [np.full(len(used), -1, np.int64)], [np.full(len(used), -1, np.int64)]
    first = 0
    paths[:, 0] = at
    width = batch.model.vocabulary.width
    for depth in range(int(lengths.max(initial=0))):
        going = np.flatnonzero(lengths > depth)
        taken = np.array([rows[t][depth] for t in going.tolist()], np.int64)
        edges, child = np.unique(at[going] * width + taken, return_inverse=True)
        above, token = np.divmod(edges, width)
        behind = level
        level = behind.advance(above, token, np.zeros(len(edges)))
        _refuse(batch, behind, level, above, token)
        at = np.full(len(rows), -1, np.int64)
        at[going] = child.reshape(-1)
        parents.append(first + above)
        tokens.append(token)
        first += len(behind.request)
        paths[going, depth + 1] = first + at[going]
        levels.append(level)
    frontier = _joined(levels)
    state = batch.to_host(frontier.state)
    free = batch.session_of[frontier.request] == UNCONSTRAINED
    return Nodes(
        frontier=frontier,
        parent=np.concatenate(parents),
        token=np.concatenate(tokens),
        paths=paths,
        is_open=~free & (state != DEAD) & (state != DONE),
        complete=batch.is_complete(frontier.request, frontier.state) & (state != DEAD),
        has_ended=batch.is_done(frontier.request, frontier.state),
    )


def _refuse(
    batch: Batch,
    behind: Frontier,
    level: Frontier,
    above: NDArray[np.int64],
    token: NDArray[np.int64],
) -> None:
    """Mark as DEAD what the states do not: end ids before the end, and tokens past the limit."""
    lost = batch.is_end[token] | (behind.depth[above] >= batch.limits[behind.request[above]])
    lost &= batch.session_of[level.request] != UNCONSTRAINED
    if lost.any():
        level.state[batch.index_of(lost)] = DEAD


def _joined(levels: Sequence[Frontier]) -> Frontier:
    """Return the walks of all levels as one frontier."""
    columns: dict[str, Any] = {}
    for name in (each.name for each in fields(Frontier) if each.name not in ("batch", "deepest")):
        parts: list[Any] = [getattr(level, name) for level in levels]
        if isinstance(parts[0], np.ndarray):
            columns[name] = np.concatenate(parts)
        else:
            import torch

            columns[name] = torch.cat(parts)
    return Frontier(batch=levels[0].batch, **columns)


def depth_first(nodes: Nodes) -> NDArray[np.int64]:
    """Order nodes by the first path that goes through them: a chunk then holds whole paths.

    So the model's key-value cache is asked for few prefixes at a time.
    """
    first = np.full(len(nodes.parent), len(nodes.paths), np.int64)
    path, depth = np.nonzero(nodes.paths >= 0)
    np.minimum.at(first, nodes.paths[path, depth], path)
    order: NDArray[np.int64] = np.lexsort((nodes.frontier.depth, first))
    return order


CHUNK_BYTES = 64 << 20
"""Bytes of distributions that one forward pass fills."""


@dataclass(frozen=True, slots=True)
class PathScores:
    """Scores of T paths under the model and the constraint.

    Attributes:
        log_p: float64[T] log P of the tokens, and of the end event where it is counted.
        log_z: float64[T] sum of log Z over the same events; NaN where one was refused, 0 if free.
        events: int64[T] how many events these are.
        refused: int64[T] position of the first event that is not allowed, the path's length for
            its end; -1 for members, and where free.
        nodes: The prefixes, N of them. log_edge: float64[N] log P of each one's last token.
        is_masked: bool[N] where log Z was summed. node_log_z: float64[N] that sum, 0 elsewhere.
        node_log_end: float64[N] log P(end) where a masked text may end, -inf elsewhere.
    """

    log_p: NDArray[np.float64]
    log_z: NDArray[np.float64]
    events: NDArray[np.int64]
    refused: NDArray[np.int64]
    nodes: Nodes
    log_edge: NDArray[np.float64]
    is_masked: NDArray[np.bool_]
    node_log_z: NDArray[np.float64]
    node_log_end: NDArray[np.float64]


def score_paths(
    batch: Batch,
    request: NDArray[np.int64],
    rows: Sequence[Sequence[int]],
    *,
    free_end: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
) -> PathScores:
    """Score token sequences.

    Args:
        batch: Open requests; their limits bound what the constraints allow.
        request: int64[T] request of each path.
        rows: T token sequences that fit the model's context, without end ids.
        free_end: Whether paths without constraint count their end event.
        chunk_bytes: Most bytes of distributions evaluated at a time; changes no score.

    Returns:
        Scores. Cost: every distinct prefix is evaluated once, those of a chunk in one forward pass;
        memory for one chunk beyond the model's own caches.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    nodes = walk(batch, request, rows)
    lengths = np.fromiter(map(len, rows), np.int64, count=len(rows))
    last = nodes.paths[np.arange(len(rows)), lengths]
    ends = _counts_end(batch, request, nodes, last, free_end)
    values = _Evaluation(batch, nodes, np.unique(last[ends]), chunk_bytes)
    on_path = nodes.paths >= 0
    steps = np.where(on_path, nodes.paths, 0)
    log_p = np.where(on_path, values.log_edge[steps], 0.0).sum(axis=1)
    log_p[ends] += values.log_end[last[ends]]
    # An event is drawn at every node that a path goes on from, its last one only for the end.
    drawn = on_path.copy()
    drawn[np.flatnonzero(~ends), lengths[~ends]] = False
    log_z = np.where(drawn, values.log_z[steps], 0.0).sum(axis=1)
    refused = _first_refused(batch, request, nodes, lengths)
    log_z[refused >= 0] = np.nan
    return PathScores(
        log_p=log_p,
        log_z=log_z,
        events=lengths + ends,
        refused=refused,
        nodes=nodes,
        log_edge=values.log_edge,
        is_masked=values.is_masked,
        node_log_z=values.log_z,
        node_log_end=values.log_masked_end,
    )


def _counts_end(
    batch: Batch,
    request: NDArray[np.int64],
    nodes: Nodes,
    last: NDArray[np.int64],
    free_end: bool,
) -> NDArray[np.bool_]:
    """Say which paths have an end event, bool[T].

    A constraint that ends its members itself has one only where a member is the beginning of
    another.
    """
    ends = np.zeros(len(request), np.bool_)
    for number in np.unique(request).tolist():
        mine = request == number
        constraint = batch.requests[number].constraint
        if constraint is None:
            ends[mine] = free_end
        elif constraint.facts.ends_itself:
            ends[mine] = nodes.complete[last[mine]]
        else:
            ends[mine] = True
    return ends & ~nodes.has_ended[last]


def _first_refused(
    batch: Batch, request: NDArray[np.int64], nodes: Nodes, lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the position of the first event that is not allowed, int64[T]; -1 for none."""
    alive = (nodes.is_open | nodes.has_ended)[nodes.paths] & (nodes.paths >= 0)
    position: NDArray[np.int64] = alive.sum(axis=1) - 1
    last = nodes.paths[np.arange(len(lengths)), lengths]
    whole = (position == lengths) & nodes.complete[last]
    position[whole | (batch.session_of[request] == UNCONSTRAINED)] = -1
    return position


class _Evaluation:
    """The model at all nodes, chunk by chunk.

    Attributes:
        log_edge: float64[N] log P of each node's last token. log_z: float64[N], 0 where free.
        log_end: float64[N] log P(end), 0 where no path ends.
        is_masked: bool[N] where there is a log Z. log_masked_end: float64[N] log P(end) there if
            the text may end, else -inf.
    """

    def __init__(
        self, batch: Batch, nodes: Nodes, ending: NDArray[np.int64], chunk_bytes: int
    ) -> None:
        n = len(nodes.parent)
        self.log_edge, self.log_end, self.log_z = np.zeros(n), np.zeros(n), np.zeros(n)
        self._batch, self._nodes = batch, nodes
        self._is_ending = np.zeros(n, np.bool_)
        self._is_ending[ending] = True
        wanted = self._is_ending.copy()
        wanted[nodes.parent[nodes.parent >= 0]] = True
        self.log_masked_end = np.full(n, -np.inf)
        self.is_masked = wanted & nodes.is_open
        order = depth_first(nodes)
        order = order[wanted[order]]
        size = max(1, chunk_bytes // (4 * batch.model.vocabulary.width))
        self._by_parent = np.argsort(nodes.parent, kind="stable")
        self._parents = nodes.parent[self._by_parent]
        for start in range(0, len(order), size):
            self._chunk(order[start : start + size])
        if np.isnan(self.log_edge).any() or np.isnan(self.log_end).any():
            raise ModelError(
                "the model's scores hold NaN",
                hint="Load the model with another dtype, such as float32 or bfloat16.",
            )

    def _chunk(self, chunk: NDArray[np.int64]) -> None:
        nodes = self._nodes
        found = self._batch.model.evaluate(nodes.frontier.context[chunk])
        first = np.searchsorted(self._parents, chunk, "left")
        counts = np.searchsorted(self._parents, chunk, "right") - first
        place = np.repeat(np.arange(len(chunk)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        children = self._by_parent[np.repeat(first, counts) + within]
        self.log_edge[children] = self._log_p(found, place, nodes.token[children])
        ending = np.flatnonzero(self._is_ending[chunk])
        for end in self._batch.end_ids.tolist():
            log_p = self._log_p(found, ending, np.full(len(ending), end))
            at = chunk[ending]
            before = self.log_end[at] if end != self._batch.end_ids[0] else -np.inf
            with np.errstate(invalid="ignore"):  # NaN is told at the end.
                self.log_end[at] = np.logaddexp(before, log_p)
        self._sum_allowed(chunk, found)

    def _sum_allowed(self, chunk: NDArray[np.int64], found: Distributions) -> None:
        """Write log Z of the nodes with a mask."""
        place = np.flatnonzero(self.is_masked[chunk])
        if not place.size:
            return
        rows = chunk[place]
        walks = np.arange(len(rows))
        nodes = self._nodes.frontier.take(rows)
        step = Step(
            nodes=nodes,
            walk_node=walks,
            walk_starts=np.arange(len(rows) + 1),
            walk_order=walks,
            scores=found.scores,
            log_normalizer=found.log_normalizer,
            rows=found.rows[place],
        )
        found_events = events.best(step, 1)
        self.log_z[rows], self.log_masked_end[rows] = found_events.log_z, found_events.log_end
        # At the length limit a text that may not end has nothing left (as ``Frontier.is_cut``).
        cut = rows[nodes.at_limit() & ~self._nodes.complete[rows]]
        self.log_z[cut] = self.log_masked_end[cut] = -np.inf

    def _log_p(
        self, found: Distributions, place: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return log P of one token at each of ``place`` (int64[n], positions in the chunk)."""
        rows = self._batch.index(found.rows[place])
        scores = found.scores[rows, self._batch.index(tokens)]
        normalizer = found.log_normalizer[rows]
        if not isinstance(scores, np.ndarray):
            scores, normalizer = scores.double(), normalizer.double()
        return np.asarray(self._batch.to_host(scores - normalizer), np.float64)
