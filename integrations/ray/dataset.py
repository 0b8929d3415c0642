"""A Ray dataset of prompt records becomes one of sample records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cdec.core.tokens.locations import EMBEDDED
from cdec.data.output.parquet import sample_schema, table_of
from cdec.integrations.ray.journal import Watch, new_journal
from cdec.integrations.ray.library import ray_library
from cdec.integrations.ray.pool import Pool
from cdec.integrations.ray.settings import Settings
from cdec.integrations.ray.worker import written
from cdec.integrations.records.settings import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

    from cdec.core.models.language_model import LanguageModel
    from cdec.data.prompts.record import BadRecord, PromptRecord

ROWS = 64
"""Rows that a worker is given at a time, if nothing else is said."""


def sample(
    dataset: Dataset,
    model: str | Callable[[], LanguageModel] = EMBEDDED,
    *,
    workers: int | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    memory: int | None = None,
    retries: int = 3,
    rows: int = ROWS,
    **settings: Any,
) -> Dataset:
    """Return the samples of a dataset's prompt records, drawn by a pool of workers.

        prompts = ray.data.read_parquet("s3://bucket/prompts/")
        samples = sample(prompts, artifact="s3://bucket/cities.arrow", method="masked", n=4)
        samples.write_parquet("s3://bucket/samples/")

    Each worker loads the model once and maps the artifacts once; workers of one machine share the
    artifacts' pages. The samples of a record follow from its own seed and id, whichever worker
    draws them and beside which rows; the order of the result is Ray's. Ray streams: workers are
    given rows as results are taken, and rows whose worker died are drawn again, one by one: a row
    that ends its worker alone, too, becomes an error record.

    Args:
        dataset: A row a record, columns as fields of a prompts file (``prompt`` or ``messages``,
            ``id``, ``n``, ...); a null says nothing. Rows without ``id`` get a hash of what they
            hold, so that equal rows are one record: give them ids where they are not.
        model: A name or path, or a function that makes the model in each worker; the embedded one
            if not given.
        workers: How many; None takes what the cluster has processors for, but for one that reads
            the dataset (on a cluster of one processor, the worker asks for none). Where you say how
            many, leave a processor to whatever reads the dataset: Ray waits for it without end.
        cpus: Processors a worker asks for.
        gpus: Graphics processors a worker asks for; a fraction lets workers share one.
        memory: Bytes of memory that a worker asks for; None asks for none.
        retries: How often rows are drawn again whose worker died.
        rows: Rows that a worker is given at a time.
        settings: As ``RecordSampler`` takes them; artifacts by path or URL.

    Returns:
        A dataset (not yet computed) with the columns of ``cdec.data.output.parquet``.

    Raises:
        ExtraMissingError: Ray is not installed.
        UsageError: A number out of range, an option that neither the sampler nor the method has,
            more asked for than the cluster can ever have, or an artifact without a file.
        CdecError: An artifact is not there. What only a worker can find (a model that cannot be
            loaded) ends the dataset's execution.
    """
    ray_library()
    pool = Pool(workers=workers, cpus=cpus, gpus=gpus, memory=memory, retries=retries)
    told = Settings.of(RunSettings.of(model=model, **settings))
    arguments = {"settings": told, "journal": new_journal()}
    return pool.mapped(dataset, BatchWorker, arguments, batch_size=rows, is_read=True)


class BatchWorker:
    """Turns batches of a dataset's rows into tables of sample records.

    Args:
        settings: Of the run.
        journal: Of the run.

    Raises:
        CdecError: Model or artifacts cannot be opened here.
    """

    def __init__(self, settings: Settings, journal: Any) -> None:
        self._sampler, self._journal = settings.opened(), journal
        self._schema = sample_schema(settings.run.drawing.fields)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Return the samples of a batch, and an error record in the place of each bad row."""
        records = self._checked(map(_given, batch.to_pylist()))
        # The same for the worker that stands in for this one, and is given these rows again.
        watch = Watch(self._journal, ray_library().get_runtime_context().get_actor_id())
        return table_of(list(written(self._sampler, records, watch)), self._schema)

    def _checked(
        self, records: Iterable[Mapping[str, object]]
    ) -> Iterator[PromptRecord | BadRecord]:
        # One by one: which rows come together in a batch must make no difference, not even to the
        # ids of rows that bring none.
        for record in records:
            yield from self._sampler.checked([record])


def _given(row: Mapping[str, object]) -> dict[str, object]:
    """Return what a row says: a field that is null there says nothing."""
    return {name: value for name, value in row.items() if value is not None}
