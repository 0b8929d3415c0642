"""What waits for the stack goes on above an LR state: from a tree's root, or after a reduction.

The work is done above the LR state alone, with the hole right below it, so that it is the same for
every state of the automaton and every stack: ``evaluate`` keeps it. What it finds is a state.
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
from cdec.core.grammars.engine.lists import item, length
from cdec.core.grammars.engine.masks.found import (
    add_waiting,
    allow,
    begin_found,
    found_state,
    is_allowed,
    takes_row,
)
from cdec.core.grammars.engine.masks.partial import hole, low_half, partial_shift
from cdec.core.grammars.engine.masks.roots import effect_at, is_before, root_of, tree_of
from cdec.core.grammars.engine.masks.stepping import (
    WITHIN,
    is_token_allowed,
    is_token_allowed_from,
)
from cdec.core.grammars.engine.masks.trees import (
    branches_of,
    groups_of,
    link,
    nodes_of,
    tokens_of,
)
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    get,
    insert,
    int32s,
    lookup,
    put,
    use,
    used,
)
from cdec.core.grammars.engine.readings import next_state
from cdec.core.grammars.engine.stacks import failed, push_pair, vertex
from cdec.core.grammars.engine.work import pause, spend
from cdec.core.kernels import inner

__all__ = ["compute_evaluate", "evaluate", "steps_partially"]


@inner
def steps_partially(e: int) -> bool:
    """Say whether the automaton reads long tokens, too: for every segmentation and lookahead."""
    return get(e, f.GENERAL) != 0 and get(e, f.LOOKAHEAD) == f.UNLIMITED


@inner
def evaluate(e: int, waiting: int, lr_state: int) -> int:
    """Return the state of what a list that waits, or a first state, finds. O(1) if done before."""
    known = lookup(e, f.EVALUATE_TABLE, (waiting << 32) | lr_state)
    return known if known != ABSENT else call3(get(e, f.CALL_EVALUATE), e, waiting, lr_state)


@inner
def compute_evaluate(e: int, waiting: int, lr_state: int) -> int:
    """Compute what ``evaluate`` returns. Cost: O(path nodes and branches beneath what waits)."""
    root = root_of(e, waiting)
    tree = tree_of(e, root)
    put(e, f.ROOT, root)
    link(e, tree)
    begin_found(e, tree)
    use(e, f.NODE_WORK, 0)
    stack = vertex(e, lr_state, hole(e))
    if is_before(e, waiting):
        _visit(e, tree, int32s(e, f.TREE_BRANCH)[tree], int32s(e, f.TREE_CHILD)[tree], stack)
        _read_tokens(e, tree, stack)
    else:
        for i in range(length(e, waiting)):
            packed = item(e, waiting, i)
            _resume(e, tree, packed >> 32, ((packed << 32) >> 32) - 1, stack)
    while used(e, f.NODE_WORK) > 0 and not failed(e):
        top = used(e, f.NODE_WORK) - 2
        node, above = int32s(e, f.NODE_WORK)[top], int32s(e, f.NODE_WORK)[top + 1]
        use(e, f.NODE_WORK, top)
        _visit(e, tree, int32s(e, f.NODE_BRANCH)[node], int32s(e, f.NODE_CHILD)[node], above)
    result = found_state(e, root)
    if not insert(e, f.EVALUATE_TABLE, (waiting << 32) | lr_state, result):
        return 0
    spend(e, 1 + used(e, f.FOUND))
    pause(e)
    return result


@inner
def _visit(e: int, tree: int, branch: int, node: int, stack: int) -> None:
    """Try the branches at a node, and shift the terminals of the nodes beneath it."""
    first, stop = nodes_of(e, tree)
    low = branches_of(e, tree)[0]
    while branch >= 0:
        row, code = int32s(e, f.BRANCH_LIVE)[branch], effect_at(e, stop - first + branch - low)
        if code != FAILS:
            row = row if code == PLAIN else code
            _try_branch(e, tree, branch, row, stack)
        branch = int32s(e, f.BRANCH_NEXT)[branch]
    while node >= 0 and not failed(e):
        _try_node(e, tree, node, effect_at(e, node - first), stack)
        node = int32s(e, f.NODE_NEXT)[node]


@inner
def _try_branch(e: int, tree: int, branch: int, row: int, stack: int) -> None:
    """Note that a branch's group is allowed, or what of its live row waits."""
    group = int32s(e, f.BRANCH_GROUP)[branch] - groups_of(e, tree)[0]
    if is_allowed(e, group) or int32s(e, f.BRANCH_DEPTH)[branch] > get(e, f.LOOKAHEAD):
        return
    first, stop = nodes_of(e, tree)
    number = stop - first + branch - branches_of(e, tree)[0]
    if row < 0 or takes_row(e, stack, row, number):
        allow(e, group)


