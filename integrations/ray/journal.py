"""Journal of the records under way: it outlives workers, and names the record that ends them.

A worker that dies says nothing. What it had begun stands in the journal: the worker that does its
work again draws those records one by one, and one that ends a worker while it is drawn alone is not
drawn again: it becomes an error object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from cdec.data.prompts.record import BadRecord
from cdec.integrations.ray.library import ray_library
from cdec.integrations.ray.settings import WorkerError

if TYPE_CHECKING:
    from cdec.data.prompts.record import PromptRecord
    from cdec.integrations.records.sampling import RecordSampler
    from cdec.integrations.records.tasks import Done

_Record: TypeAlias = "PromptRecord | BadRecord"


class Journal:
    """Which records of which piece of work are under way; an actor of Ray's."""

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
