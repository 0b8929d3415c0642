"""Writes sample records as Parquet so that a kill at any moment loses nothing.

A Parquet file can be read once its last bytes are there, and not before. So while a run writes
``out.parquet``, its records stand in the folder ``out.parquet.parts``: each finished row group as a
whole Parquet file (synced, then named), the records since then as lines of JSON. Any program can
read them, and ``resume`` goes on with them. At the end the row groups are copied into one file,
which takes its name when it is whole and synced; then the folder goes.

What a kill may leave, by what there is:

* the folder alone: an unfinished run. Lines whose row group is there as well were not taken away
  in time; a torn last line is cut off.
* the file alone: a finished run. One that goes on with it makes it the folder's first part when it
  has its first record.
* both: the file was finished or not yet touched, and the folder is left over.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import orjson
import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.errors import CdecError, Notice, OutputError
from cdec.core.files.whole import whole_file
from cdec.data.output.lines import RecordWriter, line_of
from cdec.data.output.lock import Folder
from cdec.data.output.parquet_rows import KEY, filled_columns, read_rows
from cdec.data.output.resume import FinishedRecords, read_finished, torn_line
from cdec.data.output.table import (
    aligned,
    require_columns,
    sample_schema,
    table_of,
)

GROUP_ROWS = 8192
GROUP_BYTES = 32 << 20
"""A row group ends with so many records, or bytes of them as JSON."""


class ParquetRecordWriter:
    """An open Parquet output, with the interface of ``RecordWriter``. Made by ``open_writer``.

    Args:
        path: The file.
        held: The folder of its parts, locked.
        fields: Of samples; None for those that some record has.
        is_part: Whether it is read together with others: then it has all columns, as they have.

    Attributes:
        name: The output's name in messages.
        finished: The draws that were there when it was opened (``resume``).
        notices: What opening found worth a warning.
    """

    def __init__(
        self, path: Path, held: Folder, fields: Sequence[str] | None, *, is_part: bool = False
    ) -> None:
        self.name = str(path)
        self.finished = FinishedRecords()
        self.notices: list[Notice] = []
        self._path = path
        self._folder = held.path
        self._held = held
        self._schema = sample_schema(fields)
        self._names = frozenset(self._schema.names)
        self._used = set(self._names if is_part or fields is not None else KEY)
        self._rows: list[dict[str, object]] = []
        self._bytes = 0
        self._number = 0
        self._journal: RecordWriter | None = None
        self._is_closed = False

    def go_on(self) -> None:
        """Read what is there: the file, or the parts and lines of an unfinished one.

        Raises:
            DataError, JsonError, FieldError: It holds something else than sample records.
        """
        if self._path.exists():
            self.clear_parts()
            read_rows(self._path, self._schema, self.finished, self._used)
            self._used |= {*arrow_parquet.read_schema(self._path).names}
            return
        for part in _parts(self._folder):
            read_rows(part, self._schema, self.finished, self._used)
            self._number = int(part.stem) + 1
        for lines in _numbered(self._folder, ".jsonl"):
            if lines.with_suffix(".parquet").exists():
                lines.unlink()
            else:
                self._number = int(lines.stem)
                self._read_lines(lines)

    def clear_parts(self) -> None:
        """Take away what the folder holds, and what was begun there: nobody else holds it."""
        left = (path for path in self._folder.glob(".*.partial"))
        for part in (*left, *_numbered(self._folder, ".jsonl"), *_parts(self._folder)):
            part.unlink()

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record.

        Raises:
            OutputError: The disk is full, the device is gone. The records before it stay.
            FieldError: It has a field for which there is no column.
        """
        if self._journal is None:
            self._begin()
        assert self._journal is not None
        line = line_of(record)
        # As they are read again after a kill, so that both ways give one file.
        row = orjson.loads(line)
        require_columns(row, self._names)
        self._journal.append(line)
        self._rows.append(row)
        self._bytes += len(line)
        if len(self._rows) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Join the parts to one file, put it on the disk, and release it.

        Raises:
            OutputError: It cannot be written; the parts stay, and ``resume`` goes on with them.
        """
        if self._is_closed:
            return
        try:
            if self._rows:
                self._flush()
            self._end_journal()
            if self._number or not self._path.exists():
                self._join()
            self.clear_parts()
            self._folder.rmdir()
        except OSError as error:
            raise _unwritten(self._path, error) from error
        finally:
            self._release()

    def __enter__(self) -> ParquetRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A run that ends with an error has an output as well; one that is broken off goes on later.
        if error is None or (isinstance(error, CdecError) and not isinstance(error, OutputError)):
            self.close()
        else:
            self._release()

    def _begin(self) -> None:
        """Make a finished file the first part, and open the lines of the next."""
        try:
            if self._path.exists():
                self._path.replace(self._folder / "000000.parquet")
                self._number = 1
            self._open_journal()
        except OSError as error:
            raise _unwritten(self._path, error) from error

    def _open_journal(self) -> None:
        path = self._folder / f"{self._number:06}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = io.FileIO(os.open(path, flags, 0o666), "w")
        self._journal = RecordWriter(file, self.name, end=os.fstat(file.fileno()).st_size)

    def _end_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _flush(self) -> None:
        """Write the records since the last row group as one, and begin the next.

        Raises:
            OutputError: It cannot be written; its lines stay.
        """
        path = self._folder / f"{self._number:06}.parquet"
        with whole_file(path, force=True) as file:
            table = table_of(self._rows, self._schema)
            self._used |= filled_columns(table)
            arrow_parquet.write_table(
                table, pa.PythonFile(file, mode="w"), compression="zstd", row_group_size=1 << 30
            )
        self._rows, self._bytes = [], 0
        try:
            self._end_journal()
            path.with_suffix(".jsonl").unlink(missing_ok=True)
            self._number += 1
            self._open_journal()
        except OSError as error:
            raise _unwritten(self._path, error) from error

    def _read_lines(self, path: Path) -> None:
        """Read the records since the last row group; cut a torn line off."""
        size = path.stat().st_size
        with path.open("rb") as file:
            _, good_bytes = read_finished(file, str(path), self.finished)
            file.seek(0)
            data = file.read(good_bytes)
        self._rows = [orjson.loads(line) for line in data.splitlines()]
        self._bytes = good_bytes
        if good_bytes < size:
            self.notices.append(torn_line(path, size - good_bytes))
            os.truncate(path, good_bytes)

    def _join(self) -> None:
        """Give the only part the output's name, or copy the row groups of all into one file.

        Columns in which no record has anything are left out, where they were not asked for.
        """
        parts = _parts(self._folder)
        schema = self._schema
        if parts:
            schema = pa.schema([field for field in schema if field.name in self._used])
        if len(parts) == 1 and arrow_parquet.read_schema(parts[0]).equals(schema):
            parts[0].replace(self._path)
            _sync(self._path.parent)
            return
        with (
            whole_file(self._path, force=True) as file,
            arrow_parquet.ParquetWriter(
                pa.PythonFile(file, mode="w"), schema, compression="zstd"
            ) as joined,
        ):
            for part in parts:
                with arrow_parquet.ParquetFile(part) as parquet:
                    for group in range(parquet.num_row_groups):
                        table = parquet.read_row_group(group, use_threads=False)
                        joined.write_table(aligned(table, schema), row_group_size=1 << 30)

    def _release(self) -> None:
        self._is_closed = True
        try:
            self._end_journal()
        finally:
            self._held.close()


def _numbered(folder: Path, suffix: str) -> list[Path]:
    """Return the files with an ending whose names are numbers, in their order."""
    return sorted(path for path in folder.glob(f"*{suffix}") if path.stem.isdecimal())


def _parts(folder: Path) -> list[Path]:
    return _numbered(folder, ".parquet")


def _sync(folder: Path) -> None:
    """Put a folder's names on the disk, where the file system can."""
    with suppress(OSError):
        held = Folder(folder)
        try:
            os.fsync(held.fileno())
        finally:
            held.close()


def _unwritten(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {path}: {error.strerror or error}",
        hint="make room, then continue with `resume`",
        path=str(path),
    )
