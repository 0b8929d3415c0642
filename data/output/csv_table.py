"""Records as CSV and TSV: their columns, their cells, and nothing that a spreadsheet runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from cdec.core.errors import DataError, FieldError
from cdec.core.files.whole import whole_file
from cdec.core.record_fields import fields_of
from cdec.data.ids import id_key
from cdec.data.input.decompress import ChunkFile
from cdec.data.output.compress import packed, plain_chunks, write_all
from cdec.data.output.forms import Form
from cdec.data.output.lines import MAX_INDEX, FinishedRecords
from cdec.data.output.staged import Folder, StagedWriter

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With which texts begin that spreadsheets take for formulas."""
_INPUT, _ERROR = "input", "error"
_END = "\r\n"


@dataclass
class Columns:
    """The columns of records that become rows.

    Attributes:
        fields: That are written whatever is in them; None for those in which some record has
            something.
        keep_input: Whether a row begins with what the record's ``input`` holds.
        of_input: Names of that, as they were met.
        own: Fields that were met, those of the output in their order.
    """

    fields: Sequence[str] | None = None
    keep_input: bool = False
    of_input: dict[str, None] = field(default_factory=dict)
    own: dict[str, None] = field(default_factory=dict)

    def note(self, record: Mapping[str, Any]) -> None:
        """Note what a record has."""
        for name, value in record.items():
            if value is not None and not (self.keep_input and name == _INPUT):
                self.own[name] = None
        given = record.get(_INPUT)
        if self.keep_input and isinstance(given, dict):
            self.of_input.update(dict.fromkeys(given))

    def named(self, known: Sequence[str]) -> dict[str, tuple[bool, str]]:
        """Return the columns by name: whether each is of the input, and the field it shows.

        A column of the input that has the name of another is called ``input.NAME``.

        Args:
            known: Fields of such records, in their order, for what was not asked for.
        """
        met = [*(name for name in known if name in self.own), *self.own]
        own = [name for name in met if name != _ERROR] if self.fields is None else [*self.fields]
        if not self.own and self.fields is None:
            own = [*known]
        own = [name for name in own if not (self.keep_input and name == _INPUT)]
        own += [_ERROR] if _ERROR in self.own else []
        of_input = [name for name in self.of_input if name != "id"]
        taken = {*own, *of_input}
        columns = {name: (False, name) for name in own[:1] if name == "id"}
        for name in of_input:
            shown = f"{_INPUT}.{name}" if name in own else name
            while shown != name and shown in taken:
                shown = f"{_INPUT}.{shown}"
            columns[shown] = (True, name)
        return columns | {name: (False, name) for name in dict.fromkeys(own)}


def cells_of(
    record: Mapping[str, Any], columns: Mapping[str, tuple[bool, str]]
) -> Iterator[object]:
    """Yield the cells of a record's row."""
    given = record.get(_INPUT)
    of_input = given if isinstance(given, dict) else {}
    for is_of_input, name in columns.values():
        yield cell_of((of_input if is_of_input else record).get(name), name)


def cell_of(value: object, name: str = "") -> object:
    """Return a value as a cell: texts inert, lists and objects as JSON, of an error what it says.

    None is an empty cell; numbers are written with all their digits.
    """
    if value is None:
        return None
    if name == _ERROR and isinstance(value, dict):
        return inert(f"{value.get('code')}: {value.get('message')}")
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, bool | dict | list | tuple):
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return value


def inert(text: str) -> str:
    """Return a text that a spreadsheet takes for a formula behind an apostrophe, which it drops."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def row_of(cells: Iterable[object], separator: str = ",") -> str:
    """Return a row without its line's end; cells with separators, quotes or line ends in quotes."""
    line = io.StringIO()
    # subtle: the writer quotes the characters of its line's end alone, and both of them end lines.
    csv.writer(line, delimiter=separator, lineterminator=_END).writerow(cells)
    return line.getvalue().removesuffix(_END)


_MAX_CELL = 1 << 28
_OVER = "start over with `force`, or write to another file"


