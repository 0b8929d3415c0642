"""Entries of JSON: records and texts of an array, or of lines; lines of text among objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import orjson

from cdec.core.errors import CdecError, JsonError
from cdec.data.input.json_text import UNIT, JsonValues, parse_json
from cdec.data.input.lines import LongLine, decode_line
from cdec.data.input.source import InputLimits, SourceStats
from cdec.data.prompts.entry import Entry

ReadEntry: TypeAlias = Callable[[bytes, str, int, int], Entry]
"""Makes an entry of a line, the input's name, the line's number and its offset."""
_AS_TEXTS = "say with `input_format` lines that its lines are texts"


def json_entries(
    chunks: Iterator[bytes], name: str, limits: InputLimits, stats: SourceStats
) -> Iterator[Entry]:
    """Yield the records and texts of a JSON array, or of values one after the other.

    Args:
        chunks: The input, decompressed.
        name: For messages.
        limits: ``max_line_bytes`` applies to a record.
        stats: Counts are kept up to date.

    Raises:
        JsonError: It is no JSON, or ends within a record.
    """
    for value in JsonValues(chunks, name, limits, _AS_TEXTS):
        stats.lines += 1
        if isinstance(value, LongLine):
            error = value.error(name, limits)
            yield Entry(value.line, value.digest, error=error, unit=UNIT)
        else:
            number, offset, data = value
            yield json_entry(data, name, number, offset, UNIT)


def json_entry(data: bytes, name: str, number: int, offset: int, unit: str = "line") -> Entry:
    """Return the entry of an object or a quoted text; anything else is an error in its place."""
    try:
        value = parse_json(data, name, number, offset, unit)
        if isinstance(value, dict):
            return Entry(number, value, fields=value, data=data, unit=unit)
        if isinstance(value, str):
            return Entry(number, value, text=value, unit=unit)
        raise JsonError(
            f"{name}, {unit} {number} is {_shown(value)}, a record or a quoted text was expected",
            hint="write records as objects, and texts in quotes",
            line=number,
        )
    except CdecError as error:
        if unit == "line" and not data.lstrip().startswith(b"{") and isinstance(error, JsonError):
            error.hint = f"give one JSON object or one quoted text a line; or {_AS_TEXTS}"
        return Entry(number, data, error=error, unit=unit)


def text_entry(data: bytes, name: str, line: int, offset: int) -> Entry:
    """Return the entry of a line: an object where it begins with a brace, else a text."""
    if data.lstrip().startswith(b"{"):
        return json_entry(data, name, line, offset)
    try:
        text = decode_line(data, name, line, offset)
    except CdecError as error:
        return Entry(line, data, error=error)
    return Entry(line, text, text=text)


def notice_array(head: bytes, name: str, stats: SourceStats) -> None:
    """Warn where lines begin as a JSON array does: each is a text all the same."""
    text = head.lstrip()
    if text.startswith(b"[") and text[1:].lstrip()[:1] in (b"{", b'"'):
        stats.notice_once(
            "W_LOOKS_LIKE_JSON",
            f"{name} looks like a JSON array, and each of its lines is a text as it is; "
            "`input_format` json would read its records",
        )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "an array"
    return orjson.dumps(value).decode()[:40]
