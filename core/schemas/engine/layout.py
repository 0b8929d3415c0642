"""Layout: the blanks of ``json.dumps(value, indent=n)``, where no others may stand.

A member stands on a line of its own, indented by its level; so does the bracket behind the last.
Empty objects and arrays have nothing between their brackets, and one space follows a colon.
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import int32s
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.ends import closed
from cdec.core.schemas.engine.lists import parent, phase
from cdec.core.schemas.engine.members import elements_of, keys_of

__all__ = ["blank_may_come", "is_laid_out"]

_BRACKET_END, _BRACE_END = 0x5D, 0x7D


@inner
def _is_next(stage: int) -> bool:
    return stage == f.OBJECT_NEXT or stage == f.ARRAY_NEXT


@inner
def _is_open(stage: int) -> bool:
    return stage == f.OBJECT_OPEN or stage == f.ARRAY_OPEN


@inner
def _blanks(e: int, frame: int) -> int:
    """Return how many blanks stand before a member, or behind the last one; O(levels)."""
    stage = phase(e, frame)
    if stage == f.OBJECT_VALUE:
        return 1
    follows_comma = stage == f.OBJECT_COMMA or stage == f.ARRAY_VALUE
    if not (follows_comma or _is_next(stage) or _is_open(stage)):
        return 0
    depth = -1 if _is_next(stage) else 0
    while frame >= 0:
        if phase(e, frame) != f.ROOT_VALUE:
            depth += 1
        frame = parent(e, frame)
    return 1 + depth * int32s(e, f.INDENT)[0]


@inner
def blank_may_come(e: int, frame: int, done: int, byte: int) -> bool:
    """Say whether a blank comes next.

    Args:
        frame: Between values.
        done: Blanks before it.
        byte: A space or a line feed.
    """
    stage = phase(e, frame)
    is_line = done == 0 and stage != f.OBJECT_VALUE
    if done >= _blanks(e, frame) or (byte == 0x0A) != is_line:
        return False
    if done > 0:
        return True
    if _is_next(stage):
        return closed(e, frame) >= 0
    if stage == f.OBJECT_OPEN:
        return keys_of(e, frame, f.KEY) >= 0
    return stage != f.ARRAY_OPEN or elements_of(e, frame) >= 0


@inner
def is_laid_out(e: int, frame: int, done: int, byte: int) -> bool:
    """Say whether a byte that is no blank may stand behind so many blanks."""
    stage, ends = phase(e, frame), byte in (_BRACKET_END, _BRACE_END)
    if _is_next(stage) and not ends:
        return done == 0
    if _is_open(stage) and ends:
        return done == 0
    return done == _blanks(e, frame)
