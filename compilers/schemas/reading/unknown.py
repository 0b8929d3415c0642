"""Keywords that the standard does not know: what was meant, and their refusal."""

from __future__ import annotations

from difflib import get_close_matches

from cdec.compilers.schemas.reading.checking import COMMENTS, KEYWORDS
from cdec.compilers.schemas.reading.document import Document
from cdec.compilers.schemas.reading.drafts import draft_name
from cdec.core.schemas.errors import SchemaKeywordError

_OWN = "x-"
"""Keywords that begin so are comments on purpose."""
_NEAR = 0.8
"""Least likeness of what was typed and what was meant."""


def near_keyword(keyword: str) -> str | None:
    """Return the keyword of the standard that another is a misspelling of."""
    if keyword.startswith(_OWN):
        return None
    known = {each.lower(): each for each in sorted(COMMENTS | KEYWORDS.keys())}
    # A keyword that another draft has is none that was misspelled.
    close = [] if keyword in known.values() else get_close_matches(keyword.lower(), known, 1, _NEAR)
    return known[close[0]] if close else None


def refuse_unknown(document: Document) -> None:
    """Refuse the first keyword that its draft does not know, unless it begins with ``x-``.

    Raises:
        SchemaKeywordError: There is one: where, and what was meant.
    """
    for path, keyword in sorted(document.annotations):
        if keyword.startswith(_OWN):
            continue
        meant, draft = near_keyword(keyword), draft_name(document.draft)
        place = f"{path}/{keyword}"
        raise SchemaKeywordError(
            f"{place} is no keyword of JSON Schema {draft}",
            hint=f"did you mean {meant}?" if meant else "leave it out, or let it begin with x-",
            path=place,
            keyword=keyword,
        )
