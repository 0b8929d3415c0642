"""Workers: model and artifacts are opened once, then parts are drawn and written.

A worker that dies says nothing. What it had begun stands in the run's journal, which outlives it:
the worker that does its work again draws those records one by one, and one that ends a worker while
it is drawn alone is not drawn again: it becomes an error object.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import pyarrow as pa

from cdec.core.errors import CdecError, Notice
from cdec.core.run_clock import RunClock
from cdec.data.input.source import SourceStats
from cdec.data.prompts.read import read_prompts
from cdec.data.prompts.record import BadRecord
from cdec.integrations.ray.cluster import ray_library
from cdec.integrations.ray.settings import WorkerError
from cdec.integrations.records.counts import SAMPLING, Counts
from cdec.integrations.records.faults import as_cdec_error, error_object

if TYPE_CHECKING:
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.integrations.ray.parts import Part, PartFolder
    from cdec.integrations.ray.settings import Settings
    from cdec.integrations.records.sampling import RecordSampler
    from cdec.integrations.records.tasks import Done


_Record: TypeAlias = "PromptRecord | BadRecord"


class Journal:
    """Journal of the records of each piece of work that are under way; an actor of Ray's."""

    def __init__(self) -> None:
        self._under_way: dict[str, dict[str, bool]] = {}

    def under_way(self, work: str) -> dict[str, bool]:
        """Return the ids of the records that were begun and not ended; whether each was alone."""
        return self._under_way.get(work, {})

    def note(self, work: str, ended: Sequence[str], begun: Sequence[str], alone: bool) -> None:
        """Note records that ended, and then those that begin."""
        there = self._under_way.setdefault(work, {})
        for name in ended:
            there.pop(name, None)
        there.update(dict.fromkeys(begun, alone))
        if not there:
            del self._under_way[work]

    def all_under_way(self) -> list[str]:
        """Return the ids of all records that were begun and not ended."""
        return [name for there in self._under_way.values() for name in there]


def new_journal() -> Any:
    """Start a journal for a run; it ends with its last handle, and asks for no processor."""
    remote = ray_library().remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    return remote(Journal).remote()


class Watch:
    """One piece of work, done as its journal says.

    Args:
        journal: The actor.
        work: Names the piece of work; the same when it is done again.
    """

    def __init__(self, journal: Any, work: str) -> None:
        self._journal, self._work = journal, work
        self._get = ray_library().get
        self._waiting: deque[str] = deque()
        self._ended: list[str] = []

    def work_off(self, sampler: RecordSampler, records: Iterable[_Record]) -> Iterator[Done]:
        """Yield what becomes of records, as the sampler's ``work_off``."""
        met: dict[str, bool] = self._get(self._journal.under_way.remote(self._work))
        for is_met, group in groupby(records, lambda record: _name(record.id) in met):
            if is_met:
                for record in group:
                    yield from self._alone(sampler, record, met[_name(record.id)])
            else:
                yield from self._watched(sampler, self._begun(group, sampler.batch_size))
        self._note([])

    def _alone(self, sampler: RecordSampler, record: _Record, is_deadly: bool) -> Iterator[Done]:
        if is_deadly:
            yield from sampler.work_off([BadRecord(record.id, record.line, _deadly())])
            return
        self._note([record], alone=True)
        yield from self._watched(sampler, [record])

    def _watched(self, sampler: RecordSampler, records: Iterable[_Record]) -> Iterator[Done]:
        for done in sampler.work_off(records):
            self._end(_name(done.task.name))
            yield done
        # Those that ask for nothing end with the others.
        self._ended += self._waiting
        self._waiting.clear()

    def _begun(self, records: Iterator[_Record], size: int) -> Iterator[_Record]:
        while chunk := list(islice(records, size)):
            self._note(chunk)
            yield from chunk

    def _end(self, name: str) -> None:
        """Note that a record ended, and those that stood before it."""
        while self._waiting:
            ended = self._waiting.popleft()
            self._ended.append(ended)
            if ended == name:
                return

    def _note(self, begun: Sequence[_Record], *, alone: bool = False) -> None:
        """Tell the journal before anything can happen."""
        names = [_name(record.id) for record in begun]
        self._waiting += names
        ended, self._ended = self._ended, []
        self._get(self._journal.note.remote(self._work, ended, names, alone))


def _name(identity: object) -> str:
    return orjson.dumps(identity, default=str).decode()


def _deadly() -> WorkerError:
    return WorkerError(
        "the workers that drew this record ended without a word, the last one beside no other",
        hint="see in Ray's logs what ended them (memory, most often), and give this record by "
        "itself to a machine with more of it",
    )


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
        yield from told(done)


def told(done: Done) -> Sequence[Mapping[str, object]]:
    """Return what is written of a record: its samples, or its error object."""
    return done.records if done.error is None else [error_object(done.error, done.task.name)]


@dataclass(frozen=True)
class Report:
    """Report of a worker on a part.

    Attributes:
        name: Of the part.
        counts: Of its records.
        error: Why it was not done; the run ends with it. None where it was.
        notices: Warnings.
        worker: Tells the worker's process from others.
        is_restarted: Whether it stands in for a worker that died.
        calls: Of the model for this part.
        seconds: Of each activity, for this part.
    """

    name: str
    counts: Counts
    error: CdecError | None = None
    notices: list[Notice] = field(default_factory=list)
    worker: str = ""
    is_restarted: bool = False
    calls: int = 0
    seconds: Counter[str] = field(default_factory=Counter)


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
        self._clock = RunClock()
        try:
            self._sampler = settings.opened(self._clock)
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
        self._clock.begin()
        before = self._clock.seconds(SAMPLING)
        try:
            # A worker that died may have done it, and not have told.
            counts = self._folder.finished(part) or self._write(self._sampler, part)
        except Exception as error:
            return told(Counts(), error=_failure(error))
        calls = self._sampler.model.total_usage.calls - calls
        notices = [*self._sampler.take_notices(), *self._stats.notices]
        seconds = Counter(self._clock.seconds(SAMPLING))
        seconds.subtract(before)
        return told(counts, notices=notices, calls=calls, seconds=seconds)

    def _write(self, sampler: RecordSampler, part: Part) -> Counts:
        counts = Counts()
        records: Iterable[PromptRecord | BadRecord] = part.records
        if part.source is not None:
            records = read_prompts(part.source, stats=self._stats, **sampler.reading, **self._read)
        watch, clock = Watch(self._journal, part.name), self._clock
        with self._folder.writing(part, counts) as writer:
            for record in written(sampler, clock.reading(records), watch, counts):
                with clock.waiting:
                    writer.write(record)
            clock.end()
        return counts
