"""Entry: one line or row of an input, before it is checked."""

from __future__ import annotations

from dataclasses import dataclass

from cdec.core.errors import CdecError


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
