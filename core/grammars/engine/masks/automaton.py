"""Masks as an automaton that reads the stack from its top, one LR state a step; made lazily.

The stacks that allow a group of tokens at one scanner state are a regular language: the terminals
of its sequence pop what they read, and push what later ones pop. All groups of a tree together are
one deterministic automaton. It generalises what DOMINO (arXiv 2403.06988, section 3.3) finds by
walking a tree for every stack anew; equal states are one, however they were reached, so the states
of deeply nested texts are those of shallow ones.

A state is a list of *entries*, (item, question), two int32 in AUTO_ENTRIES, ascending. Item p below
the number of the tree's path nodes is a node whose terminal is to be shifted, item ``nodes + b``
the b-th branch of the tree, whose live row is asked; behind those, tokens that are read byte by
byte. A question says what is known only further down; ALLOWED, at the item of a group's first
branch or of a token, that the group or token is allowed whatever lies below. States 0 to E - 1 are
those before the first step, one a tree; their entries are not written, for everything waits.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import (
    DROPPED,
    FAILS,
    PLAIN,
    ROWS,
    next_symbol,
    rest,
    without_line,
)
from cdec.core.grammars.engine.masks.allowed import ALLOWED, group_item, is_noted
from cdec.core.grammars.engine.masks.entries import (
    add_entry,
    add_questions,
    begin_item,
    enters,
    resume,
    tree_nodes,
    waits,
)
from cdec.core.grammars.engine.masks.kinds import (
    begin_effects,
    effect_at,
    is_before,
    kind_after,
    tree_of,
)
from cdec.core.grammars.engine.masks.partial import (
    hole,
    low_half,
    partial_any,
    partial_shift,
    question,
    suspensions,
)
from cdec.core.grammars.engine.masks.stepping import (
    WITHIN,
    is_token_allowed,
    is_token_allowed_from,
)
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    lookup,
    mixed,
    put,
    size,
    span,
    use,
    used,
)
from cdec.core.grammars.engine.stacks import failed, union, vertex
from cdec.core.kernels import inner

__all__ = ["compute_step", "intern_state", "is_final", "step", "steps_partially"]


@inner
def is_final(e: int, state: int) -> bool:
    """Say whether nothing waits in a state: its mask is that of all stacks below."""
    return state >= get(e, f.TREES) and int32s(e, f.AUTO_WAITING)[state] == 0


@inner
def steps_partially(e: int) -> bool:
    """Say whether the automaton reads long tokens, too: for every segmentation and lookahead."""
    return get(e, f.GENERAL) != 0 and get(e, f.LOOKAHEAD) == f.UNLIMITED


@inner
def step(e: int, state: int, lr_state: int) -> int:
    """Return the state after reading an LR state; -1 after a lack of room. O(1) if done before."""
    known = lookup(e, f.STEP_TABLE, (state << 32) | lr_state)
    return known if known != ABSENT else call3(get(e, f.CALL_STEP), e, state, lr_state)


@inner
def compute_step(e: int, state: int, lr_state: int) -> int:
    """Compute a step: what waited goes on, above the LR state that was read.

    Cost: O(path nodes and branches of the tree).
    """
    tree = tree_of(e, state)
    base = vertex(e, lr_state, hole(e))
    put(e, f.ENTRY_AT, int64s(e, f.AUTO_OFFSETS)[state])
    put(e, f.ENTRY_END, used(e, f.AUTO_ENTRIES))
    begin_effects(e, state)
    if not failed(e):
        _step_nodes(e, state, tree, base)
    if not failed(e):
        _step_groups(e, state, tree, base)
    if steps_partially(e) and not failed(e):
        _step_tokens(e, state, tree, base)
    following = -1 if failed(e) else intern_state(e, kind_after(e, state))
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    return following if insert(e, f.STEP_TABLE, (state << 32) | lr_state, following) else -1


@inner
def _step_nodes(e: int, state: int, tree: int, base: int) -> None:
    """Write the partial stack at every path node to NODE_STACK, and entries for those that wait."""
    first = max(int64s(e, f.TREE_PATHS)[tree], 0)
    parents, terminals = int32s(e, f.PATH_PARENT), int32s(e, f.PATH_TERMINAL)
    is_first, stacks = is_before(e, state), int32s(e, f.NODE_STACK)
    for node in range(tree_nodes(e, tree)):
        parent, terminal = parents[first + node], terminals[first + node]
        above, here = f.FAIL, f.FAIL
        if parent >= 0:
            above = stacks[parent] if parent < node else f.FAIL
        elif is_first:
            above = base
        if terminal < 0:
            stacks[node] = above if above != f.FAIL and enters(e, above, first + node) else f.FAIL
            continue
        begin_item(e)
        code = effect_at(e, node)
        if code in (DROPPED, FAILS):
            stacks[node] = without_line(e, above) if code == DROPPED else f.FAIL
            continue
        if above != f.FAIL:
            here = _shift_node(e, node, above, terminal, code)
        while not is_first and waits(e, state, node):
            resumed, left = resume(e, node, base), get(e, f.ENTRY_ROW)
            if resumed != f.FAIL:
                due = ROWS - left if left <= ROWS else code
                here = union(e, here, _shift_node(e, node, resumed, terminal, due))
        stacks[node] = here
        if failed(e):
            return


@inner
def _shift_node(e: int, item: int, stack: int, terminal: int, code: int) -> int:
    """Shift a node's terminal, or what an indenter makes of it; add entries for what waits."""
    if code == PLAIN:
        outcome = partial_shift(e, stack, terminal)
        _suspend(e, item, -1, low_half(outcome))
        return outcome >> 32
    while code > 0 and stack != f.FAIL:
        outcome = partial_shift(e, stack, next_symbol(e, code))
        _suspend(e, item, ROWS - code, low_half(outcome))
        stack, code = outcome >> 32, rest(code)
    return stack


