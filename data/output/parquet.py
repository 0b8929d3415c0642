"""Writes sample records as Parquet, of which each finished row group is a part on the disk.

While a run goes on, its folder (see ``staged``) holds each finished row group as a whole Parquet
file, synced, then named, and the records since then as lines of JSON. Lines whose row group is
there as well were not taken away in time. At the end the row groups are copied into one file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.files.whole import whole_file
from cdec.data.output.lines import line_of
from cdec.data.output.lock import Folder
from cdec.data.output.parquet_rows import KEY, filled_columns, read_rows
from cdec.data.output.staged import StagedWriter, unwritten
from cdec.data.output.table import (
    aligned,
    require_columns,
    sample_schema,
    table_of,
)

GROUP_ROWS = 8192
GROUP_BYTES = 32 << 20
"""A row group ends with so many records, or bytes of them as JSON."""


class ParquetRecordWriter(StagedWriter):
    """An open Parquet output.

    Args:
        path: The file.
        held: The folder of its parts, locked.
        fields: Of samples; None for those that some record has.
        is_part: Whether it is read together with others: then it has all columns, as they have.
    """

    def __init__(
        self, path: Path, held: Folder, fields: Sequence[str] | None, *, is_part: bool = False
    ) -> None:
        super().__init__(path, held, ".parquet")
        self._schema = sample_schema(fields)
        self._names = frozenset(self._schema.names)
        self._used = set(self._names if is_part or fields is not None else KEY)
        self._rows: list[dict[str, object]] = []
        self._bytes = 0

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record.

        Raises:
            OutputError: The disk is full, the device is gone. The records before it stay.
            FieldError: It has a field for which there is no column.
        """
        line = line_of(record)
        # As they are read again after a kill, so that both ways give one file.
        row = orjson.loads(line)
        require_columns(row, self._names)
        self._append(line)
        self._rows.append(row)
        self._bytes += len(line)
        if len(self._rows) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _read_file(self, path: Path) -> None:
        self._read_part(path)
        self._used |= {*arrow_parquet.read_schema(path).names}

    def _read_part(self, path: Path) -> None:
        read_rows(path, self._schema, self.finished, self._used)

    def _read_journal(self, path: Path) -> None:
        if path.with_suffix(".parquet").exists():
            path.unlink()
            self._number += 1
            return
        super()._read_journal(path)
        data = path.read_bytes()
        self._rows = [orjson.loads(line) for line in data.splitlines()]
        self._bytes = len(data)

    def _finish(self) -> None:
        if self._rows:
            self._flush()
        self._end_journal()
        if self._number or not self._path.exists():
            self._join()

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
            raise unwritten(self._path, error) from error

    def _join(self) -> None:
        """Give the only part the output's name, or copy the row groups of all into one file.

        Columns in which no record has anything are left out, where they were not asked for.
        """
        parts = self._parts()
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


def _sync(folder: Path) -> None:
    """Put a folder's names on the disk, where the file system can."""
    with suppress(OSError):
        held = Folder(folder)
        try:
            os.fsync(held.fileno())
        finally:
            held.close()
