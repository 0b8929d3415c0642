"""Checks the fields of a record that say what the model writes freely before its constraint."""

from __future__ import annotations

from typing import TypedDict

from cdec.data.prompts.fields import MAX_SEED, RecordFields, shown


class FreeFields(TypedDict):
    """What a record says of free text; None where it leaves it to the run."""

    after: tuple[str, ...] | None
    between: tuple[str, str] | None
    budget: int | None
    regions: int | None


FREE_FIELDS = frozenset(FreeFields.__annotations__)
"""Their names."""


def free_fields(record: RecordFields) -> FreeFields:
    """Return a record's fields about free text, checked one by one.

    Raises:
        FieldError: One of another type, or empty; ``after`` beside ``between``.
    """
    if "after" in record.fields and "between" in record.fields:
        raise record.error("between", "stands beside 'after'", "give one of the two")
    between = _texts(record, "between")
    if between is not None and len(between) != 2:
        raise record.error(
            "between",
            f"has {len(between)} texts, two were expected",
            'give the text that begins a region and the one that ends it: ["<call>", "</call>"]',
        )
    return {
        "after": _texts(record, "after"),
        "between": None if between is None else (between[0], between[1]),
        "budget": _count(record, "budget"),
        "regions": _count(record, "regions"),
    }


def _texts(record: RecordFields, field: str) -> tuple[str, ...] | None:
    """Return a field that is a text or a list of texts, none of them empty."""
    value = record.fields.get(field)
    if field not in record.fields:
        return None
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and texts and all(isinstance(t, str) and t for t in texts):
        return tuple(texts)
    raise record.error(
        field,
        f"is {shown(value)}; texts that are not empty were expected",
        "leave the field out, or give the text at which the constraint begins",
    )


def _count(record: RecordFields, field: str) -> int | None:
    value = record.fields.get(field)
    if field not in record.fields:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEED:
        return value
    raise record.error(
        field,
        f"is {shown(value)}, an integer of at least 0 was expected",
        "correct the field, or leave it out to take the run's option",
    )
