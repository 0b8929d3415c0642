"""Directed graphs of small integers: components, what lies on cycles, longest ways."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def reachable(first: int, successors: Sequence[Collection[int]]) -> set[int]:
    """Return the nodes that can be reached from one, itself included."""
    found, pending = {first}, [first]
    while pending:
        fresh = [node for node in successors[pending.pop()] if node not in found]
        found.update(fresh)
        pending += fresh
    return found


def components(successors: Sequence[Collection[int]]) -> list[int]:
    """Number the strongly connected components (Tarjan, SIAM J. Comput. 1972), iteratively.

    Args:
        successors: Of each node.

    Returns:
        Component of each node; a component's number is above those of what it leads to. Cost:
        linear in nodes and edges.
    """
    count = len(successors)
    order = [-1] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    clock = found = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        path = [(root, iter(successors[root]))]
        while path:
            node, following = path[-1]
            if order[node] < 0:
                order[node] = low[node] = clock
                clock += 1
                stack.append(node)
            for other in following:
                if order[other] < 0:
                    path.append((other, iter(successors[other])))
                    break
                if component[other] < 0:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[stack.pop()] = found
                    found += 1
    return component


def on_cycles(successors: Sequence[Collection[int]]) -> set[int]:
    """Return the nodes that lead to themselves."""
    component = components(successors)
    return {
        node
        for node, following in enumerate(successors)
        if any(component[other] == component[node] for other in following)
    }


def longest_way(first: int, successors: Sequence[Collection[int]]) -> int:
    """Return the most components on a way from a node, its own included."""
    component = components(successors)
    leads: list[set[int]] = [set() for _ in range(max(component, default=-1) + 1)]
    for node, following in enumerate(successors):
        leads[component[node]].update(component[other] for other in following)
    length: list[int] = []
    for number, others in enumerate(leads):  # what a component leads to has a smaller number
        length.append(1 + max((length[other] for other in others if other != number), default=0))
    return length[component[first]]
