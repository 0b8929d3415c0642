"""Rows of inputs: what a line, a record or a row of a table holds, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast

import orjson

from cdec.core.errors import CdecError, FieldError
from cdec.data.input.json_text import parse_json

if TYPE_CHECKING:
    from cdec.data.input.source import InputLimits, Source, SourceStats
    from cdec.data.rows.table_process import TableProcess


class Row(NamedTuple):
    """One line or row, before anybody checks what it says.

    Attributes:
        line: Its number, from 1; of a CSV row that of its first line.
        content: By which a row without an id is known again.
        text: Of a line that is no object.
        fields: Of an object, or a row of a table without its nulls.
        data: The bytes an object was parsed from; None for a row of a table.
        error: Why it is neither.
        unit: What ``line`` counts: lines, records, or rows of a table.
    """

    line: int
    content: object
    text: str | None = None
    fields: dict[str, object] | None = None
    data: bytes | None = None
    error: CdecError | None = None
    unit: str = "line"


Rows: TypeAlias = Iterable[Row]
"""Rows that came together, each made when its turn comes."""
ChooseColumns: TypeAlias = Callable[[Sequence[str], Any], Sequence[str]]
"""Returns the columns to read, of those of a table and its ``pyarrow.Schema`` (None for CSV)."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """An input that is being read, as the reader of its format takes it.

    Attributes:
        source: Where it comes from, and ``stream``, which gives it; None for a saved dataset.
        chunks: Its bytes from the first one on, decompressed.
        name: For messages.
        limits: ``max_line_bytes`` applies to a row; the others to what the input expands to.
        stats: Counts, kept up to date.
        columns: Chooses those of a table.
        tables: The process in which tables are opened.
        as_texts: What to do where lines of text were meant, for messages.
        no_header: Whether the first row of a CSV is one of data.
        is_strict: Whether quotes that stand within a cell of a CSV are an error.
        keeps_going: Whether what follows a line beyond the limit is read.
    """

    source: Source
    stream: BinaryIO | None
    chunks: Iterator[bytes]
    name: str
    limits: InputLimits
    stats: SourceStats
    columns: ChooseColumns
    tables: TableProcess
    as_texts: str = "say with `input_format` lines that its lines are texts"
    no_header: bool = False
    is_strict: bool = True
    keeps_going: bool = True


def row_of(record: Mapping[str, object], number: int, name: str) -> Row:
    """Return the row of a line that holds a record."""
    try:
        data = orjson.dumps(record)
    except TypeError as error:
        problem = FieldError(
            f"{name}, line {number} is no JSON object: {error}",
            hint="give objects of texts, 64-bit integers, floats, lists and objects",
            line=number,
        )
        return Row(number, repr(record), error=problem)
    try:
        fields = cast(dict[str, object], parse_json(data, name, number, 0))
    except CdecError as error:
        return Row(number, data, error=error)
    return Row(number, fields, fields=fields, data=data)
