"""Reads entities from Arrow files and streams and saved datasets: the columns asked for."""

from __future__ import annotations

from collections.abc import Iterator

from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.entities.table_cells import chosen_columns, entities_in, require_texts
from cdec.data.input.source import open_source, read_chunks
from cdec.data.tables.arrow import open_arrow
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
                    yield from entities_in(chosen, columns, row, request)
                    row += batch.num_rows
