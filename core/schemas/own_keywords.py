"""Keywords of cdec's own, which schemas that are made of Python types hold beside the standard's.

A type's reader takes fewer texts than the standard can say. What has no keyword there has one here;
for other readers of the schema they are comments, as all unknown keywords are.
"""

from __future__ import annotations

import json

NUMBERS = "x-cdec-numbers"
"""Notation of a number, in a way that says what is read: one of ``NUMBER_READERS``."""
UNENFORCED = "x-cdec-unenforced"
"""Demands of the type that masks do not see to: a list of reasons, such as names of validators."""
NOTE = "x-cdec-note"
"""A note to whoever compiles, such as the day that past and future are told by."""

SET = "x-cdec-set"
"""Name of a set whose members strings are; the set is given where the artifact is opened."""
SPAN = "x-cdec-span-of"
"""Field of the records whose pieces, verbatim, strings are: its name, or an object of ``field``,
``whole``, ``shortest`` and ``longest``."""

MAX_TOKENS = "x-cdec-max-tokens"
"""How many tokens a string may have at most: those in which a byte between its quotes stands."""

NUMBER_READERS = ("integers", "doubles")
"""``integers``: digits alone, as readers of integers take them. ``doubles``: whatever a double is
neither infinite for nor, but for 0 itself, 0."""


def span_fields_in(schema: object) -> set[str]:
    """Return the fields of records that a schema, perhaps as JSON text, names in ``SPAN``."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema) if SPAN in schema else None
        except (ValueError, RecursionError):
            return set()
    found, left = set[str](), [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            named = part.get(SPAN)
            named = named.get("field") if isinstance(named, dict) else named
            found |= {named} if isinstance(named, str) else set()
            left += part.values()
        elif isinstance(part, list):
            left += part
    return found
