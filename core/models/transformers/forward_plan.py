"""Which forward passes give the distributions of some contexts: waves of rows, each token once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.context_tree import NONE, ContextTree


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One sequence of a forward pass.

    Attributes:
        nodes: The contexts it computes, a path from just below what is cached to the head.
        length: Tokens of the head's whole prefix.
        new: Tokens that are computed; more than ``len(nodes)`` if the first node is a root.
    """

    nodes: list[int]
    length: int
    new: int


def plan_waves(
    tree: ContextTree,
    targets: NDArray[np.int64],
    is_cached: NDArray[np.bool_],
    copied: Callable[[int], int] = lambda root: 0,
) -> list[list[PlannedRow]]:
    """Split the uncached ancestors of ``targets`` into rows, and the rows into waves.

    Contexts without branches make one row (``extend`` is one pass). Where uncached contexts
    branch, the shared part is a row of an earlier wave, so no token is computed twice.

    Args:
        tree: The contexts; its roots' column ``start`` holds the tokens of their prompts.
        targets: int64[M] distinct contexts whose distributions are needed; computed anew even
            where their keys are cached.
        is_cached: bool[capacity], contexts whose keys are cached.
        copied: How many tokens of an uncached root have their keys all the same.

    Returns:
        Waves, to be run in order. Cost: Python steps a node that is computed.
    """
    needed = set(targets.tolist())
    children: dict[int, list[int]] = {}
    tops: list[int] = []
    stack = list(needed)
    while stack:
        node = stack.pop()
        parent = int(tree.parent[node])
        if parent == NONE or (is_cached[parent] and parent not in needed):
            tops.append(node)
            continue
        children.setdefault(parent, []).append(node)
        if parent not in needed:
            needed.add(parent)
            stack.append(parent)
    waves: list[list[PlannedRow]] = []
    level = sorted(tops)
    while level:
        wave, below = [], []
        for top in level:
            path = [top]
            while len(following := children.get(path[-1], [])) == 1:
                path.append(following[0])
            wave.append(_row(tree, path, is_cached, copied))
            below += following
        waves.append(wave)
        level = sorted(below)
    return waves


def group_rows(rows: list[PlannedRow], max_tokens: int, exact: bool) -> list[list[PlannedRow]]:
    """Split a wave's rows into passes of similar new lengths, to waste little on padding.

    Args:
        rows: Of one wave.
        max_tokens: New tokens a pass, padding included; passed by a single longer row only.
        exact: Rows of a pass must agree in length and new tokens (models without positions).
    """
    ordered = sorted(rows, key=lambda row: (-row.new, -row.length))
    groups: list[list[PlannedRow]] = []
    for row in ordered:
        last = groups[-1] if groups else []
        if last and (len(last) + 1) * last[0].new <= max_tokens and _fits(last[0], row, exact):
            last.append(row)
        else:
            groups.append([row])
    return groups


def _fits(longest: PlannedRow, row: PlannedRow, exact: bool) -> bool:
    if exact:
        return (row.new, row.length) == (longest.new, longest.length)
    return 2 * row.new >= longest.new or longest.new - row.new <= 8


def _row(
    tree: ContextTree,
    path: list[int],
    is_cached: NDArray[np.bool_],
    copied: Callable[[int], int],
) -> PlannedRow:
    head, top = path[-1], path[0]
    start = int(tree.of_root("start", head))
    length = start + int(tree.depth[head])
    # A cached root of which only the distribution is gone repeats its last token alone.
    is_new_root = tree.parent[top] == NONE and not is_cached[top]
    above = start - 1 - copied(top) if is_new_root else 0
    return PlannedRow(path, length, len(path) + above)
