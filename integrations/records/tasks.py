"""Records on their way: tasks in batches, each a result or its own error, in the input's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from cdec.core.errors import CdecError, ChatTemplateMissingError, UsageError
from cdec.data.input.arrivals import never
from cdec.integrations.records.faults import as_cdec_error, is_out_of_memory

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.models.warping import Warping

Work: TypeAlias = Callable[[Sequence["Task"]], Sequence[Any]]
"""Returns a result, or the ``CdecError`` it met, for each task; none has an error for a request."""
Records: TypeAlias = Callable[["Task", Any], Iterable[Mapping[str, object]]]
"""Returns the records of a task's result."""


@dataclass(frozen=True, slots=True)
class Task:
    """One record on its way.

    Attributes:
        name: What an error object calls the record: its id, or its line.
        request: What is to be done; an error where nothing can be done.
        temperature: The record's own; None takes the run's. top_p: The same.
        head: Fields that its results begin with.
        missing: Indices of the draws to write; None writes all.
        stops: Texts at the first of which its texts end.
        ends_run: Whether a usage error of it is the run's, as all its options are.
    """

    name: object
    request: Any
    temperature: float | None = None
    head: Mapping[str, object] = field(default_factory=dict)
    missing: frozenset[int] | None = None
    ends_run: bool = False
    top_p: float | None = None
    stops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A task that was worked on.

    Attributes:
        task: The task.
        error: What kept it from a result; None where nothing did.
        records: Of its result; none where there is an error, whose object takes their place.
        result: What the work gave; None where there is an error.
    """

    task: Task
    error: CdecError | None
    records: Sequence[Mapping[str, object]] = ()
    result: Any = None

    @property
    def ends_run(self) -> bool:
        """True where its error is that of all records: a usage error of the run's own options."""
        return self.task.ends_run and isinstance(self.error, UsageError)


def work_off(
    batches: Iterable[Sequence[Task]], work: Work, records: Records, *, strict: bool
) -> Iterator[Done]:
    """Yield what becomes of each task, in order, batch by batch.

    Args:
        batches: Tasks, those that cannot be done among them; the next batch is asked for when all
            of the one before is done.
        work: Done with all of a batch that can be done together.
        records: The records of a task's result, made when its turn comes.
        strict: Whether the first error of a task ends it all.

    Raises:
        ChatTemplateMissingError: The model has none, which all records would miss.
        CdecError: What ``work`` or ``records`` raised itself, or no memory is left; the error of a
            task that is the run's.
    """
    for batch in batches:
        for done in _batch_done(batch, work, records):
            if done.error is not None and (strict or done.ends_run):
                raise done.error
            yield done


def _batch_done(batch: Sequence[Task], work: Work, records: Records) -> Iterator[Done]:
    """Yield what becomes of each task of a batch."""
    for task, result in zip(batch, _results(batch, work), strict=True):
        if not isinstance(result, CdecError):
            try:
                yield Done(task, None, list(records(task, result)), result)
                continue
            except CdecError:
                raise
            except Exception as error:
                result = own_error(error)
        yield Done(task, result)


def _results(batch: Sequence[Task], work: Work) -> list[Any]:
    """Return a result or an error for each task."""
    doable = [task for task in batch if not isinstance(task.request, CdecError)]
    found = iter(_each_done(work, doable) if doable else ())
    results = [
        task.request if isinstance(task.request, CdecError) else next(found) for task in batch
    ]
    for result in results:
        if isinstance(result, ChatTemplateMissingError):
            raise result
    return results


def own_error(error: Exception) -> CdecError:
    """Return the error of the one record that was being worked on when anything went wrong.

    Raises:
        LimitError: No memory is left, for this record or another.
    """
    if isinstance(error, CdecError):
        return error
    found = as_cdec_error(error)
    if is_out_of_memory(error):
        raise found from error
    found.__cause__ = error
    return found


