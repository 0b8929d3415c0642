"""The prefix tree of given token sequences: its nodes, and the constraint's states there.

A *path* is one token sequence after its prompt; a *node* is a distinct prefix. The constraint walks
level by level; nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.frontier import Frontier


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
    free = batch.session_of[frontier.request] == FREE
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
    lost &= batch.session_of[level.request] != FREE
    if lost.any():
        level.state[batch.index_of(lost)] = DEAD


def _joined(levels: Sequence[Frontier]) -> Frontier:
    """Return the walks of all levels as one frontier."""
    columns: dict[str, Any] = {}
    for name in (each.name for each in fields(Frontier) if each.name != "batch"):
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
