"""Compiled loops that lay the trie of some words in front of an automaton."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel

_UNKNOWN = -3
"""Label of a node that no word ends at."""


@kernel
def trie_beside(texts: Any, begins: Any, word_labels: Any, edges: Any, labels: Any) -> Any:
    """Lay out the trie of some words in front of an automaton.

    Args:
        texts, begins: uint8 and int64[w + 1], distinct words in the order of their bytes.
        word_labels: int32[w], -1 for a word that is taken out.
        edges, labels: (offsets, lows, highs, targets) and int32[n] of the automaton, which says
            what all other texts are; its states follow those of the trie. None at all: no other
            texts.

    Returns:
        (offsets, lows, highs, targets, labels int32) from state 0; not trimmed.
    """
    offsets, lows, highs, targets = edges
    parent, letter, beside, own = _planted(texts, begins, word_labels, edges, len(labels) > 0)
    nodes = len(parent)
    first, children = _children(parent)
    size = 2 * nodes + len(targets)
    for node in range(nodes):
        if beside[node] >= 0:
            size += offsets[beside[node] + 1] - offsets[beside[node]]
    out_offsets = np.zeros(nodes + len(labels) + 1, np.int64)
    out_low, out_high = np.empty(size, np.uint8), np.empty(size, np.uint8)
    out_target, out_label = np.empty(size, np.int32), np.full(nodes + len(labels), -1, np.int32)
    out, count = (out_low, out_high, out_target), 0
    for node in range(nodes):
        out_label[node] = own[node]
        if own[node] == _UNKNOWN:
            out_label[node] = labels[beside[node]] if beside[node] >= 0 else -1
        below = children[first[node] : first[node + 1]]
        count = _laid(below, letter, beside[node], nodes, edges, out, count)
        out_offsets[node + 1] = count
    for state in range(len(labels)):
        out_label[nodes + state] = labels[state]
        for at in range(offsets[state], offsets[state + 1]):
            out_low[count], out_high[count] = lows[at], highs[at]
            out_target[count] = nodes + targets[at]
            count += 1
        out_offsets[nodes + state + 1] = count
    return out_offsets, out_low[:count], out_high[:count], out_target[:count], out_label


@inner
def _planted(texts: Any, begins: Any, word_labels: Any, edges: Any, has_others: bool) -> Any:
    """Return (parent, letter, state of the automaton or -1, label) of every node, in preorder."""
    offsets, lows, highs, targets = edges
    words, room, longest = len(begins) - 1, len(texts) + 1, 0
    for word in range(words):
        longest = max(longest, begins[word + 1] - begins[word])
    parent, letter = np.zeros(room, np.int32), np.zeros(room, np.uint8)
    beside, own = np.full(room, -1, np.int32), np.full(room, _UNKNOWN, np.int32)
    path = np.zeros(longest + 1, np.int32)
    beside[0] = 0 if has_others else -1
    nodes, before, depth = 1, 0, 0
    for word in range(words):
        begin, length = begins[word], begins[word + 1] - begins[word]
        same = 0
        while same < min(length, depth) and texts[before + same] == texts[begin + same]:
            same += 1
        for i in range(same, length):
            up, byte = path[i], texts[begin + i]
            parent[nodes], letter[nodes] = up, byte
            if beside[up] >= 0:
                for at in range(offsets[beside[up]], offsets[beside[up] + 1]):
                    if lows[at] <= byte <= highs[at]:
                        beside[nodes] = targets[at]
            path[i + 1] = nodes
            nodes += 1
        own[path[length]] = word_labels[word]
        before, depth = begin, length
    return parent[:nodes], letter[:nodes], beside[:nodes], own[:nodes]


@inner
def _children(parent: Any) -> Any:
    """Return (first int64[n + 1], children int32): the nodes below each node, by their letters."""
    nodes = len(parent)
    first, children = np.zeros(nodes + 1, np.int64), np.empty(nodes, np.int32)
    for node in range(1, nodes):
        first[parent[node] + 1] += 1
    for node in range(nodes):
        first[node + 1] += first[node]
    fill = first[:-1].copy()
    for node in range(1, nodes):
        children[fill[parent[node]]] = node
        fill[parent[node]] += 1
    return first, children


@inner
def _laid(
    below: Any, letter: Any, beside: int, nodes: int, edges: Any, out: Any, count: int
) -> int:
    """Write the edges of one node: to those below it, else where the automaton goes."""
    offsets, lows, highs, targets = edges
    out_low, out_high, out_target = out
    at = offsets[beside] if beside >= 0 else 0
    end = offsets[beside + 1] if beside >= 0 else 0
    child, byte = 0, 0
    while child < len(below) or at < end:
        is_last = child == len(below)
        if not is_last and (at >= end or letter[below[child]] <= max(byte, lows[at])):
            out_low[count] = out_high[count] = letter[below[child]]
            out_target[count] = below[child]
            child += 1
        else:
            out_low[count], out_high[count] = max(byte, lows[at]), highs[at]
            if not is_last and letter[below[child]] <= highs[at]:
                out_high[count] = letter[below[child]] - 1
            out_target[count] = nodes + targets[at]
        byte = int(out_high[count]) + 1
        count += 1
        while at < end and highs[at] < byte:
            at += 1
    return count
