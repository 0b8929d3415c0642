"""Reading texts with the edges of an automaton, slowly and by definition."""

from __future__ import annotations

from itertools import product

from cdec.compilers.regular.edges import Edges


def step(edges: Edges, state: int, byte: int) -> int:
    """Return the state after a byte, -1 for none."""
    for at in range(edges.state_edges[state], edges.state_edges[state + 1]):
        if edges.edge_low[at] <= byte <= edges.edge_high[at]:
            return int(edges.edge_target[at])
    return -1


def walk(edges: Edges, text: bytes, state: int = 0) -> int:
    """Return the state after some bytes, -1 for none."""
    for byte in text:
        state = step(edges, state, byte) if state >= 0 else -1
    return state


def label(edges: Edges, text: str) -> int:
    """Return the label of a text, -1 for none."""
    state = walk(edges, text.encode())
    return int(edges.state_label[state]) if state >= 0 else -1


def in_parts(parts: list[tuple[Edges, int, int]], text: str) -> bool:
    """Say whether a text is in one of the parts of a set of strings."""
    return any(
        label(edges, text) == 0 and low <= len(text) and (high < 0 or len(text) <= high)
        for edges, low, high in parts
    )


def reached(edges: Edges, state: int) -> list[int]:
    """Return the states that are reached from one, itself among them."""
    found, todo = {state}, [state]
    while todo:
        at = todo.pop()
        for edge in range(edges.state_edges[at], edges.state_edges[at + 1]):
            target = int(edges.edge_target[edge])
            if target not in found:
                found.add(target)
                todo.append(target)
    return sorted(found)


def texts(alphabet: str, longest: int) -> list[str]:
    """Return all texts over some characters."""
    return ["".join(t) for n in range(longest + 1) for t in product(alphabet, repeat=n)]
