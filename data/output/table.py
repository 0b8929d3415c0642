"""Sample records as tables: the schema, declared with the fields, and rows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from cdec.core.errors import FieldError
from cdec.core.record_fields import RECORD_FIELDS, fields_of

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
