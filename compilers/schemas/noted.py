"""Notes of a schema's report: unknown keywords, what was compiled, missing bytes."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cdec.compilers.schemas.document import Document
from cdec.compilers.schemas.drafts import COMMENTS, KEYWORDS, draft_name
from cdec.compilers.schemas.options import SchemaReport
from cdec.compilers.schemas.sets.expansion import Expansion
from cdec.core.errors import Notice
from cdec.core.schemas.errors import SchemaKeywordError
from cdec.core.schemas.own_keywords import UNENFORCED
from cdec.core.schemas.schema_constraint import unspelt

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_OWN = "x-"
"""Keywords that begin so are comments on purpose."""
_NEAR = 0.8
"""Least likeness of what was typed and what was meant."""
_SHOWN = 8
"""Most names and bytes that one notice lists."""


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


def note_keywords(
    report: SchemaReport,
    document: Document,
    expansion: Expansion,
    columns: Mapping[str, NDArray[Any]],
) -> None:
    """Note in a report what was compiled, and what was not."""
    report.unenforced = [
        {"path": path, "keyword": keyword, "reason": reason}
        for (path, keyword), reason in sorted(expansion.unenforced.items())
    ]
    report.costs = {
        keyword: {**cost, "seconds": round(cost["seconds"], 6)}
        for keyword, cost in sorted(expansion.costs.items())
    }
    report.counts = {
        "values": len(columns["raw_start"]),
        "arrays": len(columns["array_min"]),
        "objects": len(columns["object_min"]),
        "slots": len(columns["slot_single"]),
        "states": len(columns["state_label"]),
        "edges": len(columns["edge_low"]),
    }
    report.notices += expansion.notices.values()
    if document.annotations:
        report.notices.append(_unknown(document, report.draft))
    # What a type asks besides has notices of its own.
    unenforced = [item for item in report.unenforced if item["keyword"] != UNENFORCED]
    if unenforced:
        n = len(unenforced)
        report.notices.append(
            Notice(
                "W_SCHEMA_UNENFORCED",
                f"{n} keyword{'s are' if n > 1 else ' is'} not enforced: "
                + ", ".join(item["path"] for item in unenforced[:4]),
                {"unenforced": unenforced},
            )
        )


def _unknown(document: Document, draft: str) -> Notice:
    """Return the warning of keywords that the draft does not know, those with a typo first."""
    unknown = sorted({keyword for _, keyword in document.annotations})
    near = {keyword: meant for keyword in unknown if (meant := near_keyword(keyword))}
    named = [f"{keyword} (did you mean {meant}?)" for keyword, meant in near.items()]
    named += [keyword for keyword in unknown if keyword not in near]
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    shown = ", ".join(named[:_SHOWN]) + more
    if "nullable" in unknown:
        shown += "; what nullable means to OpenAPI is said by a null among the types"
    message = f"keywords that JSON Schema {draft} does not know are comments: {shown}"
    return Notice("W_SCHEMA_ANNOTATION", message, {"keywords": unknown, "near": near})


def note_bytes(report: SchemaReport, vocabulary: Vocabulary, layout: int) -> None:
    """Note in a report whether the tokens can write every text that is begun."""
    missing = unspelt(vocabulary, layout)
    if not missing:
        return
    shown = repr(missing[:_SHOWN])[1:] + ("..." if len(missing) > _SHOWN else "")
    report.is_sound = False
    report.sound_reason = f"soundness unproved: the bytes {shown} are no tokens of their own"
    report.notices.append(
        Notice(
            "W_MISSING_BYTES",
            f"the bytes {shown} are no tokens of their own, so a text can come to where no token "
            "goes on, and samples may end as dead_end",
            {"bytes": missing.hex()},
        )
    )
