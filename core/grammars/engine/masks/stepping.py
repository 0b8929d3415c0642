"""Tokens with too many readings for a tree, read byte by byte above partial or whole stacks.

Partial stacks are for the generalised parser: the automaton of masks takes these tokens as items of
their own. A terminal that waits for the stack waits at a byte of the token: its question's *row* is
then ``WITHIN`` + byte x terminals + terminal.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.allowing import is_allowed
from cdec.core.grammars.engine.lists import item, length
from cdec.core.grammars.engine.masks.found import add_waiting, takes_row
from cdec.core.grammars.engine.masks.partial import low_half, partial_shift
from cdec.core.grammars.engine.masks.store import add_token
from cdec.core.grammars.engine.pointers import (
    Pointer,
    address,
    get,
    int32s,
    int64s,
    size,
    span,
    uint8s,
)
from cdec.core.grammars.engine.readings import (
    is_live,
    next_state,
    row_of,
    start_of,
    step_over,
    unite,
)
from cdec.core.grammars.engine.stacks import failed
from cdec.core.grammars.engine.work import pause, spend
from cdec.core.kernels import inner

__all__ = ["WITHIN", "is_token_allowed", "is_token_allowed_from", "verify_tokens"]

WITHIN = 1 << 29


@inner
def is_token_allowed(e: int, token: int, number: int, at: int, stack: int) -> bool:
    """Say whether a token is allowed whatever lies below; else note what waits.

    Args:
        e: The engine's header.
        token: An id with bytes.
        number: The token's item.
        at: Scanner state before the token.
        stack: Partial stack.
    """
    readings = int32s(e, f.READINGS)
    readings[0], readings[1], readings[2] = at, stack, 0
    return _read_on(e, token, number, 0, 1)


@inner
def is_token_allowed_from(e: int, token: int, number: int, row: int, stack: int) -> bool:
    """The same from within the token, where a terminal waited: it is shifted on ``stack`` now."""
    place = row - WITHIN
    position, terminal = place // get(e, f.TERMINALS), place % get(e, f.TERMINALS)
    after = _shifted(e, number, position, terminal, stack)
    if after == f.FAIL:
        return False
    readings = int32s(e, f.READINGS)
    readings[0], readings[1], readings[2] = start_of(e, after, terminal), after, 0
    return _read_on(e, token, number, position + 1, 1)


@inner
def _shifted(e: int, number: int, position: int, terminal: int, stack: int) -> int:
    """Return the partial stack after a terminal, and note what waits."""
    outcome = partial_shift(e, stack, terminal)
    suspensions = low_half(outcome)
    row = WITHIN + position * get(e, f.TERMINALS) + terminal
    for i in range(length(e, suspensions)):
        add_waiting(e, item(e, suspensions, i), number, row)
    return outcome >> 32


@inner
def _read_on(e: int, token: int, number: int, position: int, n: int) -> bool:
    """Move the first n of READINGS over a token's bytes from a position; say if it is allowed."""
    offsets, classes = int64s(e, f.VOCABULARY_OFFSETS), int32s(e, f.BYTE_CLASS)
    begin, stop = offsets[token], offsets[token + 1]
    if begin < 0 or stop > size(e, f.VOCABULARY_BYTES) or begin >= stop:
        return False
    text = uint8s(e, f.VOCABULARY_BYTES)
    for i in range(begin + position, stop):
        n = _step(e, classes[text[i]], number, i - begin, n)
        if failed(e):
            return False
    states, readings = get(e, f.SCANNER_STATES), int32s(e, f.READINGS)
    for i in range(n):
        at = readings[3 * i]
        if at >= states:
            return True
        row = int32s(e, f.LIVE_ROW)[row_of(e, at)]
        if takes_row(e, readings[3 * i + 1], row, number):
            return True
    return False


@inner
def _step(e: int, byte_class: int, number: int, position: int, n: int) -> int:
    """Move a set of readings over one byte; return how many are left."""
    m, offsets = 0, int32s(e, f.MATCH_OFFSETS)
    terminals, old = int32s(e, f.MATCH_TERMINALS), int32s(e, f.READINGS)
    for i in range(n):
        at, stack = next_state(e, old[3 * i], byte_class), old[3 * i + 1]
        if at < 0:
            continue
        if is_live(e, at):
            m = unite(e, m, at, stack, 0)
        low, high = span(offsets, row_of(e, at), size(e, f.MATCH_TERMINALS))
        for match in range(low, high):
            below = _shifted(e, number, position, terminals[match], stack)
            if below != f.FAIL:
                m = unite(e, m, start_of(e, below, terminals[match]), below, 0)
    new: Pointer = int32s(e, f.READINGS_NEXT)
    for i in range(3 * m):
        old[i] = new[i]
    return m


@inner
def verify_tokens(e: int, row: int, tree: int, at: int, stack: int, first: int) -> int:
    """Add the tokens with too many branches to be listed, by stepping their bytes.

    A token that continues the one before it, as rows of dashes do, continues its readings.

    Args:
        e: The engine's header.
        row: Address of the row.
        tree: Of the scanner state.
        at: The scanner state.
        stack: Before the tokens.
        first: Tokens that were added before.

    Returns:
        How many tokens were looked at by now; not all where the call must end.
    """
    tokens, starts = int32s(e, f.VERIFY_TOKENS), int64s(e, f.VOCABULARY_OFFSETS)
    readings, done, left = int32s(e, f.READINGS), 0, 1
    text, begin = address(e, f.VOCABULARY_BYTES), 0
    low, high = span(int64s(e, f.TREE_VERIFY), tree, size(e, f.VERIFY_TOKENS))
    for i in range(low + first, high):
        token, length = tokens[i], 0
        if failed(e):
            return i - low
        if 0 <= token < get(e, f.VOCABULARY):
            length = starts[token + 1] - starts[token]
        if length < 1 or starts[token] < 0 or starts[token + 1] > size(e, f.VOCABULARY_BYTES):
            continue
        if not _continues(e, begin, done, starts[token], length):
            readings[0], readings[1], readings[2] = at, stack, 0
            done, left = 0, 1
        begin = starts[token]
        if left > 0:
            left = step_over(e, text + begin + done, length - 1 - done, left)
            done = length - 1
        allowed = left > 0 and is_allowed(e, text + begin + done, length - done, left)
        if failed(e):
            return i - low
        if allowed:
            add_token(e, row, token)
        spend(e, length)
        pause(e)
    return high - low


@inner
def _continues(e: int, begin: int, done: int, start: int, length: int) -> bool:
    """Say whether ``done`` bytes at ``begin`` were read and begin the token at ``start``.

    Not with a lookahead: what a token has ended so far is not kept between tokens.
    """
    if done == 0 or done >= length or get(e, f.LOOKAHEAD) != f.UNLIMITED:
        return False
    text = uint8s(e, f.VOCABULARY_BYTES)
    same = 0
    while same < done and text[begin + same] == text[start + same]:
        same += 1
    return same == done
