"""Layout: the blanks of ``json.dumps``, where no others may stand.

Without indentation there are none, or one behind each colon and comma. With it, a member stands on
a line of its own, indented by its level; so does the bracket behind the last; and one blank follows
a colon. Empty objects and arrays have nothing between their brackets.

The *style* is the program's, or the text's own: then the first white space that is written, or is
not where a style has it, tells which it is, and the rest of the text keeps to it. Beside the style
(``fields``) a mark holds how far blanks are written: 0, none; 1, all; 1 + n, n are to come. In the
first line break of a text, before its style is told: 1 + the blanks behind it.
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import get, int32s
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.ends import closed
from cdec.core.schemas.engine.lists import parent, phase
from cdec.core.schemas.engine.members import elements_of, keys_of
from cdec.core.schemas.program import MOST_INDENT

__all__ = ["between", "first_style", "mark_after_blank", "style_behind"]

_BRACKET_END, _BRACE_END = 0x5D, 0x7D
_TAB, _BREAK, _BLANK = 0x09, 0x0A, 0x20


@inner
def first_style(e: int) -> int:
    """Return the style with which a text begins."""
    return f.BY_TWO if 0 < get(e, f.LAYOUT) <= MOST_INDENT else f.UNDECIDED


@inner
def between(e: int, style: int) -> int:
    """Return the mark of a state between strings before which no blank stands.

    Args:
        style: 0 where the program's automaton says which blanks may stand.
    """
    return style if get(e, f.LAYOUT) != 0 else int32s(e, f.BLANK_START)[0]


@inner
def _is_next(stage: int) -> bool:
    return stage == f.OBJECT_NEXT or stage == f.ARRAY_NEXT


@inner
def _is_open(stage: int) -> bool:
    return stage == f.OBJECT_OPEN or stage == f.ARRAY_OPEN


@inner
def _follows_comma(stage: int) -> bool:
    return stage == f.OBJECT_COMMA or stage == f.ARRAY_VALUE


@inner
def mark_after_blank(e: int, frame: int, mark: int, byte: int) -> int:
    """Return the mark after a blank, -1 where it may not come.

    Args:
        frame: Between values.
        mark: Before the blank.
        byte: A space, a line feed or a tab.
    """
    style, written, stage = mark & f.STYLE, mark & ~f.STYLE, phase(e, frame)
    if written > 0 and style == f.UNDECIDED:
        return _first_indentation(written, byte)
    if written > 0:
        is_next = written > 1 and byte == (_TAB if style == f.BY_TAB else _BLANK)
        return mark - 1 if is_next else -1
    if byte == _BLANK:
        return _mark_after_space(style, stage)
    is_line = style == f.UNDECIDED or style >= f.BY_TWO
    if byte != _BREAK or not is_line or not _line_may_break(e, frame, stage):
        return -1
    return style | (1 if style == f.UNDECIDED else 1 + _indentation(e, frame, style))


@inner
def _first_indentation(written: int, byte: int) -> int:
    """Return the mark after a blank of the first indentation, at depth 1."""
    if byte == _TAB:
        return f.BY_TAB | 1 if written == 1 else -1
    if byte != _BLANK:
        return -1
    return written + 1 if written < 3 else f.BY_FOUR | 2


@inner
def _mark_after_space(style: int, stage: int) -> int:
    """Return the mark after a blank behind a colon or a comma; -1 where a style has none there."""
    if style == f.COMPACT or not (stage == f.OBJECT_VALUE or _follows_comma(stage)):
        return -1
    if style >= f.BY_TWO:
        return style | 1 if stage == f.OBJECT_VALUE else -1
    return f.SPACED | 1


@inner
def _line_may_break(e: int, frame: int, stage: int) -> bool:
    """Say whether a member, or the bracket behind the last, may stand on a new line."""
    if _is_next(stage):
        return closed(e, frame) >= 0
    if stage == f.OBJECT_OPEN:
        return keys_of(e, frame, f.KEY) >= 0
    if stage == f.ARRAY_OPEN:
        return elements_of(e, frame) >= 0
    return _follows_comma(stage)


@inner
def _indentation(e: int, frame: int, style: int) -> int:
    """Return how many blanks indent a new line; O(levels)."""
    depth = -1 if _is_next(phase(e, frame)) else 0
    while frame >= 0:
        if phase(e, frame) != f.ROOT_VALUE:
            depth += 1
        frame = parent(e, frame)
    if style == f.BY_TAB:
        return depth
    columns = get(e, f.LAYOUT) if get(e, f.LAYOUT) <= MOST_INDENT else 2
    return depth * (4 if style == f.BY_FOUR else columns)


@inner
def style_behind(e: int, frame: int, mark: int, byte: int) -> int:
    """Return the style of a text in which a byte that is no blank comes next; -1 for none."""
    style, written, stage = mark & f.STYLE, mark & ~f.STYLE, phase(e, frame)
    ends = byte in (_BRACKET_END, _BRACE_END)
    if written > 0:
        if style == f.UNDECIDED:
            # Two blanks are there: not none, and no four.
            style, written = f.BY_TWO, 1 if written == 3 else 2
        stands = not (_is_open(stage) and ends) and (ends or not _is_next(stage))
        return style if written == 1 and stands else -1
    if stage == f.OBJECT_VALUE or _follows_comma(stage):
        return f.COMPACT if style == f.ONE_LINE or style == f.COMPACT else -1
    is_member, is_end = _is_open(stage) and not ends, _is_next(stage) and ends
    if (is_member or is_end) and style >= f.BY_TWO:
        return -1
    return f.ONE_LINE if is_member and style == f.UNDECIDED else style