@inner
def _suspend(e: int, item: int, row: int, number: int) -> None:
    """Add an entry for every suspension of a list."""
    for i in range(suspensions(e, number)):
        add_entry(e, item, question(e, row, int64s(e, f.SUSPENSIONS)[number + 1 + i]))


@inner
def _step_groups(e: int, state: int, tree: int, base: int) -> None:
    """Note the groups that are allowed, and entries for the branches that wait."""
    low, high = span(int64s(e, f.TREE_GROUPS), tree, size(e, f.GROUP_DENSE))
    branches, is_first = int64s(e, f.GROUP_BRANCHES), is_before(e, state)
    for group in range(low, high):
        first, undo = group_item(e, tree, group), get(e, f.ENTRY_END)
        begin_item(e)
        if not is_first and is_noted(e, state, first):
            add_entry(e, first, ALLOWED)
            continue
        start, stop = span(branches, group, size(e, f.BRANCH_PATH))
        for branch in range(start, stop):
            begin_item(e)
            if _is_allowed(e, state, branch, first + branch - start, base):
                put(e, f.ENTRY_END, undo)
                begin_item(e)
                add_entry(e, first, ALLOWED)
                break
            if failed(e):
                return


@inner
def _is_allowed(e: int, state: int, branch: int, item: int, base: int) -> bool:
    """Say whether a branch is allowed whatever lies below; else add entries for what waits."""
    if int32s(e, f.BRANCH_DEPTH)[branch] > get(e, f.LOOKAHEAD):
        return False
    path, row, code = _path(e, branch), int32s(e, f.BRANCH_LIVE)[branch], effect_at(e, item)
    if code == FAILS:
        return False
    if code != PLAIN:
        row = -1 if code == DROPPED else code
    is_first = is_before(e, state)
    here = base if is_first else f.FAIL
    if path >= 0:
        here = int32s(e, f.NODE_STACK)[path]
    elif path < -1:
        here = f.FAIL
    if here != f.FAIL and (row < 0 or _takes(e, here, row, item)):
        return True
    while not is_first and waits(e, state, item):
        resumed = resume(e, item, base)
        if resumed != f.FAIL and _takes(e, resumed, get(e, f.ENTRY_ROW), item):
            return True
    return False


