"""Reads what a run wrote as Parquet, to go on with it: nothing of it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.errors import DataError, FieldError
from cdec.data.output.resume import MAX_INDEX, FinishedRecords
from cdec.data.output.table import IS_NUMBER

KEY = ("id", IS_NUMBER, "index", "error")
"""Columns by which a run is resumed."""
_LAST = "exhausted"
"""Column of what has no further draws; not in all files."""
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError)
"""What pyarrow raises of bytes that are not what they say."""
_OVER = "start over with `force`"


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
        raise DataError(f"{path} cannot be read as Parquet: {error}", hint=_OVER) from error


def filled_columns(table: Any) -> set[str]:
    """Return the columns of a table in which some row has something."""
    columns = zip(table.column_names, table.columns, strict=True)
    return {name for name, column in columns if column.null_count < len(column)}


def _require_columns(path: Path, found: Any, schema: Any) -> None:
    lacking = [name for name in KEY if name not in found.names]
    if lacking:
        raise FieldError(
            f"{path} has no column {lacking[0]!r}, by which a run is resumed",
            hint=f"{_OVER}, and keep id and index among the `fields`",
            field=lacking[0],
        )
    for field in found:
        expected = schema.field(field.name).type if field.name in schema.names else None
        if expected is None or found.names.count(field.name) > 1 or field.type != expected:
            wanted = "samples have none" if expected is None else f"samples have one of {expected}"
            raise FieldError(
                f"{path} has a column {field.name!r} of {field.type}; {wanted}",
                hint=f"{_OVER}, or write to another file",
                field=field.name,
            )


def _key(row: Mapping[str, Any], is_error: bool, path: Path) -> tuple[object, int | None]:
    """Return the id of a row, and its index; None for an error object."""
    own, index = row["id"], row["index"]
    if own is not None and row[IS_NUMBER] and own.lstrip("-").isdecimal():
        own = int(own)
    elif own is None or row[IS_NUMBER]:
        raise FieldError(f"{path} has a row with the id {own!r}", hint=_OVER, field="id")
    if is_error:
        return own, None
    if index is None or not 0 <= index <= MAX_INDEX:
        raise FieldError(f"{path} has a row with the index {index}", hint=_OVER, field="index")
    return own, index