@inner
def _try_node(e: int, tree: int, node: int, code: int, stack: int) -> None:
    """Shift a node's terminal, or what an indenter makes of it (``code``), or let it wait.

    What lies beneath the node goes on above the stack after it.
    """
    terminal = int32s(e, f.PATH_TERMINAL)[node]
    if code == DROPPED:
        push_pair(e, f.NODE_WORK, node, without_line(e, stack))
    elif terminal < 0 and _enters(e, stack, node):
        push_pair(e, f.NODE_WORK, node, stack)
    if code in (DROPPED, FAILS) or terminal < 0:
        return
    number, row = node - nodes_of(e, tree)[0], -1
    while stack != f.FAIL and code != 0:
        if code > 0:
            terminal, row = next_symbol(e, code), ROWS - code
        outcome = partial_shift(e, stack, terminal)
        suspensions = low_half(outcome)
        for i in range(length(e, suspensions)):
            add_waiting(e, item(e, suspensions, i), number, row)
        stack, code = outcome >> 32, rest(code) if code > 0 else 0
    if stack != f.FAIL:
        push_pair(e, f.NODE_WORK, node, stack)


@inner
def _enters(e: int, stack: int, node: int) -> bool:
    """Say whether the next terminal's first byte leads to the scanner state of an ENTER node."""
    if stack < 0:
        return False
    vertex_state = int32s(e, f.VERTEX_STATE)[stack]
    if vertex_state >= get(e, f.LR_STATES):
        return False
    context, byte_class = int32s(e, f.LR_CONTEXT)[vertex_state], int32s(e, f.PATH_BYTE)[node]
    if context < 0 or context >= get(e, f.CONTEXTS):
        return False
    start = int32s(e, f.CONTEXT_START)[context]
    return next_state(e, start, byte_class) == int32s(e, f.PATH_NEXT)[node]


@inner
def _resume(e: int, tree: int, number: int, row: int, stack: int) -> None:
    """Go on with an item that waited, above the LR state of its reduction's goto."""
    first, stop = nodes_of(e, tree)
    low, high = branches_of(e, tree)
    branch = low + number - (stop - first)
    if 0 <= number < stop - first:
        _try_node(e, tree, first + number, ROWS - row if row <= ROWS else PLAIN, stack)
    elif low <= branch < high:
        _try_branch(e, tree, branch, row, stack)
    elif steps_partially(e):
        place = branch - high
        start, end = tokens_of(e, tree)
        if 0 <= place < end - start:
            _resume_token(e, tree, place, number, row, stack)


@inner
def _read_tokens(e: int, tree: int, stack: int) -> None:
    """Read the tokens that are read byte by byte, from the tree's root."""
    if not steps_partially(e):
        return
    low, high = tokens_of(e, tree)
    begin, end = branches_of(e, tree)
    first, stop = nodes_of(e, tree)
    groups, last = groups_of(e, tree)
    at = int32s(e, f.TREE_STATE)[tree]
    for i in range(low, high):
        token, number = int32s(e, f.VERIFY_TOKENS)[i], stop - first + end - begin + i - low
        if is_token_allowed(e, token, number, at, stack):
            allow(e, last - groups + i - low)
        if failed(e):
            return


@inner
def _resume_token(e: int, tree: int, place: int, number: int, row: int, stack: int) -> None:
    """Go on with a token that waited at its end, or at the byte that its row tells."""
    token = int32s(e, f.VERIFY_TOKENS)[tokens_of(e, tree)[0] + place]
    if row < WITHIN:
        allowed = takes_row(e, stack, row, number)
    else:
        allowed = is_token_allowed_from(e, token, number, row, stack)
    if allowed:
        groups, last = groups_of(e, tree)
        allow(e, last - groups + place)
