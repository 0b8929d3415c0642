"""What the work on a tree has found so far: what is allowed, and what waits for the stack.

FOUND_ALLOWED has a bit for every group and token of the tree (``trees``), 64 a word. FOUND holds
pairs (suspension, ``item << 32 | row + 1``): an item waits with a row of live terminals, or of
other meaning to it; -1: none. ``found_state`` makes a state of the automaton of them.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.lists import (
    append,
    begin_list,
    end_list,
    head,
    item,
    length,
    merged,
    push_pair64,
    sort_pairs,
)
from cdec.core.grammars.engine.masks.partial import low_half, partial_any
from cdec.core.grammars.engine.masks.roots import ALLOWED, STATE, WAITING, root_of, tree_of
from cdec.core.grammars.engine.masks.trees import (
    branches_of,
    group_of,
    groups_of,
    nodes_of,
    tokens_of,
)
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    insert,
    int64s,
    lookup,
    size,
    use,
    used,
)
from cdec.core.grammars.engine.stacks import failed
from cdec.core.kernels import inner

__all__ = [
    "add_waiting",
    "allow",
    "allowed_words",
    "begin_found",
    "either",
    "found_state",
    "is_allowed",
    "state_of_pairs",
    "takes_row",
]


@inner
def allowed_words(e: int, tree: int) -> int:
    """Return how many words a tree's bits of what is allowed take."""
    groups, stop = groups_of(e, tree)
    tokens, end = tokens_of(e, tree)
    return min((stop - groups + end - tokens + 63) >> 6, size(e, f.FOUND_ALLOWED))


@inner
def begin_found(e: int, tree: int) -> None:
    """Begin with nothing found."""
    use(e, f.FOUND, 0)
    words = int64s(e, f.FOUND_ALLOWED)
    for i in range(allowed_words(e, tree)):
        words[i] = 0


@inner
def is_allowed(e: int, number: int) -> bool:
    """Say whether a group or token was found to be allowed."""
    return (int64s(e, f.FOUND_ALLOWED)[number >> 6] >> (number & 63)) & 1 != 0


@inner
def allow(e: int, number: int) -> None:
    """Note that a group or a token is allowed whatever lies below."""
    int64s(e, f.FOUND_ALLOWED)[number >> 6] |= 1 << (number & 63)


@inner
def either(e: int, a: int, b: int) -> int:
    """Return the list of what is allowed by one of two. O(1) if done before."""
    if a == b:
        return a
    key = (min(a, b) << 32) | max(a, b)
    known = lookup(e, f.PAIR_TABLE, key)
    if known != ABSENT:
        return known
    begin_list(e, head(e, a) if length(e, a) >= 0 else ALLOWED)
    for i in range(min(length(e, a), length(e, b))):
        append(e, item(e, a, i) | item(e, b, i))
    result = end_list(e)
    insert(e, f.PAIR_TABLE, key, result)
    return result


@inner
def add_waiting(e: int, suspension: int, number: int, row: int) -> None:
    """Note that an item waits for a suspension."""
    push_pair64(e, f.FOUND, suspension, (number << 32) | ((row + 1) & 0xFFFFFFFF))


@inner
def takes_row(e: int, stack: int, row: int, number: int) -> bool:
    """Say whether a partial stack takes a live row; if not, note what of it waits."""
    outcome = partial_any(e, stack, row)
    if (outcome >> 32) != f.FAIL:
        return True
    questions = low_half(outcome)
    for i in range(0, length(e, questions), 2):
        add_waiting(e, item(e, questions, i), number, item(e, questions, i + 1))
    return False


@inner
def found_state(e: int, root: int) -> int:
    """Return the state of what was found."""
    tree = tree_of(e, root)
    begin_list(e, (root << 2) | ALLOWED)
    for i in range(allowed_words(e, tree)):
        append(e, int64s(e, f.FOUND_ALLOWED)[i])
    allowed = end_list(e)
    pairs, n = int64s(e, f.FOUND), used(e, f.FOUND) // 2
    sort_pairs(pairs, n)
    i, kept = 0, 0
    while i < n and not failed(e):
        suspension, before = pairs[2 * i], -1
        begin_list(e, (root << 2) | WAITING)
        while i < n and pairs[2 * i] == suspension:
            if pairs[2 * i + 1] != before:
                append(e, pairs[2 * i + 1])
            before = pairs[2 * i + 1]
            i += 1
        # subtle: the lists take the place of pairs that were read.
        pairs[2 * kept], pairs[2 * kept + 1] = suspension, end_list(e)
        kept += 1
    use(e, f.FOUND, 2 * kept)
    return state_of_pairs(e, root, allowed, f.FOUND)


@inner
def state_of_pairs(e: int, root: int, allowed: int, field: int) -> int:
    """Return the state of what is allowed and of a field's pairs (suspension, list that waits)."""
    pairs, n = int64s(e, field), used(e, field) // 2
    sort_pairs(pairs, n)
    i, kept = 0, 0
    while i < n and not failed(e):
        suspension, waiting = pairs[2 * i], pairs[2 * i + 1]
        i += 1
        while i < n and pairs[2 * i] == suspension:
            waiting = merged(e, waiting, pairs[2 * i + 1])
            i += 1
        waiting = _without(e, waiting, allowed)
        if not failed(e) and length(e, waiting) > 0:
            pairs[2 * kept], pairs[2 * kept + 1] = suspension, waiting
            kept += 1
    begin_list(e, (root << 2) | STATE)
    append(e, allowed)
    for i in range(2 * kept):
        append(e, pairs[i])
    return end_list(e)


@inner
def _without(e: int, waiting: int, allowed: int) -> int:
    """Return a list that waits without items of what is allowed. O(1) if done before."""
    if failed(e):
        return waiting
    before = lookup(e, f.PAIR_TABLE, (waiting << 32) | allowed)
    if before != ABSENT:
        return before
    root = root_of(e, waiting)
    tree = tree_of(e, root)
    nodes, stop = nodes_of(e, tree)
    branches, last = branches_of(e, tree)
    groups, end = groups_of(e, tree)
    begin_list(e, (root << 2) | WAITING)
    for i in range(length(e, waiting)):
        packed = item(e, waiting, i)
        place = (packed >> 32) - (stop - nodes)
        number = -1
        if 0 <= place < last - branches:
            number = group_of(e, tree, branches + place) - groups
        elif place >= 0:
            number = end - groups + place - (last - branches)
        known = 0 <= number < 64 * length(e, allowed)
        if not known or (item(e, allowed, number >> 6) >> (number & 63)) & 1 == 0:
            append(e, packed)
    result = end_list(e)
    insert(e, f.PAIR_TABLE, (waiting << 32) | allowed, result)
    return result
