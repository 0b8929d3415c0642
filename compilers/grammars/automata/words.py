"""A list of texts -> the smallest automaton that reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.minimise import merge_classes, minimised


def words_automaton(
    words: Sequence[str],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Return the automaton over the bytes of some texts: their trie, with equal ends once.

    The last accepting state on the path of a text is where the longest word that begins it ends.

    Args:
        words: One text at least; those without a UTF-8 form are left out.

    Returns:
        (byte_class int32[256], delta int32[n, K] from state 0, -1 dead, accepting bool[n]).
        Cost: nodes of the trie x K.
    """
    edges: dict[int, int] = {}
    ends = []
    for word in words:
        node = 0
        try:
            spelled = word.encode()
        except UnicodeEncodeError:
            continue
        for byte in spelled:
            node = edges.setdefault(node << 8 | byte, len(edges) + 1)
        ends.append(node)
    keys = np.fromiter(edges, np.int64, len(edges))
    used, kinds = np.unique(keys & 255, return_inverse=True)
    byte_class = np.zeros(256, np.int32)
    byte_class[used] = np.arange(1, len(used) + 1)
    delta = np.full((len(edges) + 1, len(used) + 1), -1, np.int32)
    delta[keys >> 8, kinds.ravel() + 1] = np.arange(1, len(edges) + 1)
    labels = np.zeros(len(delta), np.int32)
    labels[ends] = 1
    smallest, old, _ = minimised(delta, labels, np.zeros(1, np.int32))
    byte_class, smallest = merge_classes(byte_class, smallest)
    return byte_class, smallest, labels[old] != 0