def prepared(name: object, prepare: Callable[[], Task]) -> Task:
    """Return a record's task, or one with the error that kept it from being made.

    Args:
        name: What an error object calls the record.
        prepare: Makes the task.

    Raises:
        UsageError: An option that goes with no record.
        LimitError: No memory is left.
    """
    try:
        return prepare()
    except UsageError:
        raise
    except Exception as error:
        return Task(name, own_error(error))


def _each_done(work: Work, tasks: Sequence[Task]) -> list[Any]:
    """Do tasks together; where other code fails, find whose fault it is and do the rest together.

    Raises:
        CdecError: What ``work`` raised itself, or no memory is left for one task alone.
    """
    try:
        return list(work(tasks))
    except CdecError:
        raise
    except Exception as error:
        if len(tasks) == 1:
            return [own_error(error)]
    half = len(tasks) // 2
    parts = _each_done(work, tasks[:half]) + _each_done(work, tasks[half:])
    bad = [isinstance(part, CdecError) and part.__cause__ is not None for part in parts]
    good = [task for task, is_bad in zip(tasks, bad, strict=True) if not is_bad]
    if len(good) in (0, len(tasks)):
        return parts
    # Together again: what records that share a prompt say of each other depends on all of them.
    again = iter(_each_done(work, good))
    return [part if is_bad else next(again) for part, is_bad in zip(parts, bad, strict=True)]


def at_temperatures(
    model: LanguageModel,
    warping: Warping,
    work: Callable[[LanguageModel, list[Any]], Sequence[Any]],
    greedy: Callable[[LanguageModel, list[Any]], Sequence[Any]] | None = None,
) -> Work:
    """Return work on tasks that may warp the model in their own way, done together where equal.

    Args:
        model: As it was loaded.
        warping: The run's; a task's own temperature and nucleus stand in the place of its own.
        work: Returns the results of requests, in their order, under a warped model.
        greedy: The same for tasks of a temperature of 0: the most probable tokens of the model at
            temperature 1. None where there are none.
    """

    def done(tasks: Sequence[Task]) -> list[Any]:
        groups: dict[tuple[float, float | None], list[int]] = {}
        for i, task in enumerate(tasks):
            temperature = warping.temperature if task.temperature is None else task.temperature
            top_p = warping.top_p if task.top_p is None else task.top_p
            groups.setdefault((temperature, top_p), []).append(i)
        results: dict[int, Any] = {}
        for (temperature, top_p), members in groups.items():
            is_greedy = greedy is not None and temperature == 0
            view = model.with_warping(1.0 if is_greedy else temperature, warping.top_k, top_p)
            draw = greedy if greedy is not None and is_greedy else work
            found = draw(view, [tasks[i].request for i in members])
            results.update(zip(members, found, strict=True))
        return [results[i] for i in range(len(tasks))]

    return done


def batches(
    tasks: Iterable[Task | None], size: int, is_idle: Callable[[], bool] = never
) -> Iterator[list[Task]]:
    """Cut tasks into batches of ``size`` that can be done; errors travel with their neighbours.

    Args:
        tasks: None where a record asks for nothing.
        size: Of a full batch.
        is_idle: Says whether no further task comes for now: what there is goes on alone then.

    Raises:
        CdecError: What the input raised, after the batch that stands before it.
    """
    batch: list[Task] = []
    doable = 0
    failure: CdecError | None = None
    iterator = iter(tasks)
    while failure is None:
        if batch and is_idle():
            yield batch
            batch, doable = [], 0
        try:
            task = next(iterator)
        except StopIteration:
            break
        except CdecError as error:
            failure = error
            break
        if task is None:
            continue
        batch.append(task)
        doable += not isinstance(task.request, CdecError)
        if doable >= size or len(batch) >= 4 * size:
            yield batch
            batch, doable = [], 0
    if batch:
        yield batch
    if failure is not None:
        raise failure
