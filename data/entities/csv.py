"""Reads entities from CSV through pyarrow: only the columns asked for, streaming."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from cdec.core.errors import CdecError, DataError
from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.entities.table_cells import chosen_columns, entities_of, row_too_long
from cdec.data.input.decompress import ChunkFile
from cdec.data.input.source import bom_length, open_source, read_chunks

_HEAD_BYTES = 1 << 18


def read_csv(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield the text column (and id column) of a CSV; quoted newlines are data.

    Line numbers are row numbers, a header being row 1.

    Raises:
        FieldError: No such column, or two of that name.
        DataError: A row with another number of cells than the header.
        EncodingError, LineTooLongError: A bad row, unless ``bad_lines`` is ``skip``.
    """
    with open_source(request.source) as stream:
        chunks = read_chunks(stream, request.name, limits=request.limits, stats=request.stats)
        head = b""
        while len(head) < _HEAD_BYTES and (chunk := next(chunks, b"")):
            head += chunk
        if not head:
            return
        names = _header(head, request)
        if request.no_header:
            names = [str(number) for number in range(1, len(names) + 1)]
        columns = chosen_columns(names, request)
        uneven = _UnevenRows(request)
        row = 1 if request.no_header else 2
        own_names = names if request.no_header else None
        for batch in _batches(chain([head], chunks), columns, own_names, uneven, request):
            lines, row = uneven.number_rows(row, batch.num_rows)
            yield entities_of(batch, columns, lines, request)


class _UnevenRows:
    """The rows whose number of cells is not the header's; pyarrow calls it with each."""

    def __init__(self, request: EntityRequest) -> None:
        self._request = request
        self._numbers: set[int] = set()
        self.error: CdecError | None = None

    def __call__(self, row: Any) -> str:
        request = self._request
        request.stats.lines += 1
        error = DataError(
            f"{request.name}, row {row.number} has {row.actual_columns} cells, the first row has"
            f" {row.expected_columns}",
            hint="correct the row, or leave such rows out with `bad_lines` skip",
            line=row.number,
        )
        try:
            request.refuse(error)
        except CdecError:
            # subtle: an exception would be lost between here and pyarrow's caller.
            self.error = error
            return "error"
        self._numbers.add(row.number)
        return "skip"

    def number_rows(self, row: int, count: int) -> tuple[Sequence[int], int]:
        """Return the numbers of the next ``count`` even rows from ``row`` on, and the next one."""
        if not self._numbers:
            return range(row, row + count), row + count
        numbers: list[int] = []
        while len(numbers) < count:
            if row not in self._numbers:
                numbers.append(row)
            row += 1
        return numbers, row


def _header(head: bytes, request: EntityRequest) -> list[str]:
    """Parse the first row, which ends in the head or is absurdly long."""
    start = bom_length(head)
    if len(head) >= _HEAD_BYTES and b"\n" not in head:
        raise row_too_long(request, 1)
    # A character cut by the head's end stands after the header.
    rows = csv.reader(io.StringIO(head[start:].decode(errors="replace")), **_dialect(request))
    try:
        header = next((row for row in rows if row), [])
    except csv.Error as error:
        raise DataError(
            f"{request.name}: the header cannot be read: {error}",
            hint="give a table with one header row, or `format` text",
            line=1,
        ) from error
    return header


def _dialect(request: EntityRequest) -> dict[str, Any]:
    return {"delimiter": "\t" if request.tabs else ","}


def _batches(
    chunks: Iterator[bytes],
    columns: tuple[str, ...],
    names: list[str] | None,
    uneven: _UnevenRows,
    request: EntityRequest,
) -> Iterator[Any]:
    try:
        with _open_csv(chunks, columns, names, uneven, request) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        if uneven.error is not None:
            raise uneven.error from error
        if "straddl" in str(error) or "cannot infer" in str(error):
            raise row_too_long(request) from error
        raise DataError(
            f"{request.name} cannot be read as CSV: {error}",
            hint="correct the file, or name its format with `format`",
        ) from error


def _open_csv(
    chunks: Iterator[bytes],
    columns: tuple[str, ...],
    names: list[str] | None,
    uneven: _UnevenRows,
    request: EntityRequest,
) -> Any:
    return arrow_csv.open_csv(
        io.BufferedReader(ChunkFile(chunks), 1 << 20),
        # One thread: otherwise rows have no numbers.
        read_options=arrow_csv.ReadOptions(
            column_names=names,
            use_threads=False,
            block_size=max(request.limits.max_line_bytes, 1 << 20),
        ),
        parse_options=arrow_csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=uneven, **_dialect(request)
        ),
        # As bytes: pyarrow would say only that some cell is not UTF-8, not which.
        convert_options=arrow_csv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.binary()),
            strings_can_be_null=False,
        ),
    )
