"""One record's tree as flat arrays, and back: what a tree file holds, and the checks on it.

Nodes stand level by level, children of one parent together and in the order of the tree's lists, so
that a tree that was read back adds up its bounds in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DONE
from cdec.core.errors import ArtifactInvalidError
from cdec.core.native import library
from cdec.samplers.learning.tree import kernels
from cdec.samplers.learning.tree.kernels import EXACT, NIL, TERMINAL
from cdec.samplers.learning.tree.prefix_tree import NOBODY

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch

COLUMNS: Mapping[str, str] = {
    "parent": "int32",
    "token": "int32",
    "edge": "float64",
    "mass": "float64",
    "flags": "uint8",
    "totals": "float64",
}
"""Columns of a file: 25 bytes a node; ``totals`` are log_found and log_beyond."""
_KEPT = EXACT | TERMINAL
_ROUNDING = 1e-3
"""How far above 0 the rounding of float32 scores may carry a log of a mass."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A tree that was read back.

    Attributes:
        nodes: int64[n] contexts, as the file's nodes stand.
        states: int64[n] constraint states, on the host.
    """

    nodes: NDArray[np.int64]
    states: NDArray[np.int64]


def level_order(batch: Batch, request: int) -> NDArray[np.int64]:
    """Return the visited nodes of a record that has been walked, level by level, int64[n]."""
    tree = batch.tree
    root = int(batch.roots[request])
    links = tree["first_child"], tree["next_sibling"]
    found = np.empty(len(links[0]), np.int64)
    return found[: library.tree_level_order(root, *links, found)]


def to_arrays(batch: Batch, request: int, nodes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the tree of a record as ``COLUMNS``.

    Args:
        nodes: int64[n] as ``level_order`` gives them.
    """
    tree = batch.tree
    place = np.full(int(nodes.max()) + 1, NIL, np.int64)
    place[nodes] = np.arange(len(nodes))
    parents = tree["parent"][nodes]
    return {
        "parent": np.where(parents >= 0, place[parents], NIL).astype(np.int32),
        "token": tree["token"][nodes].astype(np.int32),
        "edge": tree["edge"][nodes],
        "mass": tree["mass"][nodes],
        "flags": tree["flags"][nodes] & np.uint8(_KEPT),
        "totals": np.array([tree.log_found[request], tree.log_beyond[request]]),
    }


def restore(batch: Batch, request: int, arrays: Mapping[str, NDArray[Any]], path: str) -> Restored:
    """Enter a tree that ``check`` has found good into a batch that has drawn nothing yet.

    Contexts of the model and states of the constraint are made anew, level by level.

    Args:
        batch: Its tree keeps states.
        request: The record.
        arrays: As ``to_arrays`` gives them. path: For messages.

    Returns:
        The nodes; a state is DEAD where the constraint forbids what the tree holds. Cost: O(n); the
        model is not asked.

    Raises:
        ArtifactInvalidError: Tokens or lengths that this model and limit cannot have.
    """
    parent, token = arrays["parent"].astype(np.int64), arrays["token"].astype(np.int64)
    _check_tokens(batch, token[1:], path)
    levels = _levels(parent, int(batch.limits[request]), path)
    count = len(parent)
    nodes, depth = np.zeros(count, np.int64), np.zeros(count, np.int64)
    states = np.zeros(count, np.int64)
    nodes[0] = batch.roots[request]
    states[:1] = batch.to_host(batch.start_states(np.array([request])))
    for level, (start, stop) in enumerate(levels[1:], 1):
        above, by = parent[start:stop], token[start:stop]
        nodes[start:stop] = batch.model.advance(nodes[above], by)
        owner = np.full(stop - start, request)
        moved = batch.advance_states(owner, batch.index(states[above]), batch.index(by))
        states[start:stop] = batch.to_host(moved)
        depth[start:stop] = level
    _enter(batch, request, arrays, nodes, depth)
    batch.tree["state"][nodes] = states
    return Restored(nodes, states)


