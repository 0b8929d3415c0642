"""Reads entities from Arrow files and streams and saved datasets: the columns asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.entities.table_cells import chosen_columns, entities_of, require_texts
from cdec.data.input.source import open_source, read_chunks
from cdec.data.tables.arrow import open_arrow
from cdec.data.tables.cells import checked_columns, rows_at_once
from cdec.data.tables.dataset import files_of


def read_arrow(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield the text column (and id column); line numbers are row numbers, over all files.

    Raises:
        FieldError: No such column, or none of texts, or a null in it.
        LimitError: It expands to too much.
        DataError: A damaged file, or one that ends early.
    """
    row = 1
    for source in files_of(request.source):
        with open_source(source) as stream:
            chunks = read_chunks(stream, request.name, limits=request.limits, stats=request.stats)
            with open_arrow(chunks, source, request.name, request.limits) as reader:
                columns = chosen_columns(reader.schema.names, request)
                require_texts(reader.schema, columns, request)
                for batch in reader.batches():
                    chosen = batch.select(list(columns))
                    names, checked = checked_columns(chosen, request.name, row)
                    whole = pa.RecordBatch.from_arrays(checked, names=names)
                    step = rows_at_once(checked) if _shares(whole) else max(batch.num_rows, 1)
                    for start in range(0, batch.num_rows, step):
                        part = whole.slice(start, step)
                        lines, row = range(row, row + part.num_rows), row + part.num_rows
                        yield entities_of(part, columns, lines, request)


def _shares(batch: Any) -> bool:
    return any(pa.types.is_dictionary(column.type) for column in batch.columns)
