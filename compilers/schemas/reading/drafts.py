"""The drafts of JSON Schema: which one a schema is written for."""

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


def draft_of(value: Any, otherwise: int = 2020) -> int:
    """Return the draft that ``$schema`` names; that of 2020-12 where it names none."""
    said = value.get("$schema") if isinstance(value, dict) else None
    if isinstance(said, str):
        for name, draft in DRAFTS.items():
            if name in said:
                return draft
    return otherwise


def draft_name(draft: int) -> str:
    """Return what a draft is called."""
    return next(name for name, number in DRAFTS.items() if number == draft)
