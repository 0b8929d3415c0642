"""Compiled walks down a prefix tree, and the vectors of allowed masses that they draw from.

Nodes and their columns are those of ``tree.kernels``. A vector holds the mass of each allowed id of
a node times exp(-shift), zero where the id leads to a visited child, and the sums of its blocks.
The shift is such that their sum is above ``FAINT``, if anything is left: once the likeliest ids are
children, what is left may be e^-2000 of them and all the valid mass there is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel
from cdec.samplers.learning.tree.kernels import NIL, TERMINAL
from cdec.samplers.walks.sum_kernels import BLOCK, FAINT, fast_exp, place_of, reweigh, weigh

MISSING, ENDED, LEFT, DRY, STUCK = 0, 1, 2, 3, 4
"""How a descent pauses or ends: no vector here; the end event or a terminal child; an unvisited
token; no uniforms left in the block; no mass."""


class Slots(NamedTuple):
    """Where the vector of each slot lies in the pool, int64, and its shift, float64."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    first_block: NDArray[np.int64]
    shift: NDArray[np.float64]


class Pool(NamedTuple):
    """The vectors one after the other: allowed ids (int32), masses and sums of blocks (float64)."""

    ids: NDArray[np.int32]
    masses: NDArray[np.float64]
    blocks: NDArray[np.float64]


class Asked(NamedTuple):
    """Nodes whose vectors are to be stored, n of them, and what the model and the mask say there.

    nodes, rows, lists: int64[n] contexts, their rows in the scores, and their lists. scores:
    float[M, V]. log_normalizer: float64[M]. offsets: int64[L + 1] and allowed: int32[...]: the
    lists, each sorted.
    """

    nodes: NDArray[np.int64]
    scores: Any
    log_normalizer: NDArray[np.float64]
    rows: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    allowed: NDArray[np.int32]


class Descending(NamedTuple):
    """Columns of W walks: node, tokens drawn and log P so far; how they leave the tree, and status.

    node, depth, token: int64[W]. log_p, log_edge: float64[W]. status: uint8[W], MISSING, ENDED,
    LEFT, DRY or STUCK.
    """

    node: NDArray[np.int64]
    depth: NDArray[np.int64]
    log_p: NDArray[np.float64]
    token: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    status: NDArray[np.uint8]


