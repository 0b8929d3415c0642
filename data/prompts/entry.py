"""Entry: one line or row of an input, before it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from cdec.core.errors import CdecError, FieldError
from cdec.data.input.json_text import parse_json


@dataclass(frozen=True, slots=True)
class Entry:
    """One line or row.

    Attributes:
        line: Its number, from 1; of a CSV row that of its first line.
        content: By which an entry without an id is known again.
        text: Of a line that is no object.
        fields: Of an object, or a row without its nulls.
        data: The bytes an object was parsed from; None for a row.
        error: Why it is neither.
        unit: What ``line`` counts: lines, or rows of a table.
    """

    line: int
    content: object
    text: str | None = None
    fields: dict[str, object] | None = None
    data: bytes | None = None
    error: CdecError | None = None
    unit: str = "line"


def entry_of(record: Mapping[str, object], number: int, name: str) -> Entry:
    """Return the entry of a line that holds a record."""
    try:
        data = orjson.dumps(record)
    except TypeError as error:
        problem = FieldError(
            f"{name}, line {number} is no JSON object: {error}",
            hint="give objects of texts, 64-bit integers, floats, lists and objects",
            line=number,
        )
        return Entry(number, repr(record), error=problem)
    try:
        fields = cast(dict[str, object], parse_json(data, name, number, 0))
    except CdecError as error:
        return Entry(number, data, error=error)
    return Entry(number, fields, fields=fields, data=data)
