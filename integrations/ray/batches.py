"""Batches of Ray's datasets: their rows become samples, and their columns stay columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdec.core.errors import CdecError, UsageError
from cdec.core.record_fields import fields_of
from cdec.core.tokens.locations import EMBEDDED
from cdec.data.output.parquet import IS_NUMBER, sample_schema, table_of
from cdec.data.prompts.record import BadRecord
from cdec.data.rows.cells import objects_of, plain_columns
from cdec.data.rows.row import with_whole_numbers
from cdec.integrations.ray.cluster import ray_library
from cdec.integrations.ray.settings import Settings
from cdec.integrations.ray.worker import Watch, told
from cdec.integrations.records.settings import RunSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdec.core.models.language_model import LanguageModel
    from cdec.data.prompts.record import PromptRecord
    from cdec.integrations.records.tasks import Done

_Record: TypeAlias = "PromptRecord | BadRecord"
_NAMES = tuple(name for name in fields_of("sample") if name != "input")
"""Fields of samples, but for the one that carries the other fields of records."""
_OF_BATCHES = frozenset({"id", IS_NUMBER})
"""Columns of samples that a batch has itself."""


class BatchSampler:
    """Samples of the prompt records of a batch; made once a worker, called with its batches.

        samples = prompts.map_batches(
            BatchSampler,
            fn_constructor_kwargs={"artifact": "s3://bucket/cities.arrow", "method": "masked"},
            batch_size=64, batch_format="pyarrow", concurrency=(1, 8),
        )

    The samples of a record follow from its own seed and id, whichever rows stand beside it. Rows
    without ``id`` get a hash of what they hold: give them ids where equal rows are not one record.

    Args:
        model: A name or path, or a function that makes the model here; the embedded one if not
            given.
        settings: As ``sample_records`` takes them; artifacts by path or URL.

    Raises:
        UsageError: An option that neither the sampler nor the method has, or an artifact without a
            file.
        CdecError: Model or artifacts cannot be opened here.
    """

    def __init__(
        self, model: str | Callable[[], LanguageModel] = EMBEDDED, **settings: Any
    ) -> None:
        self._open(Settings.of(RunSettings.of(model=model, **settings)))

    def _open(self, settings: Settings) -> None:
        self._sampler = settings.opened()
        fields = settings.run.drawing.fields
        # What else a record brought stays in its columns.
        self._schema = _schema_of(_NAMES if fields is None else fields)

    def __call__(self, batch: Any) -> pa.Table:
        """Return the samples of a batch's rows, in the order of the rows.

        Args:
            batch: A row a record: an Arrow table, columns by name (arrays of numpy, or lists), or a
                frame of pandas, as Ray's batch formats have them. Columns are the fields of prompt
                records; a null says nothing, and other columns are passed on.

        Returns:
            A row a sample, and one for each row that failed, whose ``error`` says why. First come
            the columns of the batch, as they were, of types and cells; then the fields of samples:
            numbers and texts as such, lists as lists, objects as JSON, null where a sample has
            none. ``id`` is the batch's own column where there is one.

        Raises:
            UsageError: A column of the batch has the name of a field of samples.
        """
        table = _table(batch)
        _require_apart(table.column_names, self._schema.names)
        found = list(self._drawn(table))
        kept = table.take(pa.array([place for place, _ in found], pa.int64()))
        ids = pa.array([str(record["id"]) for _, record in found], pa.string())
        named = set(self._schema.names)
        rows = [{name: row[name] for name in row.keys() & named} for _, row in found]
        samples = table_of(rows, self._schema)
        columns = dict(zip(kept.column_names, kept.columns, strict=True))
        if "id" not in columns:
            columns["id"] = ids
        elif pa.types.is_string(kind := columns["id"].type) or pa.types.is_large_string(kind):
            columns["id"] = pc.coalesce(columns["id"], ids.cast(kind))
        columns |= dict(zip(samples.column_names, samples.columns, strict=True))
        return pa.table(columns)

    def _drawn(self, table: pa.Table) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Yield what is written of the rows, each with the place of its row."""
        for place, done in enumerate(self._work_off(self._checked(table))):
            for record in told(done):
                yield place, record

    def _work_off(self, records: Iterator[_Record]) -> Iterator[Done]:
        return self._sampler.work_off(records)

    def _checked(self, table: pa.Table) -> Iterator[_Record]:
        # One by one: which rows come together in a batch must make no difference, not even to the
        # ids of rows that bring none.
        for place, row in enumerate(_objects(table), 1):
            if isinstance(row, CdecError):
                yield BadRecord(f"row {place} {row.code}", place, row)
            else:
                yield from self._sampler.checked([row])


class WatchedSampler(BatchSampler):
    """A batch sampler of a run, which notes in its journal what is under way.

    Args:
        settings: Of the run.
        journal: Of the run.

    Raises:
        CdecError: Model or artifacts cannot be opened here.
    """

    def __init__(self, settings: Settings, journal: Any) -> None:
        self._open(settings)
        self._journal = journal

    def _work_off(self, records: Iterator[_Record]) -> Iterator[Done]:
        # The same for the worker that stands in for this one, and is given these rows again.
        watch = Watch(self._journal, ray_library().get_runtime_context().get_actor_id())
        return watch.work_off(self._sampler, records)


def _schema_of(fields: Sequence[str]) -> pa.Schema:
    """Return the columns of samples beside those of a batch, which has the id, or is given it."""
    return pa.schema([field for field in sample_schema(fields) if field.name not in _OF_BATCHES])


def _require_apart(columns: Sequence[str], fields: Sequence[str]) -> None:
    """Refuse a batch whose columns would be taken for those of samples, or are two of one name.

    Raises:
        UsageError: A name that both have.
    """
    name = next((name for name in columns if name in fields or columns.count(name) > 1), None)
    if name in fields:
        raise UsageError(
            f"the batch has a column {name!r}, and samples have one of that name",
            hint="rename it (rename_columns of the dataset), or name in `fields` others alone",
        )
    if name is not None:
        raise UsageError(f"two columns of the batch are named {name!r}", hint="rename one")


def _table(batch: Any) -> pa.Table:
    """Return a batch of one of Ray's formats as a table.

    Raises:
        UsageError: It is none.
    """
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, Mapping):
        return pa.table({str(name): _column(cells) for name, cells in batch.items()})
    if hasattr(batch, "to_dict"):
        return pa.Table.from_pandas(batch, preserve_index=False)
    raise UsageError(
        f"the batch is a {type(batch).__name__}",
        hint="give an Arrow table, columns by name, or a frame of pandas",
    )


def _column(cells: Any) -> pa.Array:
    """Return an array or a list as a column; further axes are lists of one length."""
    if isinstance(cells, np.ndarray) and cells.ndim > 1:
        inner = _column(cells.reshape(-1, *cells.shape[2:]))
        return pa.FixedSizeListArray.from_arrays(inner, cells.shape[1])
    return pa.array(cells)


def _objects(table: pa.Table) -> Iterator[dict[str, object] | CdecError]:
    """Yield rows as records: a field that is null there says nothing."""
    for batch in table.to_batches():
        stored = [
            column.storage if isinstance(column, pa.ExtensionArray) else column
            for column in batch.columns
        ]
        columns, names = plain_columns(pa.RecordBatch.from_arrays(stored, batch.schema.names))
        plain = pa.RecordBatch.from_arrays(columns, names)
        for _, row in objects_of(plain, "the batch", 1, math.inf):
            yield row if isinstance(row, CdecError) else with_whole_numbers(row)
