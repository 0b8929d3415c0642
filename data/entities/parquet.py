"""Reads entities from Parquet through pyarrow: only the columns asked for, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cdec.core.files.remote import is_url
from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.entities.table_cells import chosen_columns, entities_in, require_texts
from cdec.data.input.source import hash_whole
from cdec.data.tables.parquet import open_parquet

_BATCH_ROWS = 1 << 16


def read_parquet(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield the text column (and id column) of a Parquet file; line numbers are row numbers.

    Raises:
        UsageError: The source is a pipe: Parquet is read from its end.
        FieldError: No such column, or none of texts, or a null in it.
        LimitError: The columns are longer than ``max_input_bytes``.
        DataError: A damaged file.
    """
    with open_parquet(request.source) as file:
        columns = chosen_columns(file.schema.names, request)
        require_texts(file.schema, columns, request)
        row = 1
        for batch in file.batches(columns, request.name, request.limits, _BATCH_ROWS):
            yield from entities_in(batch, columns, row, request)
            row += batch.num_rows
    if request.stats.digest is not None:
        hash_whole(request.source, limits=request.limits, stats=request.stats)
    if isinstance(request.source, str | Path) and not is_url(request.source):
        request.stats.bytes_read = Path(request.source).stat().st_size
