"""Tokens with too many readings for a tree, read byte by byte above a partial stack.

For the generalised parser; the automaton of masks takes them as items of their own. A terminal that
waits for the stack waits at a byte of the token: its question's *row* is then ``WITHIN`` + byte x
terminals + terminal.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.entries import add_entry, add_questions
from cdec.core.grammars.engine.partial import (
    low_half,
    partial_any,
    partial_shift,
    question,
    suspensions,
)
from cdec.core.grammars.engine.pointers import Pointer, get, int32s, int64s, size, span, uint8s
from cdec.core.grammars.engine.readings import is_live, next_state, start_of, unite
from cdec.core.grammars.engine.stacks import failed
from cdec.core.kernels import inner

__all__ = ["WITHIN", "is_token_allowed", "is_token_allowed_from"]

WITHIN = 1 << 29


@inner
def is_token_allowed(e: int, token: int, item: int, at: int, stack: int) -> bool:
    """Say whether a token is allowed whatever lies below; else add entries for what waits.

    Args:
        e: The engine's header.
        token: An id with bytes.
        item: Of the entries.
        at: Scanner state before the token.
        stack: Partial stack.
    """
    readings = int32s(e, f.READINGS)
    readings[0], readings[1], readings[2] = at, stack, 0
    return _read_on(e, token, item, 0, 1)


@inner
def is_token_allowed_from(e: int, token: int, item: int, row: int, stack: int) -> bool:
    """The same from within the token, where a terminal waited: it is shifted on ``stack`` now."""
    place = row - WITHIN
    position, terminal = place // get(e, f.TERMINALS), place % get(e, f.TERMINALS)
    after = _shifted(e, item, position, terminal, stack)
    if after == f.FAIL:
        return False
    readings = int32s(e, f.READINGS)
    readings[0], readings[1], readings[2] = start_of(e, after, terminal), after, 0
    return _read_on(e, token, item, position + 1, 1)


@inner
def _shifted(e: int, item: int, position: int, terminal: int, stack: int) -> int:
    """Return the partial stack after a terminal, and add entries for what waits."""
    outcome = partial_shift(e, stack, terminal)
    number = low_half(outcome)
    row = WITHIN + position * get(e, f.TERMINALS) + terminal
    for i in range(suspensions(e, number)):
        add_entry(e, item, question(e, row, int64s(e, f.SUSPENSIONS)[number + 1 + i]))
    return outcome >> 32


@inner
def _read_on(e: int, token: int, item: int, position: int, n: int) -> bool:
    """Move the first n of READINGS over a token's bytes from a position; say if it is allowed."""
    offsets, classes = int64s(e, f.VOCABULARY_OFFSETS), int32s(e, f.BYTE_CLASS)
    begin, stop = offsets[token], offsets[token + 1]
    if begin < 0 or stop > size(e, f.VOCABULARY_BYTES) or begin >= stop:
        return False
    text = uint8s(e, f.VOCABULARY_BYTES)
    for i in range(begin + position, stop):
        n = _step(e, classes[text[i]], item, i - begin, n)
        if failed(e):
            return False
    states, readings = get(e, f.SCANNER_STATES), int32s(e, f.READINGS)
    for i in range(n):
        at = readings[3 * i]
        if at >= states:
            return True
        outcome = partial_any(e, readings[3 * i + 1], int32s(e, f.LIVE_ROW)[at])
        if (outcome >> 32) != f.FAIL:
            return True
        add_questions(e, item, low_half(outcome))
    return False


@inner
def _step(e: int, byte_class: int, item: int, position: int, n: int) -> int:
    """Move a set of readings over one byte; return how many are left."""
    m, offsets = 0, int32s(e, f.MATCH_OFFSETS)
    terminals, old = int32s(e, f.MATCH_TERMINALS), int32s(e, f.READINGS)
    for i in range(n):
        at, stack = next_state(e, old[3 * i], byte_class), old[3 * i + 1]
        if at < 0:
            continue
        if is_live(e, at):
            m = unite(e, m, at, stack, 0)
        low, high = span(offsets, at, size(e, f.MATCH_TERMINALS))
        for match in range(low, high):
            below = _shifted(e, item, position, terminals[match], stack)
            if below != f.FAIL:
                m = unite(e, m, start_of(e, below, terminals[match]), below, 0)
    new: Pointer = int32s(e, f.READINGS_NEXT)
    for i in range(3 * m):
        old[i] = new[i]
    return m
