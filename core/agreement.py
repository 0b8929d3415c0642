"""Agreement of constraints that strip different forced parts on one text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdec.core.constraint import Constraint


def all_accept(constraints: Sequence[Constraint], whole_texts: Iterable[bytes]) -> bool | None:
    """Say whether constraints accept one of some texts, each by a path independent of its session.

    Args:
        constraints: Are given the whole text, without their own forced parts.
        whole_texts: Ways in which one text may be written, forced parts included.

    Returns:
        None if no text is accepted by all, and for one of them only the time ran out.
    """
    best: bool | None = False
    for whole in whole_texts:
        verdict = _accept(constraints, whole)
        if verdict:
            return True
        best = best if verdict is False else None
    return best


def _accept(constraints: Sequence[Constraint], whole: bytes) -> bool | None:
    verdict: bool | None = True
    for constraint in constraints:
        content = constraint.content(whole)
        accepted = False if content is None else constraint.accepts(content)
        if accepted is False:
            return False
        if accepted is None:
            verdict = None
    return verdict
