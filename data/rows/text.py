"""Rows of texts and of JSON: lines, objects a line, the elements of an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import orjson

from cdec.core.errors import CdecError, JsonError
from cdec.data.input.json_text import UNIT, JsonValues, parse_json
from cdec.data.input.lines import LineBlock, LineBlocks, LongLine, decode_line, numbered_lines
from cdec.data.rows.row import Row, Rows

if TYPE_CHECKING:
    from cdec.data.rows.row import Reading


def read_lines(reading: Reading, *, is_json: bool = False) -> Iterator[Rows]:
    """Yield lines: texts, or objects where they begin with a brace, as all of JSON are."""
    blocks = LineBlocks(
        reading.chunks, reading.name, reading.limits, keep_going=reading.keeps_going
    )
    for event in blocks:
        if isinstance(event, LongLine):
            reading.stats.lines += 1
            yield [_long(event, reading)]
        else:
            yield LineRows(event, reading, is_json=is_json)


read_json_lines = partial(read_lines, is_json=True)


def read_json(reading: Reading) -> Iterator[Rows]:
    """Yield the records and texts of a JSON array, or of values one after the other.

    Raises:
        JsonError: It is no JSON, or ends within a record.
    """
    yield _values(reading)


def _values(reading: Reading) -> Iterator[Row]:
    for value in JsonValues(reading.chunks, reading.name, reading.limits, reading.as_texts):
        reading.stats.lines += 1
        if isinstance(value, LongLine):
            yield _long(value, reading)
        else:
            number, offset, data = value
            yield json_row(data, number, offset, reading, UNIT)


def _long(line: LongLine, reading: Reading) -> Row:
    error = line.error(reading.name, reading.limits)
    return Row(line.line, line.digest, error=error, unit=line.unit)


class LineRows:
    """The rows of whole lines; blank ones are counted.

    Attributes:
        block: The lines.
    """

    def __init__(self, block: LineBlock, reading: Reading, *, is_json: bool) -> None:
        self.block = block
        self._reading = reading
        self._is_json = is_json

    def __iter__(self) -> Iterator[Row]:
        stats, is_json = self._reading.stats, self._is_json
        for line, offset, data in numbered_lines(self.block):
            stats.lines += 1
            if not data.strip():
                stats.blank += 1
            elif is_json or data.lstrip().startswith(b"{"):
                yield json_row(data, line, offset, self._reading)
            else:
                yield _text_row(data, line, offset, self._reading)


def json_row(data: bytes, number: int, offset: int, reading: Reading, unit: str = "line") -> Row:
    """Return the row of an object or a quoted text; anything else is an error in its place."""
    name = reading.name
    try:
        value = parse_json(data, name, number, offset, unit)
        if isinstance(value, dict):
            return Row(number, value, fields=value, data=data, unit=unit)
        if isinstance(value, str):
            return Row(number, value, text=value, unit=unit)
        raise JsonError(
            f"{name}, {unit} {number} is {_shown(value)}, a record or a quoted text was expected",
            hint="write records as objects, and texts in quotes",
            line=number,
        )
    except CdecError as error:
        if unit == "line" and not data.lstrip().startswith(b"{") and isinstance(error, JsonError):
            error.hint = f"give one JSON object or one quoted text a line; or {reading.as_texts}"
        return Row(number, data, error=error, unit=unit)


def _text_row(data: bytes, line: int, offset: int, reading: Reading) -> Row:
    try:
        text = decode_line(data, reading.name, line, offset)
    except CdecError as error:
        return Row(line, data, error=error)
    return Row(line, text, text=text)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "an array"
    return orjson.dumps(value).decode()[:40]
