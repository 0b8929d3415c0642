"""The loop of a sampling run: tasks in, batches through a sampler, results out, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from cdec.cli.frame.typed import record_error
from cdec.core.errors import CdecError, ChatTemplateMissingError, UsageError
from cdec.core.models.warping import IDENTITY, Warping

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console
    from cdec.cli.frame.signals import Signals
    from cdec.core.models.base import LanguageModel
    from cdec.core.sample import Sample
    from cdec.data.output.writer import RecordWriter
    from cdec.samplers.base import Sampler
    from cdec.samplers.request import Request

    Result: TypeAlias = Sequence[Sample] | CdecError


@dataclass(frozen=True, slots=True)
class Task:
    """One record on its way.

    Attributes:
        id: The record's id.
        request: What to draw, all draws of the record; an error where nothing can be drawn.
        temperature: The record's own; None takes the run's.
        is_plain: Whether all its options are the run's, so that a usage error is the run's too.
        missing: Indices to write; None writes all.
    """

    id: object
    request: Request | CdecError
    temperature: float | None = None
    is_plain: bool = True
    missing: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Decoder:
    """Draws for batches of tasks.

    Attributes:
        sampler: The method.
        model: What to draw from.
        warping: Of the run; records may have a temperature of their own.
    """

    sampler: Sampler
    model: LanguageModel
    warping: Warping = IDENTITY

    def results(self, tasks: Sequence[Task]) -> list[Result]:
        """Return samples or an error for each task.

        Raises:
            ChatTemplateMissingError: One is missing, and so it is for all records.
        """
        return by_temperature(tasks, self.model, self.warping, self.sampler.draw_batch)


def batches(tasks: Iterable[Task], size: int) -> Iterator[list[Task]]:
    """Cut tasks into batches of ``size`` drawable ones; errors travel with their neighbours.

    Raises:
        CdecError: What the input raised, after the batch that stands before it.
    """
    batch: list[Task] = []
    drawable = 0
    failure: CdecError | None = None
    iterator = iter(tasks)
    while failure is None:
        try:
            task = next(iterator, None)
        except CdecError as error:
            failure = error
            break
        if task is None:
            break
        batch.append(task)
        drawable += not isinstance(task.request, CdecError)
        if drawable >= size or len(batch) >= 4 * size:
            yield batch
            batch, drawable = [], 0
    if batch:
        yield batch
    if failure is not None:
        raise failure


@dataclass(slots=True)
class Output:
    """Writes results in the order of the input and counts what failed.

    Attributes:
        writer: Where records go.
        signals: A record is written whole before a signal takes effect.
        fields: Keys to keep of each sample; None keeps all.
        strict: Stop at the first bad record.
        console: Told, once a run, how an error came about that other code raised; None for none.
        failed: Records that became error objects.
    """

    writer: RecordWriter
    signals: Signals
    fields: Sequence[str] | None = None
    strict: bool = False
    console: Console | None = None
    failed: int = 0
    _is_traced: bool = False

    def write(self, tasks: Sequence[Task], results: Sequence[Result]) -> None:
        """Write one batch.

        Raises:
            CdecError: With ``strict`` the first bad record's own error, after what stands before
                it; in any case a usage error that is the run's.
        """
        for task, result in zip(tasks, results, strict=True):
            if not isinstance(result, CdecError):
                self._write_samples(task, result)
                continue
            if self.strict or (isinstance(result, UsageError) and task.is_plain):
                raise result
            self.failed += 1
            record = record_error(result, task.id)
            self._trace(result)
            self._write_record(record)

    def _trace(self, error: CdecError) -> None:
        if self.console is not None and error.__cause__ is not None and not self._is_traced:
            self._is_traced = True
            self.console.traceback(error)

    def _write_samples(self, task: Task, samples: Sequence[Sample]) -> None:
        for sample in samples:
            if task.missing is None or sample.index in task.missing:
                self._write_record(sample.to_json(self.fields))

    def _write_record(self, record: dict[str, object]) -> None:
        with self.signals.shield():
            self.writer.write(record)


ResultT = TypeVar("ResultT")


class WarmTask(Protocol):
    """A record on its way."""

    @property
    def request(self) -> object:
        """What a sampler or scorer takes, or the error that the record met."""

    @property
    def temperature(self) -> float | None:
        """The record's own; None takes the run's."""


def by_temperature(
    tasks: Sequence[WarmTask],
    model: LanguageModel,
    warping: Warping,
    work: Callable[[LanguageModel, list[Any]], Sequence[ResultT | CdecError]],
) -> list[ResultT | CdecError]:
    """Return a result or an error for each task; tasks of one temperature are done together.

    Args:
        tasks: In any order.
        model: As it was loaded.
        warping: The run's; a task's own temperature stands in the place of its temperature.
        work: Returns the results of requests, in their order, under a warped model.

    Raises:
        ChatTemplateMissingError: One is missing, and so it is for all records.
    """
    results: dict[int, ResultT | CdecError] = {}
    groups: dict[float, list[int]] = {}
    for i, task in enumerate(tasks):
        if isinstance(task.request, CdecError):
            results[i] = task.request
        else:
            warmth = warping.temperature if task.temperature is None else task.temperature
            groups.setdefault(warmth, []).append(i)
    for warmth, members in groups.items():
        view = model.with_warping(warmth, warping.top_k, warping.top_p)
        found = work(view, [tasks[i].request for i in members])
        results.update(zip(members, found, strict=True))
    ordered = [results[i] for i in range(len(tasks))]
    for result in ordered:
        if isinstance(result, ChatTemplateMissingError):
            raise result
    return ordered
