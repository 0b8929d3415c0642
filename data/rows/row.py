"""Rows of inputs: what a line, a record or a row of a table holds, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast

import orjson

from cdec.core.errors import CdecError, FieldError
from cdec.data.input.json_text import parse_json

if TYPE_CHECKING:
    from cdec.data.input.source import InputLimits, Source, SourceStats
    from cdec.data.rows.table_process import TableProcess

_JSON_CELLS = frozenset(
    {
        *("n", "seed", "temperature", "max_tokens", "messages", "candidates", "index"),
        *("token_ids", "after", "between", "budget", "regions"),
    }
)
"""Fields whose cells are JSON where they parse: a CSV has texts alone."""
_NOT_EMPTY = _JSON_CELLS | {"id", "prefill", "constraint", "grammar", "regex", "schema"}
"""Fields whose empty cells say nothing, as nulls do in other tables."""
_WHOLE_NUMBERS = {"n", "seed", "max_tokens", "index"}
"""Fields that are integers; pandas makes floats of them where some rows have none."""


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


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Rows of cells, each a text.

    Attributes:
        header: Names of the columns.
        cells: Of each row, as many as there are columns.
        lines: Number of each row's first line.
        no_header: Whether a row of one cell is a text.
    """

    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    lines: Sequence[int]
    no_header: bool

    def __iter__(self) -> Iterator[Row]:
        for line, cells in zip(self.lines, self.cells, strict=True):
            if self.no_header and len(cells) == 1:
                yield Row(line, cells[0], text=cells[0])
            else:
                fields = _fields(self.header, cells)
                yield Row(line, fields, fields=fields)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a record batch.

    Attributes:
        batch: Of checked columns, bytes in the place of texts.
        columns: Their names, as they were chosen.
        first: Number of the first row, from 1.
        reading: The input.
    """

    batch: Any
    columns: Sequence[str]
    first: int
    reading: Reading

    def __iter__(self) -> Iterator[Row]:
        from cdec.data.rows.cells import objects_of

        name, most = self.reading.name, self.reading.limits.max_line_bytes
        for row, found in objects_of(self.batch, name, self.first, most):
            self.reading.stats.lines += 1
            yield _row(found, row, name, most)


def _row(found: dict[str, object] | CdecError, row: int, name: str, most: int) -> Row:
    if isinstance(found, CdecError):
        return _bad_row(row, found)
    if found.pop("id_is_number", False) and str(found.get("id")).lstrip("-").isdecimal():
        found["id"] = int(str(found["id"]))  # as cdec's own Parquet outputs write numbers
    try:
        size = len(orjson.dumps(with_whole_numbers(found)))
    except (TypeError, ValueError) as problem:
        text = f"{name}, row {row}: {problem}"
        return _bad_row(row, FieldError(text, hint="write it as a text", line=row))
    if size > most:
        from cdec.data.rows.cells import row_too_long

        return _bad_row(row, row_too_long(name, row, size, most))
    return Row(row, found, fields=found, unit="row")


def with_whole_numbers(found: dict[str, object]) -> dict[str, object]:
    """Return a row of a table, whose fields that are integers are made such in place."""
    for field in _WHOLE_NUMBERS & found.keys():
        value = found[field]
        if isinstance(value, float) and value.is_integer():
            found[field] = int(value)
    return found


def _bad_row(row: int, error: CdecError) -> Row:
    return Row(row, f"row {row} {error.code}", error=error, unit="row")


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


def _fields(header: Sequence[str], cells: Sequence[str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for column, cell in zip(header, cells, strict=True):
        if cell == "" and column in _NOT_EMPTY:
            continue
        fields[column] = cell
        if column in _JSON_CELLS:
            with suppress(orjson.JSONDecodeError):  # the text then, which its check will name
                fields[column] = orjson.loads(cell)
    if "messages" in fields and fields.get("prompt") == "":
        del fields["prompt"]
    return fields
