r"""Anchors as the look-around that they stand for: ``^ $ \b \B \A \Z``.

Where a text begins and where it ends are written as two characters beyond Unicode, so that a
pattern looks at them as it looks at any other character; no text holds them.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

from cdec.compilers.grammars.automata.charsets import (
    MAX_CODE_POINT,
    Ranges,
    charset,
    complement,
    normalised,
)

END_OF_TEXT = MAX_CODE_POINT + 1
START_OF_TEXT = MAX_CODE_POINT + 2
_END: Ranges = ((END_OF_TEXT, END_OF_TEXT),)
_START: Ranges = ((START_OF_TEXT, START_OF_TEXT),)
_NEWLINE: Ranges = ((10, 10),)
_BEGINNINGS = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
_ENDS = (sre.AT_END, sre.AT_END_STRING)

Choice: TypeAlias = tuple[tuple[bool, tuple[Ranges, ...]], ...]
"""What must all hold: whether it looks ahead, and the characters there."""


class Look(NamedTuple):
    """A condition on what stands around a place in the text.

    Attributes:
        body: Node of the program that must match, from the place on or up to it.
        is_ahead: It looks ahead; otherwise behind.
        is_negative: It must not match.
    """

    body: int
    is_ahead: bool
    is_negative: bool


def without_outer_anchors(tree: Any) -> Any:
    r"""Leave out ``^ \A`` where a pattern begins, and ``$ \Z`` where it ends.

    Of a pattern that is all of a text they say nothing. Those in alternatives and groups at the
    pattern's ends are found as well.

    Args:
        tree: A pattern as ``re``'s parser reads it; it is changed.

    Returns:
        The same. Cost: linear in the items at the ends.
    """
    for last, anchors in ((False, _BEGINNINGS), (True, _ENDS)):
        pending = [tree]
        while pending:
            items = pending.pop().data
            while items and items[-1 if last else 0][0] is sre.AT:
                if items[-1 if last else 0][1] not in anchors:
                    break
                del items[-1 if last else 0]
            if not items:
                continue
            op, value = items[-1 if last else 0]
            if op is sre.SUBPATTERN:
                pending.append(value[-1])
            elif op is sre.BRANCH:
                pending += value[1]
    return tree


def looks_within(goes: Sequence[Sequence[int]], looks: Collection[int], body: int) -> bool:
    """Say whether a way through a program's nodes from ``body`` on looks around."""
    pending, seen = [body], {body}
    while pending:
        node = pending.pop()
        if node in looks:
            return True
        fresh = set(goes[node]) - seen
        seen |= fresh
        pending += fresh
    return False


def choices_of(kind: Any, flags: int) -> tuple[Choice, ...]:
    """Return the conditions one of which must hold at an anchor.

    Args:
        kind: AT_... code of ``re``'s parser.
        flags: ``re.M`` and ``re.A`` as they hold at the anchor.
    """
    if kind is sre.AT_BEGINNING or kind is sre.AT_BEGINNING_STRING:
        of_lines = kind is sre.AT_BEGINNING and flags & re.M
        return (((False, ((*_NEWLINE, *_START) if of_lines else _START,)),),)
    if kind is sre.AT_END_STRING:
        return (((True, (_END,)),),)
    if kind is sre.AT_END:
        if flags & re.M:
            return (((True, ((*_NEWLINE, *_END),)),),)
        return ((True, (_NEWLINE, _END)),), ((True, (_END,)),)
    word = charset(((sre.CATEGORY, sre.CATEGORY_WORD),), flags & re.A)
    sides = word, normalised((*complement(word), *_END, *_START))
    opposite = kind is sre.AT_BOUNDARY
    return tuple(
        ((True, (sides[1 - here if opposite else here],)), (False, (sides[here],)))
        for here in (0, 1)
    )