@kernel(error_model="numpy")
def build(asked, numbers, tree, node_token, slots, pool):  # type: ignore[no-untyped-def]
    """Store the masses of the allowed ids of nodes, those of visited children as zero.

    Args:
        asked: ``Asked``. numbers: int64[n] slot of each node.
        tree: ``Nodes`` of the tree. node_token: int32 a node.
        slots, pool: ``Slots`` and ``Pool``, written.

    Returns:
        Whether every row was normalised; False means NaN.
    """
    nodes, scores, log_normalizer, rows, lists, offsets, allowed = asked
    first_child, next_sibling = tree.first_child, tree.next_sibling
    starts, lengths, first_blocks, shifts = slots
    ids, masses, blocks = pool
    for i in range(len(nodes)):
        number = numbers[i]
        start, n, first = starts[number], lengths[number], first_blocks[number]
        begin = offsets[lists[i]]
        here = scores, rows[i], log_normalizer[rows[i]], allowed, begin, n
        values = masses[start : start + n]
        sums = blocks[first : first + (n + BLOCK - 1) // BLOCK + 1]
        shift, total = weigh(*here, values, sums)
        if total != total:
            return False
        for place in range(n):
            ids[start + place] = allowed[begin + place]
        child = first_child[nodes[i]]
        while child != NIL:
            place = place_of(allowed, begin, n, node_token[child])
            if place < n and allowed[begin + place] == node_token[child] and values[place] > 0.0:
                values[place] = 0.0
                sums[place // BLOCK] = -1.0
            child = next_sibling[child]
        left = 0.0
        for block in range((n + BLOCK - 1) // BLOCK):
            if sums[block] < 0.0:
                sums[block] = block_sum(masses, start, n, block)
            left += sums[block]
        if not left > FAINT:
            shift, _ = reweigh(*here, values, sums)
        shifts[number] = shift
    return True


@inner(fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def block_sum(masses, start, n, block):  # type: ignore[no-untyped-def]
    """Return the sum of one block of a vector of n masses."""
    total = 0.0
    for j in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
        total += masses[start + j]
    return total


@kernel(error_model="numpy")
def leave(nodes, tokens, slot, slots, pool):  # type: ignore[no-untyped-def]
    """Take tokens that are about to be children out of their nodes' vectors.

    Args:
        nodes, tokens: int64[n] pairs, each node with a vector.
        slot: int32 a node. slots, pool: ``Slots`` and ``Pool``, written.
    """
    starts, lengths, first_blocks, _ = slots
    ids, masses, blocks = pool
    for i in range(len(nodes)):
        number = slot[nodes[i]]
        start, n, first = starts[number], lengths[number], first_blocks[number]
        place = place_of(ids, start, n, tokens[i])
        masses[start + place] = 0.0
        blocks[first + place // BLOCK] = block_sum(masses, start, n, place // BLOCK)


@kernel(error_model="numpy")
def sum_up(nodes, slot, slots, pool, mass, is_faint):  # type: ignore[no-untyped-def]
    """Write the residual masses of nodes from their vectors.

    Args:
        nodes: int64[n], each with a vector. slot: int32 a node. slots, pool: ``Slots``, ``Pool``.
        mass: float64 a node, written: the log residual mass.
        is_faint: bool[n], written: where something is left and it is too little for the shift, so
            that the vector is to be built anew.
    """
    _, lengths, first_blocks, shifts = slots
    blocks = pool.blocks
    for i in range(len(nodes)):
        number = slot[nodes[i]]
        first = first_blocks[number]
        total = 0.0
        for b in range((lengths[number] + BLOCK - 1) // BLOCK):
            total += blocks[first + b]
        mass[nodes[i]] = shifts[number] + math.log(total) if total > 0.0 else -math.inf
        is_faint[i] = 0.0 < total <= FAINT


@kernel(error_model="numpy")
def descend(rows, walks, numbers, tree, node_token, slot, slots, pool, ends):  # type: ignore[no-untyped-def]
    """Follow walks through visited nodes, each event with probability P * c / (sum of P * c).

    Args:
        rows: int64[n] walks that go down. walks: ``Descending``, read and written.
        numbers: uniforms float64[W, width], block_of int64[W] and width: numbers
            ``block * width ...`` of a walk, number 1 + s of which decides token s.
        tree: ``Nodes`` of the tree. node_token, slot: int32 a node.
        slots, pool: ``Slots`` and ``Pool``. ends: ``Ends``.
    """
    node_of, depth_of, log_p, token_of, log_edge, status = walks
    uniforms, block_of, width = numbers
    edge, bound, flags = tree.edge, tree.bound, tree.flags
    first_child, next_sibling = tree.first_child, tree.next_sibling
    end_ids, is_end = ends
    starts, lengths, first_blocks, shifts = slots
    ids, masses, blocks = pool
    for w in rows:
        node = node_of[w]
        while True:
            number = slot[node]
            if number < 0:
                status[w] = MISSING
                break
            column = depth_of[w] + 1 - block_of[w] * width
            if column >= width:
                status[w] = DRY
                break
            start, n = starts[number], lengths[number]
            first, shift = first_blocks[number], shifts[number]
            n_blocks = (n + BLOCK - 1) // BLOCK
            residual = 0.0
            for b in range(n_blocks):
                residual += blocks[first + b]
            # subtle: the bound sums the residual and the children's weights, so shares of it
            # need no pass over the children, of which there may be thousands.
            scale = bound[node]
            if scale == -math.inf:
                status[w] = STUCK
                break
            own = residual * math.exp(shift - scale) if residual > 0.0 else 0.0
            target = uniforms[w, column]
            taken = NIL
            if target >= own:
                taken = _child(
                    node, target - own, own, scale, edge, bound, first_child, next_sibling
                )
            if taken == NIL and not own > 0.0:
                status[w] = STUCK
                break
            if taken == NIL:
                share = min(1.0, target / own)
                place = _place(masses, blocks, start, n, first, n_blocks, share * residual)
                token = ids[start + place]
                if is_end[token]:
                    log_p[w] += _end_mass(ids, masses, start, n, end_ids, shift)
                    status[w] = ENDED
                    break
                token_of[w] = token
                log_edge[w] = shift + math.log(masses[start + place])
                status[w] = LEFT
                break
            log_p[w] += edge[taken]
            depth_of[w] += 1
            node = taken
            node_of[w] = node
            if flags[node] & TERMINAL:
                status[w] = ENDED
                break


@inner(error_model="numpy")
def _child(  # type: ignore[no-untyped-def]
    node, target, own, scale, edge, bound, first_child, next_sibling
):
    """Return the child at which the running sum of weights exp(edge + bound - scale) passes target.

    subtle: sums are rounded, and scores that were computed again differ in their last bits; what is
    left over goes to the heaviest child, or to NIL (the residual mass) where that is heavier.
    """
    heaviest = NIL
    most = own
    child = first_child[node]
    while child != NIL:
        weight = fast_exp(edge[child] + bound[child] - scale)
        if weight > target:
            return child
        target -= weight
        if weight > most:
            most = weight
            heaviest = child
        child = next_sibling[child]
    return heaviest


@inner(error_model="numpy")
def _place(masses, blocks, start, n, first, n_blocks, target):  # type: ignore[no-untyped-def]
    """Return the first place whose running sum exceeds ``target``; the last positive if none."""
    block = 0
    while block < n_blocks - 1 and blocks[first + block] <= target:
        target -= blocks[first + block]
        block += 1
    for j in range(block * BLOCK, n):
        if masses[start + j] > target:
            return j
        target -= masses[start + j]
    for j in range(n - 1, -1, -1):
        if masses[start + j] > 0.0:
            return j
    return 0


@inner(error_model="numpy")
def _end_mass(ids, masses, start, n, end_ids, shift):  # type: ignore[no-untyped-def]
    """Return log of the mass of all end ids of a vector: ends are never taken out of it."""
    total = 0.0
    for end in end_ids:
        place = place_of(ids, start, n, end)
        if place < n and ids[start + place] == end:
            total += masses[start + place]
    return shift + math.log(total)
