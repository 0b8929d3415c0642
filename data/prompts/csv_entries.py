"""Reads the rows of a CSV as entries, as their lines arrive; a bad row is an error of its own."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress

import orjson

from cdec.core.errors import CdecError, DataError, EncodingError, FieldError, LineTooLongError
from cdec.data.input.lines import LineBlocks, LongLine, numbered_lines
from cdec.data.input.source import InputLimits, SourceStats
from cdec.data.prompts.entry import Entry

_JSON_CELLS = frozenset(
    {
        "n",
        "seed",
        "temperature",
        "max_tokens",
        "messages",
        "candidates",
        "index",
        "token_ids",
        "after",
        "between",
        "budget",
        "regions",
    }
)
"""Fields whose cells are JSON where they parse: a CSV has texts alone."""
_NOT_EMPTY = _JSON_CELLS | {"id", "prefill", "constraint", "grammar", "regex", "schema"}
"""Fields whose empty cells say nothing, as nulls do in other tables."""


def csv_entries(
    chunks: Iterator[bytes],
    name: str,
    separator: str,
    limits: InputLimits,
    stats: SourceStats,
    *,
    no_header: bool = False,
) -> Iterator[Entry]:
    """Yield the rows after the header, numbered by their first line.

    Without a header the columns are called 1, 2, ...; rows of one column are texts.

    Cells are texts; those of ``n``, ``seed`` and other fields that are no texts are JSON.

    Args:
        chunks: The input, decompressed.
        name: For messages.
        separator: Between cells.
        limits: ``max_line_bytes`` applies to a row.
        stats: Counts are kept up to date.
        no_header: Whether the first row is one of data.

    Raises:
        FieldError: The header names a column twice.
        DataError: The header cannot be read.
        LineTooLongError: A line beyond the limit stands within quotes: what follows is not known.
    """
    # subtle: the csv module has one limit for the process; rows are held to theirs below.
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_line_bytes))
    lines = _Lines(chunks, name, limits)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    header: list[str] | None = None
    while True:
        lines.begin_row()
        try:
            cells = next(reader)
            lines.require_good(cells, header)
        except StopIteration:
            break
        except csv.Error as problem:
            error: CdecError | None = DataError(
                f"{name}, line {lines.first} cannot be read as CSV: {problem}",
                hint="double each quote within a quoted cell, and close what is opened",
                line=lines.first,
            )
        except CdecError as found:
            error = found
        else:
            error = None
        if header is None:
            if error is not None:
                raise error
            header = _numbers(cells) if no_header else _checked_header(cells, name)
            if not no_header:
                continue
        stats.lines += 1
        if error is not None:
            if lines.is_lost:
                raise error
            yield Entry(lines.first, b"".join(lines.row), error=error)
        elif cells and no_header and len(cells) == 1:
            yield Entry(lines.first, cells[0], text=cells[0])
        elif cells:
            fields = _fields(header, cells)
            yield Entry(lines.first, fields, fields=fields)
        else:
            stats.blank += 1


class _Lines:
    """The lines of a CSV as texts, and what was wrong with those of the row under way.

    Attributes:
        first: Number of the row's first line, from 1.
        row: Bytes of the row's lines.
        is_lost: Where the next row begins is not known.
    """

    def __init__(self, chunks: Iterator[bytes], name: str, limits: InputLimits) -> None:
        self._events = self._numbered(chunks, limits)
        self._name = name
        self._limits = limits
        self._size = 0
        self._is_open = False  # within quotes
        self.is_lost = False
        self._line = 0
        self.first = 1
        self.row: list[bytes] = []

    def begin_row(self) -> None:
        """Forget the row before."""
        self.first, self.row, self._size, self._is_open = self._line + 1, [], 0, False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        data = self._next()
        self.row.append(data)
        self._size += len(data) + 1
        if self._size > self._limits.max_line_bytes:
            # To the row's end, which may be the input's: its lines are no rows.
            while self._is_open and self._next(or_end=True):
                pass
            raise self._too_long()
        return data.removesuffix(b"\n").decode(errors="surrogateescape") + "\n"

    def _next(self, *, or_end: bool = False) -> bytes:
        """Return the next line; nothing where the input has ended and that will do."""
        found = next(self._events, None)
        if found is None:
            self._is_open = False
            if or_end:
                return b""
            raise StopIteration
        self._line, data = found
        if isinstance(data, LongLine):
            if self._is_open:
                # Nobody knows any more whether what follows stands in quotes.
                self.is_lost = True
            self.row.append(data.digest)
            raise data.error(self._name, self._limits)
        self._is_open ^= data.count(b'"') % 2 == 1
        return data or b"\n"

    def _numbered(
        self, chunks: Iterator[bytes], limits: InputLimits
    ) -> Iterator[tuple[int, bytes | LongLine]]:
        for event in LineBlocks(chunks, self._name, limits, keep_going=True):
            if isinstance(event, LongLine):
                yield event.line, event
            else:
                for line, _, data in numbered_lines(event):
                    yield line, data

    def require_good(self, cells: list[str], header: list[str] | None) -> None:
        """Refuse a row with too few or too many cells, or with one that is not UTF-8.

        Raises:
            DataError, EncodingError: It is one.
        """
        if header is not None and cells and len(cells) != len(header):
            raise DataError(
                f"{self._name}, line {self.first} has {len(cells)} cells, the first row has"
                f" {len(header)}",
                hint="correct the row; cells with separators or new lines stand in quotes",
                line=self.first,
            )
        for number, cell in enumerate(cells):
            try:
                cell.encode()
            except UnicodeEncodeError as error:
                column = header[number] if header is not None else cell
                raise EncodingError(
                    f"{self._name}, line {self.first}: column {column!r} is not UTF-8",
                    hint="convert the input to UTF-8 with iconv, or leave the row out",
                    line=self.first,
                    field=column,
                ) from error

    def _too_long(self) -> LineTooLongError:
        limit = self._limits.max_line_bytes
        return LineTooLongError(
            f"{self._name}, line {self.first}: a row goes on past {limit} bytes",
            hint="raise `max_line_bytes`, or see whether a quote is not closed",
            line=self.first,
            limit=f"max_line_bytes {limit}",
        )


def _numbers(cells: list[str]) -> list[str]:
    return [str(number) for number in range(1, len(cells) + 1)]


def _checked_header(cells: list[str], name: str) -> list[str]:
    for column in cells:
        if cells.count(column) > 1:
            raise FieldError(
                f"{name} has {cells.count(column)} columns {column!r}",
                hint="give each column a name of its own",
                line=1,
                field=column,
            )
    return cells


def _fields(header: list[str], cells: list[str]) -> dict[str, object]:
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
