"""Reads entities from Parquet through pyarrow: only the columns asked for, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from cdec.core.errors import DataError, FieldError, LimitError, UsageError
from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.entities.table_cells import chosen_columns, entities_of
from cdec.data.input.source import hash_whole, open_source

_BATCH_ROWS = 1 << 16


def read_parquet(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield the text column (and id column) of a Parquet file; line numbers are row numbers.

    Raises:
        UsageError: The source is a pipe: Parquet is read from its end.
        FieldError: No such column, or none of texts, or a null in it.
        LimitError: The columns are longer than ``max_input_bytes``.
        DataError: A damaged file.
    """
    if not isinstance(request.source, str | Path) or str(request.source) == "-":
        raise UsageError(
            f"{request.name} cannot be read as Parquet, which is read from the file's end",
            hint="save it to a file first",
        )
    with open_source(request.source):
        pass  # says what is wrong with the path
    try:
        with arrow_parquet.ParquetFile(str(request.source), memory_map=True) as file:
            columns = chosen_columns(file.schema_arrow.names, request)
            _check_parquet(file, columns, request)
            row = 1
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
                lines, row = range(row, row + batch.num_rows), row + batch.num_rows
                yield entities_of(batch, columns, lines, request)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{request.name} cannot be read as Parquet: {error}",
            hint="check that the file is whole, or name its format with `format`",
        ) from error
    else:
        if request.stats.digest is not None:
            hash_whole(request.source, limits=request.limits, stats=request.stats)
    finally:
        request.stats.bytes_read = Path(request.source).stat().st_size


def _check_parquet(file: Any, columns: tuple[str, ...], request: EntityRequest) -> None:
    for name in columns:
        kind = file.schema_arrow.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        is_text = any(
            test(kind)
            for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
        )
        if not is_text and not (name != columns[0] and pa.types.is_integer(kind)):
            raise FieldError(
                f"{request.name}: column {name!r} holds {kind}, texts were expected",
                hint="name a column of strings",
                field=name,
            )
    size = sum(
        file.metadata.row_group(group).column(index).total_uncompressed_size
        for group in range(file.metadata.num_row_groups)
        for index in range(file.metadata.num_columns)
        if file.metadata.row_group(group).column(index).path_in_schema in columns
    )
    if size > request.limits.max_input_bytes:
        raise LimitError(
            f"{request.name}: the columns hold {size} bytes",
            hint="raise `max_input_bytes`, or split the input",
            limit=f"max_input_bytes {request.limits.max_input_bytes}",
        )
