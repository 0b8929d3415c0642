"""One run over parts: those that are not done go to workers, which report as they finish."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdec.core.errors import LimitError
from cdec.integrations.ray.cluster import quiet_data
from cdec.integrations.ray.journal import new_journal
from cdec.integrations.ray.library import ray_library
from cdec.integrations.ray.worker import PartWorker, Report, table_of_objects
from cdec.integrations.records.counts import Counts

if TYPE_CHECKING:
    from ray.data import Dataset

    from cdec.integrations.ray.parts import Part, PartFolder
    from cdec.integrations.ray.pool import Pool
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
        """How many parts are done."""
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
