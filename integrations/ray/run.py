"""Runs on a cluster: of parts, which workers report as they finish, and of Ray's datasets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdec.core.errors import LimitError
from cdec.core.tokens.locations import EMBEDDED
from cdec.integrations.ray.batches import WatchedSampler
from cdec.integrations.ray.cluster import Pool, quiet_data, ray_library
from cdec.integrations.ray.settings import Settings
from cdec.integrations.ray.worker import (
    PartWorker,
    Report,
    new_journal,
    table_of_objects,
)
from cdec.integrations.records.counts import Counts
from cdec.integrations.records.settings import RunSettings

if TYPE_CHECKING:
    from ray.data import Dataset

    from cdec.core.models.language_model import LanguageModel
    from cdec.integrations.ray.cluster import Pool
    from cdec.integrations.ray.parts import Part, PartFolder
    from cdec.integrations.ray.settings import Settings


_NAMED = 5
"""Most parts, and most records, that a message names."""


@dataclass
class PartRun:
    """The parts of a run, those that were done before set apart.

    Attributes:
        before: What became of those that were done before.
        total: How many there are in all.
        waiting: Names of those that are not done.
    """

    before: Counts = field(default_factory=Counts)
    total: int = 0
    waiting: dict[str, None] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Number of parts that are done."""
        return self.total - len(self.waiting)


def sample_parts(
    parts: Iterable[Part],
    folder: PartFolder,
    settings: Settings,
    pool: Pool,
    *,
    read: Mapping[str, Any] | None = None,
    run: PartRun | None = None,
) -> Iterator[Report]:
    """Yield what workers report of the parts that are not done, as they finish; Ray must run.

    Parts of given records stand in Ray's object store until they are taken (on its disk where
    there is no room); those that are files are read by the workers. A worker has a part or two at
    a time. One that dies is started anew and its part done again from the start; the records that
    it was drawing are drawn one by one then, and one that ends a worker alone is not drawn again.

    Args:
        parts: In any order; names differ.
        folder: Where part files go, prepared.
        settings: How records are sampled.
        pool: Of workers.
        read: Further keywords of ``read_prompts`` for parts that are files.
        run: Kept up to date, for whoever shows progress.

    Raises:
        ResumeMismatchError: A part was done with another configuration, or of other records.
        CdecError: What a worker met that ends the run.
        LimitError: The workers of some parts died again and again; all others are done.
    """
    run = PartRun() if run is None else run
    rows = _waiting(parts, folder, run)
    if not rows:
        return
    journal = new_journal()
    arguments = {"settings": settings, "folder": folder, "read": dict(read or {})}
    arguments["journal"] = journal
    with quiet_data():
        dataset = ray_library().data.from_arrow_refs(rows)
        reports = pool.mapped(dataset, PartWorker, arguments, batch_size=1, work=len(rows))
        # The dataset has what it needs of them; here they would stay until the end.
        rows.clear()
        for report in _reports(reports):
            if report.error is not None:
                raise report.error
            run.waiting.pop(report.name, None)
            yield report
    if run.waiting:
        last = ray_library().get(journal.all_under_way.remote())
        raise _lost(list(run.waiting), run.total, pool.retries, last)


def _waiting(parts: Iterable[Part], folder: PartFolder, run: PartRun) -> list[Any]:
    """Return references to rows of the parts that are not done, a block each."""
    put = ray_library().put
    rows, there = [], folder.names()
    for part in parts:
        run.total += 1
        done = folder.finished(part) if part.name in there else None
        if done is not None:
            run.before.add(done)
            continue
        run.waiting[part.name] = None
        rows.append(put(table_of_objects("part", [part])))
    return rows


def _reports(dataset: Dataset) -> Iterator[Report]:
    """Yield reports; where the caller stops early, so do the workers."""
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        yield from map(pickle.loads, batch.column("report").to_pylist())


def _lost(names: Sequence[str], total: int, retries: int, last: Sequence[str]) -> LimitError:
    at = f", at last while drawing the records {_listed(last)}" if last else ""
    return LimitError(
        f"{len(names)} of {total} parts are not done: {_listed(names)}; their "
        f"workers died {retries + 1} times{at}",
        hint="see in Ray's logs what ended them (memory, most often: fewer workers, or a smaller "
        "`batch_size`), then continue with `resume` and more `retries`",
        parts=list(names),
        records=list(last),
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


ROWS = 64
"""Rows that a worker is given at a time, if nothing else is said."""


def sample(
    dataset: Dataset,
    model: str | Callable[[], LanguageModel] = EMBEDDED,
    *,
    workers: int | tuple[int, int] | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    memory: int | None = None,
    accelerator: str | None = None,
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
        workers: How many, or the least and the most as ``(1, 8)``; None takes what the cluster has
            processors for (and, where it adds machines, can ever have), but for one that reads the
            dataset (on a cluster of one processor, the worker asks for none). Where you say how
            many, leave a processor to whatever reads the dataset: Ray waits for it without end.
        cpus: Processors a worker asks for.
        gpus: Graphics processors a worker asks for; a fraction lets workers share one.
        memory: Bytes of memory that a worker asks for; None asks for none.
        accelerator: Type of a worker's accelerator, as Ray names it (``A100``); None for any.
        retries: How often rows are drawn again whose worker died.
        rows: Rows that a worker is given at a time.
        settings: As ``RecordSampler`` takes them; artifacts by path or URL.

    Returns:
        A dataset (not yet computed) with the columns that ``BatchSampler`` gives: those of the
        dataset, as they are, and the fields of samples.

    Raises:
        ExtraMissingError: Ray is not installed.
        UsageError: A number out of range, an option that neither the sampler nor the method has,
            more asked for than the cluster can ever have, or an artifact without a file.
        CdecError: An artifact is not there. What only a worker can find (a model that cannot be
            loaded) ends the dataset's execution.
    """
    ray_library()
    pool = Pool(workers, cpus, gpus, memory, retries, accelerator)
    told = Settings.of(RunSettings.of(model=model, **settings))
    arguments = {"settings": told, "journal": new_journal()}
    return pool.mapped(dataset, WatchedSampler, arguments, batch_size=rows, is_read=True)
