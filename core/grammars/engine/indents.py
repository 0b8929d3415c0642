"""Blocks that indentation opens and closes: what an indenter makes of terminals.

With an indenter a reading's stack is a *pair*: a vertex whose LR state is PAIRS + the number of its
*blocks*, above the parser's stack. Blocks are a stack of vertices themselves, so that equal ones
are one: BLOCKS + k for a block at column k, BRACKET for a bracket that is open; at the bottom the
block at column 0. Brackets stand above blocks alone, for no block begins within them.

What the parser gets for a terminal is an *effect*: PLAIN (itself), DROPPED, FAILS, or a number: a
line break (1 if odd), then twice 1 for INDENT, twice 1 + n for n DEDENTs.
"""

from __future__ import annotations

from cdec.core.grammars.columns import CLOSE_ROLE, COLUMN_ROLE, NOWHERE_ROLE, OPEN_ROLE
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import get, int32s, size
from cdec.core.grammars.engine.stacks import vertex
from cdec.core.grammars.indenter import MAX_COLUMNS
from cdec.core.kernels import inner

__all__ = [
    "DROPPED",
    "FAILS",
    "PLAIN",
    "ROWS",
    "beneath",
    "blocks_of",
    "dedents",
    "effect",
    "first_stack",
    "next_symbol",
    "rest",
    "with_blocks",
    "without_line",
]

PLAIN, DROPPED, FAILS = -1, -2, -3
ROWS = -2
"""An effect n stands as ROWS - n where a terminal, or a live row, may stand as well."""
_BRACKET, _BLOCKS, _PAIRS = 1, 2, 1 << 20


@inner
def beneath(e: int, stack: int) -> int:
    """Return the parser's stack of a reading's stack."""
    if get(e, f.INDENTED) == 0 or stack < 0:
        return stack
    return int32s(e, f.VERTEX_BELOW)[stack]


@inner
def blocks_of(e: int, stack: int) -> int:
    """Return the blocks of a reading's stack; NONE where it has none."""
    if get(e, f.INDENTED) == 0 or stack < 0:
        return f.NONE
    state = int32s(e, f.VERTEX_STATE)[stack]
    return max(state - get(e, f.LR_STATES) - _PAIRS, f.NONE)


@inner
def with_blocks(e: int, blocks: int, stack: int) -> int:
    """Return a reading's stack."""
    return vertex(e, get(e, f.LR_STATES) + _PAIRS + blocks, stack)


@inner
def first_stack(e: int, stack: int) -> int:
    """Return the stack of the first reading: no block is open."""
    if get(e, f.INDENTED) == 0:
        return stack
    return with_blocks(e, vertex(e, get(e, f.LR_STATES) + _BLOCKS, f.NONE), stack)


@inner
def effect(e: int, blocks: int, terminal: int, column: int) -> tuple[int, int]:
    """Return what the parser gets for a terminal, and the blocks after it.

    Args:
        e: The engine's header.
        blocks: Before it.
        terminal: Any but the end of the text.
        column: What a line break's columns count from, if they count from any.
    """
    role = 0
    if 0 <= terminal < size(e, f.INDENT_ROLES):
        role = int32s(e, f.INDENT_ROLES)[terminal]
    if role <= 0:
        return PLAIN, blocks
    in_brackets = int32s(e, f.VERTEX_STATE)[blocks] == get(e, f.LR_STATES) + _BRACKET
    if role == OPEN_ROLE:
        return PLAIN, vertex(e, get(e, f.LR_STATES) + _BRACKET, blocks)
    if role == CLOSE_ROLE:
        return (PLAIN, int32s(e, f.VERTEX_BELOW)[blocks]) if in_brackets else (FAILS, blocks)
    if in_brackets:
        return DROPPED, blocks
    at = ((role - COLUMN_ROLE) >> 1) + (column if role & 1 else 0)
    if role == NOWHERE_ROLE or at > min(int32s(e, f.INDENT_SYMBOLS)[3], MAX_COLUMNS):
        return FAILS, blocks
    return _line(e, blocks, at)


@inner
def _line(e: int, blocks: int, at: int) -> tuple[int, int]:
    """Return the effect of a line that begins at a column, and the blocks then."""
    states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
    base, closed = get(e, f.LR_STATES) + _BLOCKS, 0
    if at > states[blocks] - base:
        return 3, vertex(e, base + at, blocks)
    while at < states[blocks] - base and belows[blocks] >= 0:
        blocks, closed = belows[blocks], closed + 1
    if at != states[blocks] - base:
        return FAILS, blocks
    return 2 * closed + (2 if closed > 0 else 0) + 1, blocks


@inner
def dedents(e: int, blocks: int) -> int:
    """Return the effect of the end of the text: a DEDENT for every block."""
    states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
    bracket, count = get(e, f.LR_STATES) + _BRACKET, 0
    while belows[blocks] >= 0:
        count += states[blocks] != bracket
        blocks = belows[blocks]
    return 2 * count + (2 if count > 0 else 0)


@inner
def next_symbol(e: int, code: int) -> int:
    """Return the first terminal of an effect that is a number; -1 where the grammar has none."""
    place = 0
    if code & 1 == 0:
        place = 1 if code == 2 else 2
    return int32s(e, f.INDENT_SYMBOLS)[place]


@inner
def rest(code: int) -> int:
    """Return the effect without its first terminal."""
    if code & 1:
        return code - 1
    return code - 2 if code > 4 else 0


@inner
def without_line(e: int, stack: int) -> int:
    """Return a parser's stack, which may be partial, behind a line break that is dropped.

    Where terminals look around, what stood before the line break is no longer next to what comes.
    """
    if stack < 0:
        return stack
    state = int32s(e, f.VERTEX_STATE)[stack]
    if state >= size(e, f.LR_PLAIN):
        return stack
    plain = int32s(e, f.LR_PLAIN)[state]
    if plain < 0 or plain >= get(e, f.LR_STATES):
        return stack
    return vertex(e, plain, int32s(e, f.VERTEX_BELOW)[stack])