def _enter(
    batch: Batch,
    request: int,
    arrays: Mapping[str, NDArray[Any]],
    nodes: NDArray[np.int64],
    depth: NDArray[np.int64],
) -> None:
    tree, count = batch.tree, len(nodes)
    tree.reserve(int(nodes.max()) + 1)
    # Lists grow at their heads: the last of each family first, after its parent's level.
    order = np.lexsort((-np.arange(count), depth))
    above = arrays["parent"][order].astype(np.int64)
    arrivals = kernels.Arrivals(
        context=nodes[order],
        parent=np.where(above >= 0, nodes[above], NIL),
        request=np.full(count, request),
        draw=np.full(count, NOBODY),
        log_edge=arrays["edge"][order],
        log_mass=arrays["mass"][order],
        flags=arrays["flags"][order],
    )
    library.tree_visit(arrivals, tree.nodes, np.empty(count, np.bool_))
    tree.log_found[request], tree.log_beyond[request] = arrays["totals"].tolist()
    tree.touch(nodes)
    tree.update()


def check_shape(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Check that there is a root, and one value of everything a node.

    Raises:
        ArtifactInvalidError: There is not.
    """
    count = len(arrays["parent"])
    for name in ("token", "edge", "mass", "flags"):
        _require(len(arrays[name]) == count, f"{len(arrays[name])} values of {name}, not {count}")
    _require(count > 0, "no root")
    _require(len(arrays["totals"]) == 2, "totals of something else")


def check(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Check what can be checked without the model: order, families, signs.

    Raises:
        ArtifactInvalidError: Something is wrong.
    """
    parent, flags = arrays["parent"], arrays["flags"]
    count = len(parent)
    _require(parent[0] == NIL, "no root")
    rest = parent[1:].astype(np.int64)
    _require(bool(np.all((rest >= 0) & (rest <= np.arange(count - 1)))), "a parent after its child")
    _require(bool(np.all(np.diff(rest) >= 0)), "levels out of order")
    keys = np.sort(rest << 32 | arrays["token"][1:].astype(np.int64) & 0xFFFFFFFF)
    _require(bool(np.all(np.diff(keys) > 0)), "a prefix twice")
    _require(not np.any(flags & ~np.uint8(_KEPT)), "unknown flags")
    _require(not np.any(flags[rest] & TERMINAL), "a text that goes on after its end")
    edge, mass = arrays["edge"], arrays["mass"]
    _require(bool(np.all(np.isfinite(edge) & (edge <= _ROUNDING))), "a step of no probability")
    # Comparisons are false for NaN.
    _require(bool(np.all(mass <= _ROUNDING)), "a mass above 1")
    totals = arrays["totals"]
    _require(bool(np.all(totals <= _ROUNDING)), "totals above 1")


def check_bounds(batch: Batch, request: int, restored: Restored, path: str) -> None:
    """Check what only the whole tree shows: that it bounds what was found, and where texts end.

    Raises:
        ArtifactInvalidError: It does not.
    """
    tree = batch.tree
    upper = tree.log_upper(int(batch.roots[request]))
    found = float(tree.log_found[request])
    _require(found <= upper + _ROUNDING, "more mass found than there is", path)
    ended = tree["flags"][restored.nodes] & TERMINAL > 0
    same = np.array_equal(restored.states == DONE, ended)
    _require(same, "texts that end where the constraint does not end them", path)


def _check_tokens(batch: Batch, tokens: NDArray[np.int64], path: str) -> None:
    width = batch.model.vocabulary.width
    _require(bool(np.all((tokens >= 0) & (tokens < width))), "a token outside the vocabulary", path)
    _require(not batch.is_end[tokens].any(), "an end id inside a text", path)


def _levels(parent: NDArray[np.int64], limit: int, path: str) -> list[tuple[int, int]]:
    """Return where each level of nodes begins and ends; refuse texts longer than ``limit``."""
    levels = [(0, 1)]
    while levels[-1][1] < len(parent):
        _require(len(levels) <= limit, f"texts of more than {limit} tokens", path)
        start = levels[-1][1]
        levels.append((start, int(np.searchsorted(parent, start))))
    return levels


def _require(holds: bool, what: str, path: str = "") -> None:
    if not holds:
        raise ArtifactInvalidError(
            f"{path + ': ' if path else ''}no tree of prefixes: {what}",
        )
