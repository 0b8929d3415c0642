"""Whether texts can always be made longer, so that one that was there before is no dead end."""

from __future__ import annotations

import numpy as np

from cdec.compilers.regular.edges import Edges


def is_endless(edges: Edges) -> bool:
    """Return whether from each state that reaches a region infinitely many of its texts go on.

    Every state of a trimmed automaton goes on for ever if each has an edge to another such.

    Args:
        edges: Of keys, whose ``state_open`` says what reaches a region; of strings all do.
    """
    opens = edges.state_open.astype(np.bool_)
    source = np.repeat(np.arange(len(opens)), np.diff(edges.state_edges))
    goes_on = np.zeros(len(opens), np.bool_)
    goes_on[source[opens[edges.edge_target]]] = True
    return bool((goes_on | ~opens).all())