@inner
def _path(e: int, branch: int) -> int:
    """Return a branch's path node, -2 where the artifact is damaged."""
    path = int32s(e, f.BRANCH_PATH)[branch]
    return path if path < size(e, f.NODE_STACK) else -2


@inner
def _takes(e: int, stack: int, row: int, item: int) -> bool:
    """Say whether a partial stack takes a live row, or add entries for the terminals that wait."""
    outcome = partial_any(e, stack, row)
    if (outcome >> 32) != f.FAIL:
        return True
    add_questions(e, item, low_half(outcome))
    return False


@inner
def _step_tokens(e: int, state: int, tree: int, base: int) -> None:
    """Do the same for the tokens that are read byte by byte (``stepping``)."""
    low, high = span(int64s(e, f.TREE_GROUPS), tree, size(e, f.GROUP_DENSE))
    first, tokens = group_item(e, tree, high), int32s(e, f.VERIFY_TOKENS)
    low, high = span(int64s(e, f.TREE_VERIFY), tree, size(e, f.VERIFY_TOKENS))
    for i in range(low, high):
        undo = get(e, f.ENTRY_END)
        begin_item(e)
        if _is_token_allowed(e, state, tree, tokens[i], first + i - low, base):
            put(e, f.ENTRY_END, undo)
            add_entry(e, first + i - low, ALLOWED)
        if failed(e):
            return


@inner
def _is_token_allowed(e: int, state: int, tree: int, token: int, item: int, base: int) -> bool:
    """Say whether a token is allowed whatever lies below; else add entries for what waits."""
    if token < 0 or token >= get(e, f.VOCABULARY):
        return False
    if state < get(e, f.TREES):
        return is_token_allowed(e, token, item, int32s(e, f.TREE_STATE)[tree], base)
    if is_noted(e, state, item):
        return True
    while waits(e, state, item):
        resumed, asked = resume(e, item, base), get(e, f.ENTRY_ROW)
        if resumed == f.FAIL:
            continue
        if asked < WITHIN and _takes(e, resumed, asked, item):
            return True
        if asked >= WITHIN and is_token_allowed_from(e, token, item, asked, resumed):
            return True
    return False


@inner
def intern_state(e: int, kind: int) -> int:
    """Return the state of a kind with the entries up to ENTRY_END, new or known.

    ``kind``: its tree, or what ``indented`` makes of one.
    """
    offsets, entries = int64s(e, f.AUTO_OFFSETS), int32s(e, f.AUTO_ENTRIES)
    start = used(e, f.AUTO_ENTRIES)
    n, key, waiting = get(e, f.ENTRY_END) - start, mixed(kind), 0
    for i in range(n):
        key = mixed(key ^ entries[start + i])
    key = key if key != -1 else 0
    while True:
        known = lookup(e, f.AUTO_TABLE, key)
        if known == ABSENT:
            break
        at, same = offsets[known], 0
        if int32s(e, f.AUTO_TREE)[known] == kind and offsets[known + 1] - at == n:
            while same < n and entries[at + same] == entries[start + same]:
                same += 1
            if same == n:
                return known
        key = mixed(key ^ 1)
    new = used(e, f.AUTO_OFFSETS) - 1
    if not has_room(e, f.AUTO_OFFSETS, 1) or not insert(e, f.AUTO_TABLE, key, new):
        return -1
    for i in range(1, n, 2):
        waiting += entries[start + i] != ALLOWED
    offsets[new + 1] = start + n
    int32s(e, f.AUTO_TREE)[new], int32s(e, f.AUTO_MASK)[new] = kind, -1
    int32s(e, f.AUTO_WAITING)[new] = waiting
    use(e, f.AUTO_OFFSETS, new + 2)
    use(e, f.AUTO_ENTRIES, start + n)
    return new
