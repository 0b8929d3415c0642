"""Subterminal trees: how every token splits into terminals, from every state of the scanner.

The walks are compiled (``native/trees``: ``scanner``, ``walks``, ``worker`` and ``forest``) and run
in several threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.states import CounterStates
from cdec.core.errors import LimitError
from cdec.core.mask import mask_words
from cdec.core.native import library
from cdec.core.tokens.token_trie import TokenTrie

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner

MAX_BRANCHES = 64
"""Ways to split a token that are still listed; a token with more is verified byte by byte."""
_A_WORKER = 16
"""Trees for which another thread is worth while."""
_STEPS = 5_000_000
"""Steps of a worker between two looks at whether to stop: some 0.05 seconds."""
_TOO_MANY_NODES = -1
_FEW = 64
"""States beside those of counted repetitions that are not compared with one another."""
_WORDS_A_TOKEN = 8
"""Words of a mask that are OR-ed in the time in which one token's bit is set."""


class TreeScanner(NamedTuple):
    """``cdec_tree_scanner`` of the compiled library."""

    delta: NDArray[np.int32]
    match_offsets: NDArray[np.int32]
    match_terminals: NDArray[np.int32]
    live_row: NDArray[np.int32]
    context_start: NDArray[np.int32]
    after_offsets: NDArray[np.int32]
    after_contexts: NDArray[np.int32]
    ignored: NDArray[np.bool_]
    lexing: bool
    max_branches: int
    max_nodes: int


class TreeTrie(NamedTuple):
    """``cdec_tree_trie`` of the compiled library."""

    classes: NDArray[np.int32]
    depth: NDArray[np.int32]
    skip: NDArray[np.int32]
    token_offsets: NDArray[np.int32]
    token_ids: NDArray[np.int32]


