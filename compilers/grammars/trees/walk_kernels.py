"""Compiled walk of the vocabulary's trie from one scanner state: how each token splits.

The subterminal trees of "Guiding LLMs the right way" (DOMINO, arXiv 2403.06988, section 3), with
two changes: readings are told apart by the parser's contexts, so that contextual lexing is exact,
and a walk runs on interned lists of readings, so that an edge of the trie costs one table look-up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.arena import (
    BEGUN,
    COUNT,
    DEAD,
    FIRST,
    FLAGS,
    NOTHING,
    OUTCOME,
    PATH,
    PATHS,
    PENDING,
    RESULTS,
    ROOT,
    SPILLED,
    STATE,
    TAKEN,
    TERMINAL,
    UNSET,
    VERIFY,
    Arena,
    has_room,
    inner,
    intern_outcome,
    intern_walk,
)
from cdec.compilers.grammars.trees.walk_steps import WalkScanner, step_dynamic, step_lexing

DONE, NEED_ARENA, TOO_MANY_NODES = 0, 1, 2
"""What a walk ends with: all ranges written, larger tables wanted, a limit passed."""


class WalkTrie(NamedTuple):
    """The vocabulary's trie with bytes replaced by the scanner's classes."""

    classes: NDArray[np.int32]  # [N] byte class that leads to the node
    depth: NDArray[np.int32]  # [N] from 1
    skip: NDArray[np.int32]  # [N]
    token_offsets: NDArray[np.int32]  # [N + 1]
    below: NDArray[np.uint64]  # [N] byte classes within the subtree, as bits
    height: NDArray[np.int32]  # [N] levels below the node
    tops: NDArray[np.int32]  # [F + 1] nodes of level 1, then N
    top_classes: NDArray[np.int32]  # [F] their byte classes, side by side for the cache


@inner
def _place_branch(results: Any, hashes: Any, start: int, n: int, found: Any) -> int:
    """Put (path, live row, depth) in its place among n sorted branches, or lower its depth."""
    path, live, depth = found
    key = hashes[path] if path >= 0 else np.uint64(0)
    low = n
    while low > 0:
        before = results[start + low - 1, 0]
        other = hashes[before] if before >= 0 else np.uint64(0)
        if other < key or (other == key and results[start + low - 1, 1] <= live):
            break
        low -= 1
    at = start + low - 1
    if low > 0 and results[at, 0] == path and results[at, 1] == live:
        results[at, 2] = min(results[at, 2], depth)
        return n
    for i in range(n, low, -1):
        for column in range(3):
            results[start + i, column] = results[start + i - 1, column]
    results[start + low, 0], results[start + low, 1], results[start + low, 2] = found
    return n + 1


@inner
def _drop_implied(results: Any, start: int, n: int) -> int:
    """Drop branches whose path alone is enough for the token, at no greater depth."""
    kept, whole = 0, -1
    for i in range(n):
        if results[start + i, 1] < 0:
            whole = i
        elif (
            whole >= 0
            and results[start + whole, 0] == results[start + i, 0]
            and results[start + whole, 2] <= results[start + i, 2]
        ):
            continue
        for column in range(3):
            results[start + kept, column] = results[start + i, column]
        if whole == i:
            whole = kept
        kept += 1
    return kept


@inner
def _find_outcome(scanner: WalkScanner, arena: Arena, walk: int) -> int:
    """Return the outcome of a walk state: branches by path and live row, sorted, none twice."""
    first, count = arena.walks[walk, FIRST], arena.walks[walk, COUNT]
    if arena.walks[walk, FLAGS] & SPILLED:
        return VERIFY
    if count == 0:
        return NOTHING
    results, hashes, start = arena.results, arena.path_hashes, arena.counts[RESULTS]
    n = np.int64(0)
    for at in range(first, first + count):
        path, state = arena.branches[at, PATH], arena.branches[at, STATE]
        live = np.int64(scanner.live_row[state]) if state >= 0 else np.int64(-1)
        depth = np.int64(arena.branches[at, BEGUN]) - 1
        n = _place_branch(results, hashes, start, n, (np.int64(path), live, depth))
    n = _drop_implied(results, start, n)
    return VERIFY if n > scanner.max_branches else intern_outcome(arena, n)


@inner
def _follow(scanner: WalkScanner, arena: Arena, walk: int, k: int) -> int:
    """Compute and keep the transition of a walk state."""
    if scanner.lexing:
        following = step_lexing(scanner, arena, walk, k)
    else:
        following = step_dynamic(scanner, arena, walk, k)
    arena.transitions[walk, k] = following
    if k < 63:
        _note_alike(scanner, arena, walk, k, following)
    return int(following)


@inner
def _note_alike(scanner: WalkScanner, arena: Arena, walk: int, k: int, following: int) -> None:
    """Note where a step changes nothing about the tokens that end before and after it."""
    alike, walks = arena.alike, arena.walks
    bit = np.uint64(1) << np.uint64(k)
    if alike[walk] == following:
        arena.loops[walk] |= bit
    elif following == walk:
        # subtle: a loop is worth more than the way into a row of states, which may be short.
        alike[walk], arena.loops[walk] = following, bit
    elif (
        alike[walk] < 0
        and walks[walk, FLAGS] == walks[following, FLAGS]
        and _outcome(scanner, arena, walk) == _outcome(scanner, arena, following)
    ):
        alike[walk], arena.loops[walk] = following, bit


@inner
def _outcome(scanner: WalkScanner, arena: Arena, walk: int) -> int:
    """Return the outcome of a walk state, computed once."""
    if arena.walks[walk, OUTCOME] == UNSET:
        arena.walks[walk, OUTCOME] = _find_outcome(scanner, arena, walk)
    return int(arena.walks[walk, OUTCOME])


@inner
def _is_even(alike: Any, loops: Any, walk: int, classes: Any, height: int) -> bool:
    """Say whether all texts of some classes, up to a length, leave outcome and flags as they are.

    What is not noted yet counts as a change.
    """
    while height > 0:
        if classes & ~loops[walk]:
            return False
        if alike[walk] == walk:
            return True
        walk = int(alike[walk])
        height -= 1
    return True


@inner
def _stops(lexing: bool, width: int, parts: Any, walk: int, k: int) -> bool:
    """Say whether no reading goes on with a class; most edges of most walk states are such.

    subtle: it costs less than the step that would find it out; what is not certain is stepped.
    """
    walks, branches, paths, delta, starts, enters = parts
    if walks[walk, FLAGS] & SPILLED:
        return False
    first = np.int64(walks[walk, FIRST])
    for at in range(first, first + walks[walk, COUNT]):
        state = np.int64(branches[at, STATE])
        if state < 0 and lexing:
            row = np.int64(paths[branches[at, PATH], TERMINAL]) * width + k
            if enters[row] < enters[row + 1]:
                return False
            continue
        if state < 0:
            state = np.int64(starts[PENDING - state])
        if delta[state * width + k] >= 0:
            return False
    return True


@inner
def _add_range(ranges: Any, n: int, outcome: int, first: int, last: int) -> int:
    """Append tokens with an outcome, or lengthen the last range; return how many there are."""
    if n > 0 and ranges[n - 1, 0] == outcome and ranges[n - 1, 2] == first:
        ranges[n - 1, 2] = last
        return n
    ranges[n, 0], ranges[n, 1], ranges[n, 2] = outcome, first, last
    return n + 1


@inner
def walk_tokens(
    scanner: WalkScanner, trie: WalkTrie, arena: Arena, root: int, asks_taken: bool, work: Any
) -> Any:
    """Walk the trie from a scanner state and write what its tokens are, by ranges of tokens.

    Args:
        scanner: The scanner.
        trie: The vocabulary.
        arena: Shared with earlier walks.
        root: Scanner state.
        asks_taken: Whether tokens that complete the terminal under way are asked for.
        work: Work space: int32[depth + 2] walk states on the way down; int32[N, 3] for outcome,
            first and last + 1 place among the trie's tokens; the same for the tokens taken.

    Returns:
        What the walk ended with, the number of ranges and of taken ranges.
    """
    open_walks, ranges, taken = work
    depth, skip, classes, below = trie.depth, trie.skip, trie.classes, trie.below
    token_offsets, transitions = trie.token_offsets, arena.transitions
    alike, loops, walks, counts = arena.alike, arena.loops, arena.walks, arena.counts
    lexing, width = scanner.lexing, np.int64(scanner.classes)
    height, tops, top_classes = trie.height, trie.tops, trie.top_classes
    readings = (
        *(walks, arena.branches, arena.paths),
        *(scanner.delta, scanner.context_start, scanner.enter_offsets),
    )
    n, n_taken, node, top = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if not has_room(arena):
        return NEED_ARENA, n, n_taken
    arena.scratch[0, PATH], arena.scratch[0, STATE], arena.scratch[0, BEGUN] = ROOT, root, 0
    open_walks[0] = intern_walk(arena, np.int64(1), np.int64(0))
    over = np.int64(intern_walk(arena, np.int64(0), TAKEN))
    while node < len(depth):
        if node == tops[top]:
            level, k, after = np.int64(1), np.int64(top_classes[top]), np.int64(tops[top + 1])
            top += 1
        else:
            level, k, after = np.int64(depth[node]), np.int64(classes[node]), np.int64(skip[node])
        walk = np.int64(open_walks[level - 1])
        following = np.int64(transitions[walk, k])
        if following < 0 and _stops(lexing, width, readings, walk, k):
            flags = np.int64(walks[walk, FLAGS])
            following = DEAD if flags == 0 else over
            transitions[walk, k] = following
        if following < 0:
            if not has_room(arena):
                return NEED_ARENA, n, n_taken
            if counts[PATHS] > scanner.max_nodes:
                return TOO_MANY_NODES, n, n_taken
            following = _follow(scanner, arena, walk, k)
        if following == DEAD:
            node = after
            continue
        first = np.int64(token_offsets[node])
        open_walks[level] = following
        if _is_even(alike, loops, following, below[node], np.int64(height[node])):
            node = after
        else:
            node += 1
        last = np.int64(token_offsets[node])
        if first == last:
            continue
        outcome = np.int64(walks[following, OUTCOME])
        if outcome == UNSET:
            if not has_room(arena):
                return NEED_ARENA, n, n_taken
            outcome = np.int64(_outcome(scanner, arena, following))
        if outcome != NOTHING:
            n = _add_range(ranges, n, outcome, first, last)
        if asks_taken and walks[following, FLAGS] & TAKEN:
            n_taken = _add_range(taken, n_taken, np.int64(NOTHING), first, last)
    return DONE, n, n_taken
