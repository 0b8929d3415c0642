"""Compiled loops of minimisation: reverse edges, reachability, refinement, numbering."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel

_MULTIPLIER = np.uint64(0xFF51AFD7ED558CCD)


@kernel
def predecessors(delta: Any) -> Any:
    """Return (sources int32, offsets int64[n + 1]): the states with an edge into each state.

    A source stands twice only where edges of two runs of neighbouring classes lead to one state.
    """
    n, num_classes = delta.shape
    offsets = np.zeros(n + 2, np.int64)
    for state in range(n):
        last = -1
        for k in range(num_classes):
            target = delta[state, k]
            if target >= 0 and target != last:
                offsets[target + 2] += 1
            last = target
    for state in range(n):
        offsets[state + 2] += offsets[state + 1]
    sources = np.empty(offsets[n + 1], np.int32)
    for state in range(n):
        last = -1
        for k in range(num_classes):
            target = delta[state, k]
            if target >= 0 and target != last:
                sources[offsets[target + 1]] = state
                offsets[target + 1] += 1
            last = target
    return sources, offsets[: n + 1]


@kernel
def reach(sources: Any, offsets: Any, labels: Any) -> Any:
    """Say in bool[n] which states have a label or can reach one."""
    n = len(labels)
    found = labels != 0
    todo = np.empty(n, np.int32)
    count = 0
    for state in range(n):
        if found[state]:
            todo[count] = state
            count += 1
    while count > 0:
        count -= 1
        state = todo[count]
        for at in range(offsets[state], offsets[state + 1]):
            source = sources[at]
            if not found[source]:
                found[source] = True
                todo[count] = source
                count += 1
    return found


@inner
def _signatures(delta: Any, own: Any, blocks: Any, dirty: Any, count: int, signatures: Any) -> None:
    """Hash ``own`` of each of ``dirty[:count]`` and the blocks of its successors."""
    for i in range(count):
        state = dirty[i]
        value = np.uint64(own[state] + 1) * _MULTIPLIER
        value ^= value >> np.uint64(31)
        for k in range(delta.shape[1]):
            target = delta[state, k]
            block = blocks[target] if target >= 0 else -1
            value = (value ^ np.uint64(block + 1)) * _MULTIPLIER
            value ^= value >> np.uint64(32)
        signatures[i] = value


@inner
def _same(delta: Any, own: Any, blocks: Any, a: int, b: int) -> bool:
    """Say whether two states have equal ``own`` and successors in equal blocks."""
    if own[a] != own[b]:
        return False
    for k in range(delta.shape[1]):
        to_a, to_b = delta[a, k], delta[b, k]
        if to_a != to_b and (to_a < 0 or to_b < 0 or blocks[to_a] != blocks[to_b]):
            return False
    return True


@inner
def _group(
    delta: Any, own: Any, blocks: Any, dirty: Any, count: int, signatures: Any, table: Any,
    group_of: Any, sizes: Any,
) -> int:  # fmt: skip
    """Number the groups of equal states of ``dirty[:count]`` by first member; return how many.

    Args:
        delta, own, blocks: As for ``_same``, which decides where signatures are equal.
        signatures: uint64, written here.
        table: int32, at least twice ``count`` and a power of two: first member of a group, or -1.
        group_of, sizes: int32, group of each of ``dirty``; members of each group.
    """
    _signatures(delta, own, blocks, dirty, count, signatures)
    mask = np.uint64(4)
    while mask < np.uint64(2 * count):
        mask *= np.uint64(2)
    mask -= np.uint64(1)
    table[: int(mask) + 1] = -1
    groups = 0
    for i in range(count):
        slot = signatures[i] & mask
        while table[slot] >= 0 and not (
            signatures[table[slot]] == signatures[i]
            and _same(delta, own, blocks, dirty[table[slot]], dirty[i])
        ):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = i
            group_of[i], sizes[groups] = groups, 0
            groups += 1
        group_of[i] = group_of[table[slot]]
        sizes[group_of[i]] += 1
    return groups


@kernel
def same_successors(delta: Any, blocks: Any) -> Any:
    """Number the states whose successors are in equal blocks alike, by first state: int32[n]."""
    n = len(blocks)
    group_of, sizes, own = np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n, np.int32)
    table, signatures = np.empty(4 * n + 4, np.int32), np.empty(n, np.uint64)
    states = np.arange(n).astype(np.int32)
    _group(delta, own, blocks, states, n, signatures, table, group_of, sizes)
    return group_of


@inner
def _name_groups(
    group_blocks: Any, group_sizes: Any, groups: int, sizes: Any, num_blocks: int, scratch: Any,
    names: Any,
) -> int:  # fmt: skip
    """Write the block that each group of dirty states becomes; return the number of blocks.

    States that are not dirty keep their block's name; where all of a block are dirty, its largest
    group does. ``scratch`` int32[2, n] is 0 before and after.
    """
    dirty_in, largest = scratch[0], scratch[1]
    for group in range(groups):
        block = group_blocks[group]
        dirty_in[block] += group_sizes[group]
        if largest[block] == 0 or group_sizes[group] > group_sizes[largest[block] - 1]:
            largest[block] = group + 1
    first_new = num_blocks
    for group in range(groups):
        block = group_blocks[group]
        names[group] = block
        if dirty_in[block] < sizes[block] or largest[block] != group + 1:
            names[group] = num_blocks
            num_blocks += 1
    for group in range(groups):
        block = group_blocks[group]
        dirty_in[block] = largest[block] = 0
        if names[group] >= first_new:
            sizes[block] -= group_sizes[group]
            sizes[names[group]] = group_sizes[group]
    return num_blocks


@inner
def _mark_sources(
    renamed: Any, count: int, sources: Any, offsets: Any, is_dirty: Any, dirty: Any
) -> int:
    """Write the predecessors of ``renamed[:count]`` to ``dirty``, each once; return how many."""
    marked = 0
    for i in range(count):
        for at in range(offsets[renamed[i]], offsets[renamed[i] + 1]):
            if not is_dirty[sources[at]]:
                is_dirty[sources[at]] = True
                dirty[marked] = sources[at]
                marked += 1
    for i in range(marked):
        is_dirty[dirty[i]] = False
    return marked


@kernel
def refine(
    delta: Any, sources: Any, offsets: Any, blocks: Any, num_blocks: int, rounds: int
) -> None:
    """Refine ``blocks`` int32[n], in place, until all edges respect them; no further than that.

    ``blocks`` are numbered from 0 to ``num_blocks`` without a gap.
    After r rounds states are in one block where no text of at most r letters tells them apart;
    ``rounds`` is the most that are done, -1: as many as there are. Cost: the first round is O(n K),
    a later one O(K) for every state with a successor that was renamed.
    """
    n = len(blocks)
    sizes, scratch = np.zeros(n, np.int32), np.zeros((2, n), np.int32)
    for block in blocks:
        sizes[block] += 1
    dirty, renamed = np.arange(n).astype(np.int32), np.empty(n, np.int32)
    is_dirty, signatures = np.zeros(n, np.bool_), np.empty(n, np.uint64)
    table, groups_of = np.empty(4 * n + 4, np.int32), np.empty(n, np.int32)
    names, group_sizes, group_blocks = renamed.copy(), renamed.copy(), renamed.copy()
    count = n
    while count > 0 and rounds != 0:
        rounds -= 1
        groups = _group(
            delta, blocks, blocks, dirty, count, signatures, table, groups_of, group_sizes
        )
        for i in range(count):
            group_blocks[groups_of[i]] = blocks[dirty[i]]
        num_blocks = _name_groups(
            group_blocks, group_sizes, groups, sizes, num_blocks, scratch, names
        )
        changed = 0
        for i in range(count):
            state = dirty[i]
            if blocks[state] != names[groups_of[i]]:
                blocks[state] = names[groups_of[i]]
                renamed[changed] = state
                changed += 1
        count = _mark_sources(renamed, changed, sources, offsets, is_dirty, dirty)


@kernel
def number_states(delta: Any, starts: Any) -> Any:
    """Number states in breadth-first order from ``starts``.

    Returns:
        (order int32[reached]: states by new number, numbers int32[n]: new number or -1).
    """
    n, num_classes = delta.shape
    order, numbers = np.empty(n, np.int32), np.full(n, -1, np.int32)
    count = 0
    for start in starts:
        if numbers[start] < 0:
            numbers[start], order[count] = count, start
            count += 1
    done = 0
    while done < count:
        state = order[done]
        done += 1
        for k in range(num_classes):
            target = delta[state, k]
            if target >= 0 and numbers[target] < 0:
                numbers[target], order[count] = count, target
                count += 1
    return order[:count], numbers


@kernel
def without_states(delta: Any, kept: Any) -> Any:
    """Return ``delta`` int32[n, K] with -1 for states that are not in ``kept`` bool[n]."""
    found = np.empty(delta.shape, np.int32)
    for state in range(len(delta)):
        for k in range(delta.shape[1]):
            target = delta[state, k]
            found[state, k] = target if target >= 0 and kept[target] else -1
    return found


@kernel
def renumbered(delta: Any, chosen: Any, numbers: Any) -> Any:
    """Return the rows ``chosen`` of ``delta`` with ``numbers[t]`` for every target t."""
    found = np.empty((len(chosen), delta.shape[1]), np.int32)
    for row in range(len(chosen)):
        for k in range(delta.shape[1]):
            target = delta[chosen[row], k]
            found[row, k] = numbers[target] if target >= 0 else -1
    return found
