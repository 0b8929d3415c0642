"""What a worker does: model and artifacts are opened once, then parts are drawn and written."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdec.core.errors import CdecError, Notice
from cdec.data.input.source import SourceStats
from cdec.data.prompts.read import read_prompts
from cdec.integrations.ray.journal import Watch
from cdec.integrations.ray.library import ray_library
from cdec.integrations.records.counts import Counts
from cdec.integrations.records.faults import as_cdec_error, error_object

if TYPE_CHECKING:
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.integrations.ray.parts import Part, PartFolder
    from cdec.integrations.ray.settings import Settings
    from cdec.integrations.records.sampling import RecordSampler


def written(
    sampler: RecordSampler,
    records: Iterable[PromptRecord | BadRecord],
    watch: Watch,
    counts: Counts | None = None,
) -> Iterator[Mapping[str, object]]:
    """Yield what is written of records; each is counted before what is written of it comes."""
    for done in watch.work_off(sampler, records):
        if counts is not None:
            counts.note(done)
        if done.error is None:
            yield from done.records
        else:
            yield error_object(done.error, done.task.name)


@dataclass(frozen=True)
class Report:
    """What a worker says of a part.

    Attributes:
        name: Of the part.
        counts: Of its records.
        error: Why it was not done; the run ends with it. None where it was.
        notices: Warnings.
        worker: Tells the worker's process from others.
        is_restarted: Whether it stands in for a worker that died.
        calls: Of the model for this part.
    """

    name: str
    counts: Counts
    error: CdecError | None = None
    notices: list[Notice] = field(default_factory=list)
    worker: str = ""
    is_restarted: bool = False
    calls: int = 0


def table_of_objects(name: str, objects: Iterable[object]) -> pa.Table:
    """Return a table of one column of objects, by which driver and workers tell each other."""
    return pa.table({name: pa.array([pickle.dumps(each) for each in objects], pa.large_binary())})


def _failure(error: Exception) -> CdecError:
    """Return what a driver raises for a worker, with how it came about for who looks for it."""
    failure = as_cdec_error(error)
    if failure is not error:
        failure.add_note("".join(traceback.format_exception(error)))
    return failure


class PartWorker:
    """Writes the part files of a run, and reports on each.

    Args:
        settings: Of the run.
        folder: Where part files go.
        read: Keywords of ``read_prompts`` for parts that are files, which ``RecordSampler`` does
            not know itself.
        journal: Of the run.
    """

    def __init__(
        self, settings: Settings, folder: PartFolder, read: Mapping[str, Any], journal: Any
    ) -> None:
        self._folder, self._read, self._journal = folder, read, journal
        self._sampler: RecordSampler | None = None
        self._failure: CdecError | None = None
        self._stats = SourceStats()
        try:
            self._sampler = settings.opened()
        except Exception as error:
            # subtle: raised here it would reach the driver as Ray's own error, as text.
            self._failure = _failure(error)
        context = ray_library().get_runtime_context()
        self._is_restarted = bool(context.was_current_actor_reconstructed)
        self._name = f"{context.get_node_id()}:{os.getpid()}"

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Write the parts of a batch (one, in general)."""
        parts = map(pickle.loads, batch.column("part").to_pylist())
        return table_of_objects("report", map(self._report, parts))

    def _report(self, part: Part) -> Report:
        told = partial(Report, part.name, worker=self._name, is_restarted=self._is_restarted)
        if self._sampler is None:
            return told(Counts(), error=self._failure)
        calls, self._stats = self._sampler.model.total_usage.calls, SourceStats()
        try:
            # A worker that died may have done it, and not have told.
            counts = self._folder.finished(part) or self._write(self._sampler, part)
        except Exception as error:
            return told(Counts(), error=_failure(error))
        calls = self._sampler.model.total_usage.calls - calls
        notices = [*self._sampler.take_notices(), *self._stats.notices]
        return told(counts, notices=notices, calls=calls)

    def _write(self, sampler: RecordSampler, part: Part) -> Counts:
        counts = Counts()
        records: Iterable[PromptRecord | BadRecord] = part.records
        if part.source is not None:
            records = read_prompts(part.source, stats=self._stats, **sampler.reading, **self._read)
        with self._folder.writing(part, counts) as writer:
            for record in written(sampler, records, Watch(self._journal, part.name), counts):
                writer.write(record)
        return counts
