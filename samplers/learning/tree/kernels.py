"""Compiled steps of the prefix tree: visiting prefixes, and carrying bounds upwards.

A node is a model context; every column is indexed by it. Children are a list: ``first_child`` of
the parent, then ``next_sibling``; -1 ends it. Masses are natural logs, sums are of positive terms
only: nothing is ever computed as 1 minus a mass.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel

NIL = -1
"""No node, no vector."""
VISITED, EVALUATED, IN_RUN, EXACT, TERMINAL, MARK = 1, 2, 4, 8, 16, 32
"""Flags of a node. EXACT: its mass leaves the visited children out. TERMINAL: a text ended here.
MARK is scratch."""


class Nodes(NamedTuple):
    """Columns of a tree by context: record, owning draw, log P of its token, masses, links."""

    request: NDArray[np.int32]
    draw: NDArray[np.int32]
    edge: NDArray[np.float64]
    mass: NDArray[np.float64]
    bound: NDArray[np.float64]
    flags: NDArray[np.uint8]
    first_child: NDArray[np.int32]
    next_sibling: NDArray[np.int32]


class Arrivals(NamedTuple):
    """The n prefixes of a visit: contexts, those before (-1 at the root), and what is known."""

    context: NDArray[np.int64]
    parent: NDArray[np.int64]
    request: NDArray[np.int64]
    draw: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    flags: NDArray[np.uint8]


@kernel(error_model="numpy")
def visit(arrivals, nodes, is_new):  # type: ignore[no-untyped-def]
    """Record the prefixes that ``Arrivals`` describe in the tree's ``Nodes``.

    A prefix that was visited before keeps its place; of repeated visits the lowest draw counts.
    ``is_new`` bool[n] is written.
    """
    context, parent, request, draw, log_edge, log_mass, flags = arrivals
    node_request, node_draw, node_edge = nodes.request, nodes.draw, nodes.edge
    node_mass, node_bound, node_flags = nodes.mass, nodes.bound, nodes.flags
    first_child, next_sibling = nodes.first_child, nodes.next_sibling
    for i in range(len(context)):
        node = context[i]
        known = node_flags[node]
        is_new[i] = known & VISITED == 0
        if is_new[i]:
            node_request[node] = request[i]
            node_draw[node] = draw[i]
            node_edge[node] = log_edge[i]
            node_flags[node] = flags[i] | VISITED
            first_child[node] = NIL
            next_sibling[node] = NIL
            if parent[i] >= 0:
                next_sibling[node] = first_child[parent[i]]
                first_child[parent[i]] = node
        elif draw[i] < node_draw[node]:
            node_draw[node] = draw[i]
            node_flags[node] = (known & ~IN_RUN) | flags[i] | VISITED
        else:
            node_flags[node] = known | (flags[i] & ~IN_RUN)
        # subtle: a mass of 1 may say that nobody asked (``opportunistic``): what is known stays.
        if is_new[i] or flags[i] & EXACT or log_mass[i] < 0.0:
            node_mass[node] = log_mass[i]
            node_bound[node] = min(0.0, log_mass[i])


@inner(error_model="numpy")
def bound_of(  # type: ignore[no-untyped-def]
    node, mass, bound, edge, flags, first_child, next_sibling, rounding
):
    """Return log c(node): what no visited child covers, plus the sum of P * c of the children."""
    if flags[node] & TERMINAL:
        return 0.0
    residual = mass[node]
    peak = residual
    child = first_child[node]
    while child != NIL:
        peak = max(peak, edge[child] + bound[child])
        child = next_sibling[child]
    if peak == -math.inf:
        return peak
    # Where the mass still holds the children's, they are taken off it. What rounding may have lost
    # is put back: it stays an upper bound, though not the closest.
    exact = flags[node] & EXACT > 0
    seen = 0.0
    kept = 0.0
    child = first_child[node]
    while child != NIL:
        if not exact:
            seen += math.exp(edge[child] - peak)
        kept += math.exp(edge[child] + bound[child] - peak)
        child = next_sibling[child]
    own = math.exp(residual - peak)
    if not exact:
        own = max(0.0, own - seen) + rounding * own
    total = own + kept
    return min(0.0, peak + math.log(total)) if total > 0.0 else -math.inf


@kernel(error_model="numpy")
def least_masses(last, is_whole, parent, nodes, known, log_z, place):  # type: ignore[no-untyped-def]
    """Find the step of each of n paths at which the least mass was allowed, the first of several.

    Args:
        last: int64[n] contexts that the paths end at; -1 for no path. is_whole: bool[n] whether an
            event was drawn there, too.
        parent: int32 a node. nodes: ``Nodes``.
        known: float64 a node, NaN where the mass was not summed up yet; written.
        log_z: float64[n], written: the log mass; 0 where none is known.
        place: int64[n], written: the nodes of the path before the step; -1 for none.
    """
    for i in range(len(last)):
        log_z[i], place[i] = 0.0, -1
        node = last[i] if is_whole[i] or last[i] < 0 else parent[last[i]]
        depth = 0
        while node >= 0:
            if nodes.flags[node] & VISITED:
                if known[node] != known[node]:
                    known[node] = allowed_mass(node, nodes)
                if known[node] <= log_z[i]:
                    log_z[i], place[i] = known[node], depth
            node = parent[node]
            depth += 1
        if place[i] >= 0:
            place[i] = depth - 1 - place[i]


@inner(error_model="numpy")
def allowed_mass(node, nodes):  # type: ignore[no-untyped-def]
    """Return the log mass that was allowed at a node, visited children included."""
    own = nodes.mass[node]
    if not nodes.flags[node] & EXACT:
        return min(0.0, own)
    peak = own
    child = nodes.first_child[node]
    while child != NIL:
        peak = max(peak, nodes.edge[child])
        child = nodes.next_sibling[child]
    if peak == -math.inf:
        return peak
    total = math.exp(own - peak)
    child = nodes.first_child[node]
    while child != NIL:
        total += math.exp(nodes.edge[child] - peak)
        child = nodes.next_sibling[child]
    return min(0.0, peak + math.log(total))


@kernel(error_model="numpy")
def update(order, nodes, rounding):  # type: ignore[no-untyped-def]
    """Recompute the bounds of contexts ``order`` (int64[n], children before their parents)."""
    mass, bound, edge, flags = nodes.mass, nodes.bound, nodes.edge, nodes.flags
    first_child, next_sibling = nodes.first_child, nodes.next_sibling
    for node in order:
        bound[node] = bound_of(node, mass, bound, edge, flags, first_child, next_sibling, rounding)


@kernel(error_model="numpy")
def with_ancestors(nodes, parent, flags):  # type: ignore[no-untyped-def]
    """Return ``nodes`` (int64[n]) and all nodes above them, each once."""
    found = np.empty(max(16, 2 * len(nodes)), np.int64)
    count = 0
    for start in nodes:
        node = start
        while node >= 0 and flags[node] & MARK == 0:
            flags[node] |= MARK
            if count == len(found):
                grown = np.empty(2 * count, np.int64)
                for i in range(count):
                    grown[i] = found[i]
                found = grown
            found[count] = node
            count += 1
            node = parent[node]
    for i in range(count):
        flags[found[i]] &= ~MARK
    return found[:count]
