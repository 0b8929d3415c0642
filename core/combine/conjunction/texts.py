"""How constraints that strip different forced parts judge one text together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdec.core.sets.constraint import SetConstraint

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint


def whole_texts(constraint: Constraint, text: bytes) -> list[bytes]:
    """Return what a member's tokens spell, forced prefix and suffix included.

    Args:
        constraint: Whose member it is.
        text: As ``member_text`` gives it.

    Returns:
        One text for each row of a set; the text itself for a grammar; none for no member of a set.
    """
    if isinstance(constraint, SetConstraint):
        rows = constraint.row_of_text(text).tolist()
        spelled = [constraint.vocabulary.decode(constraint.arrays.row(row)) for row in rows]
        return list(dict.fromkeys(spelled))
    own = getattr(constraint, "whole_texts", None)
    return [text] if own is None else list(own(text))


def accepts_all(first: Constraint, text: bytes, others: Sequence[Constraint]) -> bool | None:
    """Say whether constraints accept a text, each by a path independent of its session.

    Args:
        first: Whose member text it is.
        text: As its ``member_text`` gives it.
        others: Are given the whole text, without their own forced parts.

    Returns:
        None if none refuses it and some run out of time.
    """
    own = first.accepts(text)
    if own is False:
        return False
    best: bool | None = False
    for whole in whole_texts(first, text):
        verdict = _accepted_by(whole, others)
        if verdict:
            return own
        best = best if verdict is False else None
    return best


def _accepted_by(whole: bytes, others: Sequence[Constraint]) -> bool | None:
    verdict: bool | None = True
    for other in others:
        content = other.content(whole)
        accepted = False if content is None else other.accepts(content)
        if accepted is False:
            return False
        if accepted is None:
            verdict = None
    return verdict
