"""build_trees: the subterminal trees of all scanner states, by several threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.states.copies import Copies
from cdec.compilers.grammars.trees.assembly import assemble
from cdec.compilers.grammars.trees.classes import (
    classes_below,
    classes_within,
    longest_inside,
    state_labels,
)
from cdec.compilers.grammars.trees.counted import alike_but_for_counts
from cdec.compilers.grammars.trees.enters import find_enters
from cdec.compilers.grammars.trees.walk_kernels import WalkTrie
from cdec.compilers.grammars.trees.walk_steps import WalkScanner
from cdec.compilers.grammars.trees.worker import TreeWorker
from cdec.core.errors import LimitError
from cdec.core.mask import mask_words
from cdec.core.tokens.token_trie import TokenTrie

MAX_BRANCHES = 64
"""Ways to split a token that are still listed; a token with more is verified byte by byte."""
_BATCH = 16
"""Scanner states that a worker takes at a time."""
_FEW = 64
"""States beside those of counted repetitions that are not compared with one another."""
_WORDS_A_TOKEN = 8
"""Words of a mask that are OR-ed in the time in which one token's bit is set."""


class Scanner(Protocol):
    """What the trees need of a compiled scanner; see ``cdec.core.grammars.columns``."""

    @property
    def byte_class(self) -> NDArray[np.int32]: ...
    @property
    def delta(self) -> NDArray[np.int32]: ...
    @property
    def match_offsets(self) -> NDArray[np.int32]: ...
    @property
    def match_terminals(self) -> NDArray[np.int32]: ...
    @property
    def live_row(self) -> NDArray[np.int32]: ...
    @property
    def live_offsets(self) -> NDArray[np.int32]: ...
    @property
    def context_start(self) -> NDArray[np.int32]: ...


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
    copies: Copies | None = None,
) -> dict[str, NDArray[Any]]:
    """Build the trees of all scanner states.

    Args:
        scanner: Compiled scanner with C states, ``delta`` as int32[C, K].
        after: For every terminal the contexts that may hold after it; in ``dynamic`` exactly one.
        trie: The vocabulary.
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
    walk_scanner = _walk_scanner(scanner, after, lexing, ignored, max_branches, limits)
    walk_trie = _walk_trie(scanner, trie)
    classes = _classes(scanner, walk_scanner, walk_trie, share, copies)
    own = np.arange(len(classes))
    if same_tree is not None:
        own = np.unique(same_tree)
        classes = np.unique(classes[same_tree], return_inverse=True)[1].ravel()
    roots = own[np.unique(classes[own], return_index=True)[1]].astype(np.int32)
    wants_taken = np.zeros(len(classes), np.bool_)
    if lexing:
        asked = np.ones_like(wants_taken) if fallback_states is None else fallback_states
        wants_taken[roots[classes[asked]]] = True
    words = mask_words(vocabulary_size)
    crew = [
        TreeWorker(
            walk_scanner,
            walk_trie,
            trie.token_ids,
            words,
            max(64, words // _WORDS_A_TOKEN) if dense_from is None else dense_from,
        )
        for _ in range(min(workers or os.cpu_count() or 1, -(-len(roots) // _BATCH)))
    ]
    built = _run(crew, roots, wants_taken, limits)
    columns = assemble([worker.output for worker in crew], classes[built], classes)
    if len(columns["path_parent"]) + len(columns["group_dense"]) > limits.max_tree_nodes:
        raise _too_many_nodes(limits)
    return columns


def _walk_scanner(
    scanner: Scanner,
    after: Sequence[Sequence[int]],
    lexing: bool,
    ignored: NDArray[np.bool_] | None,
    max_branches: int,
    limits: GrammarLimits,
) -> WalkScanner:
    """Return the scanner as the kernels read it."""
    live_row = np.asarray(scanner.live_row, np.int32)
    match_offsets = np.ascontiguousarray(scanner.match_offsets, np.int32)
    # subtle: a state from which nothing can complete any more ends its reading.
    live_row = np.where(np.diff(scanner.live_offsets)[live_row] > 0, live_row, -1)
    delta = np.ascontiguousarray(scanner.delta, np.int32).reshape(len(live_row), -1)
    start = np.ascontiguousarray(scanner.context_start, np.int32)
    contexts = np.array([x for listed in after for x in listed], np.int32)
    ends = np.cumsum([0, *map(len, after)]).astype(np.int32)
    useful = (live_row >= 0) | (np.diff(match_offsets) > 0)
    return WalkScanner(
        delta.shape[1],
        delta.reshape(-1),
        match_offsets,
        np.ascontiguousarray(scanner.match_terminals, np.int32),
        live_row.astype(np.int32),
        start,
        np.zeros(0, np.int32) if lexing else contexts,
        np.zeros(len(after), np.bool_) if ignored is None else np.asarray(ignored, np.bool_),
        *find_enters(delta, start, ends if lexing else ends[:1], contexts, useful),
        lexing,
        max_branches,
        limits.max_tree_nodes,
    )


def _walk_trie(scanner: Scanner, trie: TokenTrie) -> WalkTrie:
    classes = np.asarray(scanner.byte_class, np.int32)[trie.node_byte]
    below, height = np.empty(len(classes), np.uint64), np.empty(len(classes), np.int32)
    classes_below(classes, trie.depth, below, height)
    tops = np.flatnonzero(trie.depth == 1).astype(np.int32)
    return WalkTrie(
        classes,
        trie.depth,
        trie.skip,
        trie.token_offsets,
        below,
        height,
        np.append(tops, np.int32(len(classes))),
        classes[tops],
    )


def _classes(
    scanner: Scanner, walk: WalkScanner, trie: WalkTrie, share: bool, copies: Copies | None
) -> NDArray[np.int64]:
    """Return classes of states that no token tells apart; without ``share`` each is its own."""
    delta = walk.delta.reshape(len(walk.live_row), walk.classes)
    lengths = np.zeros(len(delta), np.int64)
    labels = state_labels(scanner.match_offsets, scanner.match_terminals, walk.live_row)
    if share:
        longest = longest_inside(delta, trie.classes, trie.depth, trie.skip)
        lengths = np.where(delta >= 0, longest, 1).max(axis=1, initial=1)
    if not share or copies is None:
        return classes_within(delta, labels, lengths)
    counted = copies.copy > 0
    few = len(delta) - np.count_nonzero(counted) < _FEW
    lengths[counted | few] = 0
    classes = classes_within(delta, labels, lengths)
    joined = classes[alike_but_for_counts(delta, labels, trie, copies)]
    return np.unique(joined, return_inverse=True)[1].reshape(-1)


def _run(
    crew: Sequence[TreeWorker],
    roots: NDArray[np.int32],
    wants_taken: NDArray[np.bool_],
    limits: GrammarLimits,
) -> NDArray[np.int32]:
    """Build all trees; return the roots in the order in which the workers' outputs hold them."""
    batches = iter(range(0, len(roots), _BATCH))
    lock = threading.Lock()
    stopped = threading.Event()

    def work(worker: TreeWorker) -> list[NDArray[np.int32]]:
        done = [roots[:0]]
        while not stopped.is_set():
            with lock:
                start = next(batches, None)
            if start is None:
                break
            done.append(roots[start : start + _BATCH])
            if not worker.build(done[-1], wants_taken):
                stopped.set()
                raise _too_many_nodes(limits)
        return done

    with ThreadPoolExecutor(len(crew)) as pool:
        return np.concatenate([part for done in pool.map(work, crew) for part in done])


def _too_many_nodes(limits: GrammarLimits) -> LimitError:
    return LimitError(
        f"the subterminal trees have more than {limits.max_tree_nodes} nodes and groups: too many "
        "ways to split tokens into terminals",
        hint="raise `max_tree_nodes`, or write many alternative literals as one terminal.",
        limit="max_tree_nodes",
    )