def build_trees(
    scanner: Scanner,
    after: Sequence[Sequence[int]],
    trie: TokenTrie,
    vocabulary_size: int,
    *,
    lexing: bool,
    fallback_states: NDArray[np.bool_] | None = None,
    limits: GrammarLimits | None = None,
    ignored: NDArray[np.bool_] | None = None,
    max_branches: int = MAX_BRANCHES,
    dense_from: int | None = None,
    share: bool = True,
    same_tree: NDArray[np.int32] | None = None,
    workers: int | None = None,
    copies: CounterStates | None = None,
) -> dict[str, NDArray[Any]]:
    """Build the trees of all scanner states.

    Args:
        scanner: Compiled scanner with C states, ``delta`` as int32[C, K].
        after: For every terminal the contexts that may hold after it; in ``dynamic`` exactly one.
        vocabulary_size: Tokens of the vocabulary, special ones included.
        lexing: Contextual or basic lexing, else ``dynamic``.
        fallback_states: bool[C] states that can have a fallback behind them, so that
            ``tree_taken`` is asked for; None: all of them.
        limits: ``max_tree_nodes`` is used.
        ignored: bool[T]; in ``dynamic`` an ignored terminal then needs no path node.
        max_branches: Of a token; one with more goes to ``verify_tokens``.
        dense_from: Size from which a group of tokens is a mask; None: where a mask is faster.
        share: Let states that behave alike within a token share a walk.
        same_tree: int32[C] state whose tree a state is given: that of itself, or of one that
            is given its own; None: itself.
        workers: Threads; None: one a core.
        copies: Of counted repetitions, by state.

    Returns:
        ``tree_of_state``, ``tree_*``, ``path_*``, ``group_*``, ``branch_*``, ``tokens``,
        ``verify_tokens`` and ``dense_masks`` of ``cdec.core.grammars.columns``; the same for any
        number of workers.

    Raises:
        LimitError: More path nodes and groups than ``limits.max_tree_nodes``.
    """
    limits = limits or GrammarLimits()
    walked = _walk_scanner(scanner, after, lexing, ignored, max_branches, limits)
    kinds = np.asarray(scanner.byte_class, np.int32)[trie.node_byte]
    walked_trie = TreeTrie(kinds, trie.depth, trie.skip, trie.token_offsets, trie.token_ids)
    classes = _classes(walked, walked_trie, share, copies)
    own = np.arange(len(classes))
    if same_tree is not None:
        own = np.unique(same_tree)
        classes = np.unique(classes[same_tree], return_inverse=True)[1].ravel()
    roots = own[np.unique(classes[own], return_index=True)[1]].astype(np.int32)
    asks_taken = np.zeros(len(roots), np.bool_)
    if lexing:
        asks_taken[classes if fallback_states is None else classes[fallback_states]] = True
    words = mask_words(vocabulary_size)
    dense_from = max(64, words // _WORDS_A_TOKEN) if dense_from is None else dense_from
    forest = library.new_forest(walked, walked_trie, roots, asks_taken, words, dense_from)
    _build(forest, min(workers or os.cpu_count() or 1, -(-len(roots) // _A_WORKER)), limits)
    return _columns(forest, classes, words)


def _walk_scanner(
    scanner: Scanner,
    after: Sequence[Sequence[int]],
    lexing: bool,
    ignored: NDArray[np.bool_] | None,
    max_branches: int,
    limits: GrammarLimits,
) -> TreeScanner:
    """Return the scanner as walks of the vocabulary read it."""
    live_row = np.asarray(scanner.live_row, np.int32)
    # subtle: a state from which nothing can complete any more ends its reading.
    live_row = np.where(np.diff(scanner.live_offsets)[live_row] > 0, live_row, -1)
    return TreeScanner(
        np.ascontiguousarray(scanner.delta, np.int32).reshape(len(live_row), -1),
        np.ascontiguousarray(scanner.match_offsets, np.int32),
        np.ascontiguousarray(scanner.match_terminals, np.int32),
        live_row.astype(np.int32),
        np.ascontiguousarray(scanner.context_start, np.int32),
        np.cumsum([0, *map(len, after)]).astype(np.int32),
        np.array([x for listed in after for x in listed], np.int32),
        np.zeros(len(after), np.bool_) if ignored is None else np.asarray(ignored, np.bool_),
        lexing,
        max_branches,
        limits.max_tree_nodes,
    )


def _classes(
    scanner: TreeScanner, trie: TreeTrie, share: bool, copies: CounterStates | None
) -> NDArray[np.int64]:
    """Return classes of states that no token tells apart; without ``share`` each is its own."""
    states, width = scanner.delta.shape
    if not share:
        return np.arange(states)
    labels, longest = np.empty(states, np.int64), np.empty(width, np.int64)
    library.state_labels(scanner, labels)
    library.longest_inside(scanner, trie, longest)
    lengths = np.where(scanner.delta >= 0, longest, 1).max(axis=1, initial=1)
    classes = np.empty(states, np.int64)
    if copies is None:
        library.classes_within(scanner, labels, lengths, classes)
        return classes
    counted = copies.copy > 0
    few = states - np.count_nonzero(counted) < _FEW
    lengths[counted | few] = 0
    library.classes_within(scanner, labels, lengths, classes)
    same = np.empty(states, np.int32)
    library.alike_but_for_counts(scanner, labels, trie, copies, same)
    return np.unique(classes[same], return_inverse=True)[1].reshape(-1)


def _build(forest: object, workers: int, limits: GrammarLimits) -> None:
    """Build all trees, by several threads."""
    stopped = threading.Event()

    def work(worker: object) -> bool:
        more = 1
        while more == 1 and not stopped.is_set():
            more = library.build_trees(worker, _STEPS)
        if more == _TOO_MANY_NODES:
            stopped.set()
        return more != _TOO_MANY_NODES

    crew = [library.new_tree_worker(forest) for _ in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        try:
            if all(pool.map(work, crew)):
                return
        finally:
            stopped.set()
    raise LimitError(
        f"the subterminal trees have more than {limits.max_tree_nodes} nodes and groups: too many "
        "ways to split tokens into terminals",
        hint="raise `max_tree_nodes`, or write many alternative literals as one terminal.",
        limit="max_tree_nodes",
    )


def _columns(forest: object, classes: NDArray[np.int64], words: int) -> dict[str, NDArray[Any]]:
    """Read all columns out of a forest whose trees are built."""
    sizes = np.empty(7, np.int64)
    library.forest_finish(forest, sizes)
    trees, paths, groups, branches, tokens, verified, masks = sizes.tolist()
    columns: dict[str, NDArray[Any]] = {
        "tree_of_state": np.empty(int(classes.max()) + 1, np.int32),
        "tree_paths": np.empty(trees + 1, np.int64),
        "path_parent": np.empty(paths, np.int32),
        "path_terminal": np.empty(paths, np.int32),
        "path_byte": np.empty(paths, np.int32),
        "path_next": np.empty(paths, np.int32),
        "tree_groups": np.empty(trees + 1, np.int64),
        "group_branches": np.empty(groups + 1, np.int64),
        "branch_path": np.empty(branches, np.int32),
        "branch_live": np.empty(branches, np.int32),
        "branch_depth": np.empty(branches, np.int32),
        "group_dense": np.empty(groups, np.int32),
        "group_tokens": np.empty(groups + 1, np.int64),
        "tokens": np.empty(tokens, np.int32),
        "tree_verify": np.empty(trees + 1, np.int64),
        "verify_tokens": np.empty(verified, np.int32),
        "tree_taken": np.empty(trees, np.int32),
        "dense_masks": np.empty(masks * words, np.int32),
    }
    library.forest_write(forest, tuple(columns.values()))
    columns["tree_of_state"] = columns["tree_of_state"][classes]
    return columns
