"""Samples as Parquet: their schema, their rows written, read again and gone on with.

While a run goes on, its folder (see ``staged``) holds each finished row group as a whole Parquet
file, synced, then named, and the records since then as lines of JSON. Lines whose row group is
there as well were not taken away in time. At the end the row groups are copied into one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.errors import DataError, FieldError
from cdec.core.files.whole import whole_file
from cdec.core.record_fields import RECORD_FIELDS, fields_of
from cdec.data.output.lines import MAX_INDEX, FinishedRecords, line_of
from cdec.data.output.staged import Folder, StagedWriter, unwritten

IS_NUMBER = "id_is_number"
"""Column beside ``id``, whose numbers stand there as texts."""

_ERROR = pa.struct([(name, pa.string()) for name in ("code", "message", "hint", "details")])
_TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "string or number": pa.string(),
    "strings": pa.list_(pa.string()),
    "integers": pa.list_(pa.int64()),
}
"""Columns of the fields' JSON types; objects, whose forms differ, stand as JSON in texts."""


def sample_schema(fields: Sequence[str] | None = None) -> Any:
    """Return the schema of sample records, error objects among them.

    Args:
        fields: Keep these, in this order; None keeps all that samples can have.

    Returns:
        A ``pyarrow.Schema``: a column a field, that of ``id`` followed by ``id_is_number``; at the
        end ``error``, with code, message, hint and (as JSON) details.
    """
    types = {field.name: field.type.partition(",")[0] for field in RECORD_FIELDS}
    columns = []
    for name in fields_of("sample") if fields is None else fields:
        columns.append(pa.field(name, _TYPES.get(types[name], pa.string())))
        if name == "id":
            columns.append(pa.field(IS_NUMBER, pa.bool_()))
    return pa.schema([*columns, pa.field("error", _ERROR)])


def table_of(records: Iterable[Mapping[str, object]], schema: Any) -> Any:
    """Return records as a ``pyarrow.Table``; what a record does not have is null.

    Args:
        records: Sample records and error objects, as JSON objects.
        schema: Of ``sample_schema``.

    Raises:
        FieldError: A record has a field that the schema does not have.
    """
    rows = list(records)
    names = frozenset(schema.names)
    for record in rows:
        require_columns(record, names)
    columns = [_column(rows, field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def require_columns(record: Mapping[str, object], names: frozenset[str]) -> None:
    """Refuse a record with a field for which there is no column.

    Args:
        record: A sample record or an error object.
        names: Of the columns.

    Raises:
        FieldError: It has one.
    """
    for name in record:
        if name not in names:
            raise FieldError(
                f"record {record.get('id')!r} has a field {name!r}, for which there is no column",
                hint="write it as JSON lines, to a file that does not end in .parquet",
                field=name,
            )


def aligned(table: Any, schema: Any) -> Any:
    """Return a table with the columns of a schema: those it lacks, as of an older version, null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(rows: Sequence[Mapping[str, object]], field: Any) -> Any:
    if field.name == IS_NUMBER:
        values: list[object] = [type(row["id"]) is int if "id" in row else None for row in rows]
    elif field.name == "error":
        values = [_error(row.get("error")) for row in rows]
    else:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_string(field.type):
            values = [_text(value) for value in values]
    return pa.array(values, field.type)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _error(error: object) -> dict[str, str | None] | None:
    if not isinstance(error, dict):
        return None
    named = {name: _text(error.get(name)) for name in ("code", "message", "hint")}
    others = {name: value for name, value in error.items() if name not in named}
    return {**named, "details": _text(others) if others else None}


KEY = ("id", IS_NUMBER, "index", "error")
"""Columns by which a run is resumed."""
_LAST = "exhausted"
"""Column of what has no further draws; not in all files."""
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError)
"""What pyarrow raises of bytes that are not what they say."""
_START_OVER = "start over with `force`"


def read_rows(path: Path, schema: Any, finished: FinishedRecords, filled: set[str]) -> None:
    """Note the draws of a Parquet file, and see that all of it can be read.

    Args:
        path: The file.
        schema: That its columns must have; some may be missing, as of an older version.
        finished: What they are added to.
        filled: What the columns are added to in which some row has something.

    Raises:
        FieldError: It lacks a column by which a run is resumed, or has others than samples have.
        DataError: It is damaged.
    """
    try:
        with arrow_parquet.ParquetFile(path) as parquet:
            _require_columns(path, parquet.schema_arrow, schema)
            # subtle: of all columns, as the file is written again at the end: what is damaged is
            # to be told before hours of work, not after them.
            for number in range(parquet.num_row_groups):
                group = parquet.read_row_group(number, use_threads=False)
                group.validate(full=True)
                filled |= filled_columns(group)
                names = [name for name in (*KEY, _LAST) if name in group.column_names]
                for row in group.select(names).to_pylist():
                    is_error, is_last = row["error"] is not None, row.get(_LAST) is True
                    key = _key(row, is_error, path)
                    finished.add(*key, is_error=is_error, is_last=is_last)
    except _DAMAGE as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}", hint=_START_OVER) from error


def filled_columns(table: Any) -> set[str]:
    """Return the columns of a table in which some row has something."""
    columns = zip(table.column_names, table.columns, strict=True)
    return {name for name, column in columns if column.null_count < len(column)}


def _require_columns(path: Path, found: Any, schema: Any) -> None:
    lacking = [name for name in KEY if name not in found.names]
    if lacking:
        raise FieldError(
            f"{path} has no column {lacking[0]!r}, by which a run is resumed",
            hint=f"{_START_OVER}, and keep id and index among the `fields`",
            field=lacking[0],
        )
    for field in found:
        expected = schema.field(field.name).type if field.name in schema.names else None
        if expected is None or found.names.count(field.name) > 1 or field.type != expected:
            wanted = "samples have none" if expected is None else f"samples have one of {expected}"
            raise FieldError(
                f"{path} has a column {field.name!r} of {field.type}; {wanted}",
                hint=f"{_START_OVER}, or write to another file",
                field=field.name,
            )


def _key(row: Mapping[str, Any], is_error: bool, path: Path) -> tuple[object, int | None]:
    """Return the id of a row, and its index; None for an error object."""
    own, index = row["id"], row["index"]
    if own is not None and row[IS_NUMBER] and own.lstrip("-").isdecimal():
        own = int(own)
    elif own is None or row[IS_NUMBER]:
        raise FieldError(f"{path} has a row with the id {own!r}", hint=_START_OVER, field="id")
    if is_error:
        return own, None
    if index is None or not 0 <= index <= MAX_INDEX:
        raise FieldError(
            f"{path} has a row with the index {index}", hint=_START_OVER, field="index"
        )
    return own, index


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
