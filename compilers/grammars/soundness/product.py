"""A scanner that knows the pending matches: what would complete one of them leads nowhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.scanner.build import Scanner
from cdec.compilers.grammars.scanner.reach import live_rows
from cdec.compilers.grammars.soundness.adjacency import Adjacency, Node
from cdec.compilers.grammars.states.minimise import merge_classes, minimised
from cdec.core.errors import LimitError

MAX_NODES = 50_000
"""States of the scanner, before equal ones are merged, before the question is left open."""


def product_scanner(
    scanner: Scanner,
    adjacency: Adjacency,
    contexts: Sequence[Node],
    number_of: Sequence[int],
    num_terminals: int,
) -> Scanner:
    """Join a scanner with its pending matches.

    Args:
        scanner: Of a deterministic lexer.
        adjacency: Its letters and pending matches.
        contexts: Of the new scanner: context of the old one, and what is pending.
        number_of: Per letter: the terminal that it is in the new scanner.
        num_terminals: Of the new scanner.

    Returns:
        The smallest such scanner; its states complete letters, as terminals of their own.

    Raises:
        LimitError: More than ``MAX_NODES`` states.
    """
    nodes: dict[Node, int] = {}
    for context, pending in contexts:
        nodes.setdefault((int(scanner.context_start[context]), pending), len(nodes))
    starts = [nodes[int(scanner.context_start[x]), pending] for x, pending in contexts]
    rows: list[NDArray[np.int32]] = []
    ready = list(nodes)
    labels: list[int] = []
    while len(rows) < len(ready):
        node = ready[len(rows)]
        letter = adjacency.completed(node)
        labels.append(number_of[letter] + 1 if letter >= 0 else 0)
        states, after = adjacency.step(node)
        row = np.full(len(states), -1, np.int32)
        known: dict[Node, int] = {}
        for place in np.flatnonzero(states >= 0).tolist():
            target = int(states[place]), int(after[place])
            if target not in known:
                known[target] = nodes.setdefault(target, len(nodes))
                if known[target] == len(ready):
                    ready.append(target)
            row[place] = known[target]
        rows.append(row)
        if len(ready) > MAX_NODES:
            raise LimitError(f"more than {MAX_NODES} pairs of readings", limit="max_states")
    own = np.array(labels, np.int32)
    delta, old, context_start = minimised(np.stack(rows), own, np.array(starts, np.int32))
    byte_class, delta = merge_classes(scanner.byte_class, delta)
    completes = own[old] > 0
    match_offsets = np.concatenate([[0], np.cumsum(completes)]).astype(np.int32)
    matches = (own[old][completes] - 1).astype(np.int32)
    live = live_rows(delta, match_offsets, matches, num_terminals)
    return Scanner(byte_class, delta, match_offsets, matches, *live, context_start)
