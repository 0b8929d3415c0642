"""Which look-behind may see what stands before its pattern; where look-ahead may still come."""

from __future__ import annotations

from cdec.compilers.grammars.automata.regex import MATCH, Program


def outer_looks(program: Program) -> frozenset[int]:
    """Return the nodes with look-behind that may look at what stands before the program's start."""
    nearest = _distances(program)
    return frozenset(
        node
        for node, look in program.looks.items()
        if not look.is_ahead and nearest.get(node, 0) < _width(program, look.body)
    )


def looks_ahead(program: Program) -> frozenset[int]:
    """Return the nodes from which a way through the program comes to a look-ahead."""
    sources: dict[int, list[int]] = {}
    for node, goes in enumerate(program.goes):
        for target in goes:
            sources.setdefault(target, []).append(node)
    found = {node for node, look in program.looks.items() if look.is_ahead}
    pending = list(found)
    while pending:
        fresh = set(sources.get(pending.pop(), ())) - found
        found |= fresh
        pending += fresh
    return frozenset(found)


def _distances(program: Program) -> dict[int, int]:
    """Return the fewest characters read before each node, those in look-ahead counted."""
    nearest = {program.start: 0}
    level, distance = [program.start], 0
    while level:
        following: list[int] = []
        while level:
            node = level.pop()
            look = program.looks.get(node)
            targets = [*program.goes[node], *([look.body] if look and look.is_ahead else [])]
            reads = program.reads[node] >= 0
            for target in targets:
                if nearest.get(target, distance + 2) > distance + reads:
                    nearest[target] = distance + reads
                    (following if reads else level).append(target)
        level, distance = following, distance + 1
    return nearest


def _width(program: Program, body: int) -> int:
    """Return the characters that a look-behind looks back: any way through it has as many."""
    node, width = body, 0
    while node != MATCH:
        width += program.reads[node] >= 0
        if not program.goes[node]:
            return 0
        node = program.goes[node][-1]
    return width