class TableWriter(StagedWriter):
    """An open CSV or TSV.

    Args:
        path: The file.
        held: The folder of its parts, locked.
        form: Of the file.
        fields: Columns; None for those in which some record has something.
        keep_input: Whether a row begins with the columns of the input.
    """

    def __init__(
        self,
        path: Path,
        held: Folder,
        form: Form,
        fields: Sequence[str] | None,
        *,
        keep_input: bool = False,
    ) -> None:
        suffix = f".{form.kind}{form.compression.suffix if form.compression else ''}"
        super().__init__(path, held, suffix)
        self._form = form
        self._separator = form.separator or ","
        self._columns = Columns(fields, keep_input)

    def _read_part(self, path: Path) -> None:
        finished = FinishedCells()
        rows = self._rows(path)
        header = next(rows, [])
        lacking = [name for name in ("id", "index") if name not in header]
        if lacking:
            raise FieldError(
                f"{path} has no column {lacking[0]!r}, by which a run is resumed",
                hint="start over with `force`, and keep id and index among the `fields`",
                field=lacking[0],
            )
        for cells in rows:
            row = dict(zip(header, cells, strict=False))
            is_error, is_last = bool(row.get("error")), row.get("exhausted") == "true"
            finished.add_cells(
                row["id"], row["index"], str(path), is_error=is_error, is_last=is_last
            )
        self.finished = finished

    def _finish(self) -> None:
        self._end_journal()
        parts, lines = self._parts(), self._lines()
        if self._path.exists() and not lines:
            return
        for record in _records(lines):
            self._columns.note(record)
        named = self._columns.named(fields_of("sample"))
        columns = {inert(name): shown for name, shown in named.items()}
        header = list(columns)
        for part in parts:
            header = list(dict.fromkeys((*next(self._rows(part), []), *header)))
        with (
            whole_file(self._path, force=True) as file,
            packed(file, self._form.compression) as out,
        ):
            write_all(out, self._encoded(self._all_rows(parts, lines, columns, header)))

    def _all_rows(
        self, parts: list[Path], lines: list[Path], columns: Any, header: list[str]
    ) -> Iterator[list[object]]:
        """Yield the header, the rows of finished parts as they are, and those of lines."""
        yield [*header]
        for part in parts:
            rows = self._rows(part)
            names = next(rows, [])
            for cells in rows:
                row = dict(zip(names, cells, strict=False))
                yield [row.get(name) for name in header]
        for record in _records(lines):
            found = dict(zip(columns, cells_of(record, columns), strict=True))
            yield [found.get(name) for name in header]

    def _encoded(self, rows: Iterator[list[object]]) -> Iterator[bytes]:
        for row in rows:
            yield f"{row_of(row, self._separator)}\n".encode()

    def _rows(self, path: Path) -> Iterator[list[str]]:
        """Yield the rows of a file that cdec wrote, its header first.

        Raises:
            DataError: It is damaged.
        """
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL))
        stream = io.BufferedReader(ChunkFile(plain_chunks(path)))
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            yield from csv.reader(text, delimiter=self._separator, strict=True)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path} cannot be read as a table: {error}", hint=_OVER) from error


class FinishedCells(FinishedRecords):
    """The draws that a table of texts holds, whose ids are known by their cells.

    subtle: the number 1 and the text "1" are one cell; where both are asked for, nobody knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[bytes, bytes] = {}

    def key(self, record_id: object) -> bytes:
        """Return what stands for an id.

        Raises:
            FieldError: Another id has the same cell.
        """
        key, own = id_key(str(cell_of(record_id))), id_key(record_id)
        if self._asked.setdefault(key, own) != own:
            raise FieldError(
                f"the id {record_id!r} and another one are the same cell of a table, by which a "
                "finished run cannot be resumed",
                hint=_OVER,
                field="id",
            )
        return key

    def add_cells(
        self, record_id: str, index: str, name: str, *, is_error: bool, is_last: bool = False
    ) -> None:
        """Note a row.

        Raises:
            FieldError: Its cells are none of a sample and none of an error.
        """
        key, number = id_key(record_id), int(index) if index.isdecimal() else None
        is_known = is_error or (number is not None and number <= MAX_INDEX)
        if not is_known or self.has(key, None if is_error else number):
            raise FieldError(
                f"{name} has a row with the id {record_id!r} and the index {index!r}, by which a "
                "run cannot be resumed",
                hint=_OVER,
                field="id",
            )
        self.note(key, None if is_error else number, is_error=is_error, is_last=is_last)


def _records(lines: list[Path]) -> Iterator[dict[str, Any]]:
    for path in lines:
        with path.open("rb") as file:
            for line in file:
                yield orjson.loads(line)
