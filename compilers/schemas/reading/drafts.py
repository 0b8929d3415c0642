"""The drafts of JSON Schema: which one a schema is written for, and which keywords it has."""

from __future__ import annotations

from typing import Any

DRAFTS = {
    "draft-03": 3,
    "draft-04": 4,
    "draft-06": 6,
    "draft-07": 7,
    "2019-09": 2019,
    "2020-12": 2020,
}
"""Drafts by what ``$schema`` says of them."""
_LAST = 2020
_KNOWN = {
    **dict.fromkeys(("const", "contains", "propertyNames"), (6, _LAST)),
    **dict.fromkeys(("if", "then", "else"), (7, _LAST)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), (2019, _LAST)),
    **dict.fromkeys(("minContains", "maxContains"), (2019, _LAST)),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), (2019, _LAST)),
    "$recursiveRef": (2019, 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), (2020, _LAST)),
}
"""Keywords that decide which values are valid, with the first and the last draft that has them; all
others are in every one, or were replaced by what means the same and are still read."""
_FLAGS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
"""Keywords that take true or false in draft-04, and a number since."""


def draft_of(value: Any, otherwise: int = 2020) -> int:
    """Return the draft that ``$schema`` names; that of 2020-12 where it names none."""
    said = value.get("$schema") if isinstance(value, dict) else None
    if isinstance(said, str):
        for name, draft in DRAFTS.items():
            if name in said:
                return draft
    return otherwise


def counting(keywords: dict[str, Any], draft: int) -> dict[str, Any]:
    """Return the keywords that a draft has; up to draft-07 none counts beside ``$ref``."""
    if draft <= 7 and "$ref" in keywords:
        return {"$ref": keywords["$ref"]}
    found = {keyword: value for keyword, value in keywords.items() if _has(draft, keyword, value)}
    return found if len(found) < len(keywords) else keywords


def _has(draft: int, keyword: str, value: Any) -> bool:
    if draft <= 4 and keyword in _FLAGS:
        return isinstance(value, bool)
    first, last = _KNOWN.get(keyword, (0, _LAST))
    return first <= draft <= last


def draft_name(draft: int) -> str:
    """Return what a draft is called."""
    return next(name for name, number in DRAFTS.items() if number == draft)
