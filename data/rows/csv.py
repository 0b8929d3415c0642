"""Rows of CSV and TSV as their lines arrive; a bad row is an error of its own."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING

from cdec.core.errors import CdecError, DataError, EncodingError, LineTooLongError
from cdec.data.input.lines import LineBlock, LineBlocks, LongLine
from cdec.data.rows.row import CsvRows, Row, Rows

if TYPE_CHECKING:
    from cdec.data.rows.row import Reading


def read_csv(reading: Reading, separator: str = ",") -> Iterator[Rows]:
    """Yield the rows after the header, numbered by their first line.

    Without a header the columns are called 1, 2, ...

    Raises:
        FieldError: The columns cannot be chosen.
        DataError: The header cannot be read.
        LineTooLongError: A line beyond the limit stands within quotes: what follows is not known.
    """
    # subtle: the csv module has one limit for the process; rows are held to theirs below.
    csv.field_size_limit(max(csv.field_size_limit(), reading.limits.max_line_bytes))
    lines, stats = _Lines(reading), reading.stats
    reader = csv.reader(lines, delimiter=separator, strict=reading.is_strict)
    cells: list[str] | None = []
    while cells == []:
        lines.begin_row()
        cells, error = _next_row(reader, lines, None)
        if error is not None:
            raise error
    if cells is None:
        return
    header = [str(n) for n in range(1, len(cells) + 1)] if reading.no_header else cells
    reading.columns(header, None)
    found, numbers = ([cells], [lines.first]) if reading.no_header else ([], [])
    stats.lines += len(found)
    while True:
        if found and lines.is_drained:
            yield CsvRows(header, found, numbers, reading.no_header)
            found, numbers = [], []
        plain = lines.plain_rows(separator, len(header))
        if plain:
            stats.lines += len(plain)
            yield CsvRows(header, plain, lines.passed(len(plain)), reading.no_header)
            continue
        lines.begin_row()
        cells, error = _next_row(reader, lines, header)
        stats.lines += cells is not None or error is not None
        if cells:
            found.append(cells)
            numbers.append(lines.first)
        elif cells is not None:
            stats.blank += 1
        else:
            if found:
                yield CsvRows(header, found, numbers, reading.no_header)
                found, numbers = [], []
            if error is None:
                return
            if lines.is_lost:
                raise error
            yield [Row(lines.first, lines.row_bytes(), error=error)]


read_tsv = partial(read_csv, separator="\t")


def _next_row(
    reader: Iterator[list[str]], lines: _Lines, header: list[str] | None
) -> tuple[list[str] | None, CdecError | None]:
    """Return the cells of the next row, or what is wrong with it; neither at the end."""
    try:
        cells = next(reader)
        if header is not None and cells and len(cells) != len(header):
            raise lines.uneven(len(cells), len(header))
        if lines.has_bad_bytes:
            lines.require_utf8(cells, header)
    except StopIteration:
        return None, None
    except csv.Error as problem:
        name, line = lines.name, lines.first
        error = DataError(
            f"{name}, line {line} cannot be read as CSV: {problem}",
            hint="double each quote within a quoted cell, and close what is opened",
            line=line,
        )
        return None, error
    except CdecError as error:
        return None, error
    return cells, None


class _Lines:
    """The lines of a CSV as texts, and what was wrong with those of the row under way.

    Attributes:
        first: Number of the row's first line, from 1.
        is_lost: Where the next row begins is not known.
        is_drained: No further row is known to be there before more of the input is read.
        has_bad_bytes: Whether something in it is not UTF-8.
    """

    def __init__(self, reading: Reading) -> None:
        self.name = reading.name
        self._most = reading.limits.max_line_bytes
        self._limits = reading.limits
        self._is_strict = reading.is_strict
        self._blocks = iter(
            LineBlocks(reading.chunks, reading.name, reading.limits, keep_going=True)
        )
        self._events = self._numbered()
        self._event: LineBlock | LongLine | None = None  # the next, not begun
        self._held: list[str] | None = None  # lines of the next block, not begun
        self._line = 0
        self._last_opening = 0
        self._last = 0
        self._row: list[str | LongLine] = []
        self._size = 0
        self._is_open = False  # within quotes
        self.is_lost = False
        self.has_bad_bytes = False
        self.first = 1

    @property
    def is_drained(self) -> bool:
        # A row that opens quotes and closes none may go on in what comes later.
        return self._line >= self._last or self._line + 1 == self._last_opening

    def plain_rows(self, separator: str, width: int) -> list[list[str]] | None:
        """Return the rows of the next block of lines, where every line is a good row; else None.

        The csv module reads them at once, and as many rows as lines are one a line.
        """
        if self._line < self._last or self._held is not None:
            return None
        event = next(self._blocks, None)
        if not isinstance(event, LineBlock):
            self._event = event
            return None
        self._held = self._lines_of(event)
        try:
            rows = list(csv.reader(self._held, delimiter=separator, strict=True))
        except csv.Error:
            return None
        is_even = len(rows) == len(self._held) and all(len(cells) == width for cells in rows)
        if not is_even or self.has_bad_bytes:
            return None
        self._held = None
        return rows

    def passed(self, count: int) -> range:
        """Pass lines that were rows of their own; return their numbers."""
        first, self._line = self._line + 1, self._line + count
        self._last = self._line
        return range(first, first + count)

    def begin_row(self) -> None:
        """Forget the row before."""
        self.first, self._row, self._size, self._is_open = self._line + 1, [], 0, False

    def row_bytes(self) -> bytes:
        """Return by what the row is known again: its lines without their ends."""
        return b"".join(
            _bytes(line.removesuffix("\n") or "\n") if isinstance(line, str) else line.digest
            for line in self._row
        )

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._next()
        self._row.append(line)
        self._size += len(line) if line.isascii() else len(_bytes(line))
        if self._size > self._most + 1:  # without its end
            # To the row's end, which may be the input's: its lines are no rows.
            while self._is_open and self._next(or_end=True):
                pass
            raise self._too_long()
        return line

    def _next(self, *, or_end: bool = False) -> str:
        """Return the next line; nothing where the input has ended and that will do."""
        line = next(self._events, None)
        if line is None:
            was_open, self._is_open = self._is_open, False
            if or_end:
                return ""
            if was_open and not self._is_strict:
                raise csv.Error("unexpected end of data")
            raise StopIteration
        self._line += 1
        if isinstance(line, LongLine):
            if self._is_open:
                # Nobody knows any more whether what follows stands in quotes.
                self.is_lost = True
            self._row.append(line)
            raise line.error(self.name, self._limits)
        if '"' in line:
            self._is_open ^= line.count('"') % 2 == 1
        return line

    def _numbered(self) -> Iterator[str | LongLine]:
        while True:
            if self._held is None:
                event = self._event if self._event is not None else next(self._blocks, None)
                self._event = None
                if event is None:
                    return
                if isinstance(event, LongLine):
                    self._last = self._last_opening = event.line
                    yield event
                    continue
                self._held = self._lines_of(event)
            lines, self._held = self._held, None
            first = self._line + 1
            self._last = self._line + len(lines)
            odd = [n for n, line in enumerate(lines, first) if line.count('"') % 2 == 1]
            self._last_opening = odd[-1] if len(odd) % 2 == 1 else 0
            yield from lines

    def _lines_of(self, block: LineBlock) -> list[str]:
        try:
            text = block.data.decode()
        except UnicodeDecodeError:
            text = block.data.decode(errors="surrogateescape")
            self.has_bad_bytes = True
        text = text.replace("\r\n", "\n").removesuffix("\r")
        return list(StringIO(text if text.endswith("\n") else text + "\n", newline="\n"))

    def uneven(self, found: int, expected: int) -> DataError:
        """Return the error of a row with too few or too many cells."""
        return DataError(
            f"{self.name}, line {self.first} has {found} cells, the first row has {expected}",
            hint="correct the row; cells with separators or new lines stand in quotes",
            line=self.first,
        )

    def require_utf8(self, cells: list[str], header: list[str] | None) -> None:
        """Refuse a row with a cell that is not UTF-8.

        Raises:
            EncodingError: It is one.
        """
        for number, cell in enumerate(cells):
            try:
                cell.encode()
            except UnicodeEncodeError as error:
                column = header[number] if header is not None else cell
                raise EncodingError(
                    f"{self.name}, line {self.first}: column {column!r} is not UTF-8",
                    hint="convert the input to UTF-8 with iconv, or leave the row out",
                    line=self.first,
                    field=column,
                ) from error

    def _too_long(self) -> LineTooLongError:
        return LineTooLongError(
            f"{self.name}, line {self.first}: a row goes on past {self._most} bytes",
            hint="raise `max_line_bytes`, or see whether a quote is not closed",
            line=self.first,
            limit=f"max_line_bytes {self._most}",
        )


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
