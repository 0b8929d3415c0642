"""Distances of a regular expression's states from the end of a text, in tokens, exactly.

What a token leads to is found for many states of the scanner at once, level by level of the trie
over the vocabulary's bytes; a search backwards from the states in which a text may end does the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.grammars.columns import RELATIVE, GrammarArrays, count_states, row_of_state
from cdec.core.session import FAR
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

_MOST_STEPS = 1 << 28
"""Scanner states times tokens: two seconds, if each token leads on from each state."""
_TOGETHER = 64
"""Scanner states that are followed together."""


def is_measured(arrays: GrammarArrays, vocabulary: Vocabulary) -> bool:
    """Say whether texts are one terminal each, of which the distances are found in seconds."""
    is_plain = len(arrays.ignored) == 1 and not arrays.ignored[0] and not len(arrays.indent_roles)
    is_regular = is_plain and int(arrays.rule_length.max(initial=0)) <= 1
    return is_regular and count_states(arrays) * vocabulary.size <= _MOST_STEPS


class RegularReach(NamedTuple):
    """Distances of the C scanner states of a grammar of one terminal.

    Attributes:
        fewest: int64[C] tokens with which the text may end, FAR for none.
        ahead: int64[C] the most of these behind a token that leads on.
    """

    fewest: NDArray[np.int64]
    ahead: NDArray[np.int64]

    @classmethod
    def of(cls, arrays: GrammarArrays, vocabulary: Vocabulary) -> RegularReach:
        """Follow all tokens from all states. Cost: as ``is_measured`` says."""
        steps, may_end = _automaton(arrays)
        fewest = np.where(may_end, 0, FAR)
        pairs = np.concatenate([*_pairs(arrays, steps, TokenTrie.of(vocabulary))], axis=1)
        before, after = pairs
        for distance in range(1, len(fewest) + 1):
            reached = before[fewest[after] == distance - 1]
            if not (fewest == distance - 1).any():
                break
            fewest[reached[fewest[reached] == FAR]] = distance
        is_on_way = fewest[after] < FAR
        ahead = np.zeros(len(fewest), np.int64)
        np.maximum.at(ahead, before[is_on_way], fewest[after[is_on_way]])
        return cls(fewest, ahead)


def _automaton(arrays: GrammarArrays) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the states after byte classes, int32[C + 1, K], and where texts may end, bool[C].

    The last state is that of texts that do not go on.
    """
    size = count_states(arrays)
    rows = np.array([row_of_state(arrays, state) for state in range(size)], np.int64)
    steps = arrays.delta.reshape(len(arrays.live_row), -1)[rows].astype(np.int64)
    relative = steps < -1
    steps[relative] += (np.arange(size)[:, None] + RELATIVE + np.zeros_like(steps))[relative]
    may_end = np.diff(arrays.match_offsets)[rows] > 0
    lives = np.diff(arrays.live_offsets)[arrays.live_row[rows]] > 0
    goes_on = np.append(lives | may_end, False)
    steps[~goes_on[steps]] = size
    ends = np.full((1, steps.shape[1]), size, np.int64)
    return np.concatenate([steps, ends]).astype(np.int32), may_end


def _pairs(
    arrays: GrammarArrays, steps: NDArray[np.int32], trie: TokenTrie
) -> Iterator[NDArray[np.int64]]:
    """Yield pairs of states, int64[2, p], of which a token leads from one to the other."""
    size, classes = len(steps) - 1, steps.shape[1]
    flat, class_of = steps.reshape(-1), arrays.byte_class[trie.node_byte].astype(np.int64)
    levels = [np.flatnonzero(trie.depth == d) for d in range(1, int(trie.depth.max(initial=0)) + 1)]
    has_token = np.diff(trie.token_offsets) > 0
    place = np.full(len(trie.depth) + 1, -1, np.int64)
    for first in range(0, size, _TOGETHER):
        states = np.arange(first, min(first + _TOGETHER, size))
        reached = np.zeros((len(states), size + 1), np.bool_)
        # The nodes of the level before that some state comes to; the root is its own level.
        kept, after = np.array([-1]), states[None].astype(np.int64)
        for depth, nodes in enumerate(levels):
            if depth:
                place[kept] = np.arange(len(kept))
                above = place[levels[depth - 1][np.searchsorted(levels[depth - 1], nodes) - 1]]
                place[kept] = -1
                nodes, above = nodes[above >= 0], above[above >= 0]
            else:
                above = np.zeros(len(nodes), np.int64)
            after = flat[after[above] * classes + class_of[nodes][:, None]].astype(np.int64)
            leads_on = (after < size).any(axis=1)
            kept, after = nodes[leads_on], after[leads_on]
            if not kept.size:
                break
            tokens = after[has_token[kept]]
            reached[np.arange(len(states))[None].repeat(len(tokens), 0), tokens] = True
        before, behind = np.nonzero(reached[:, :size])
        yield np.stack([before + first, behind])
