"""The one loop of a run: records become tasks, batches go through a function, results come out.

What goes wrong with one record becomes an error object in its place; results stand in the order of
the input, each written whole before a signal takes effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from cdec.cli.endings.kept import printed
from cdec.cli.endings.kept import records as count
from cdec.cli.endings.tally import Tally
from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.faults import as_cdec_error, is_out_of_memory
from cdec.cli.frame.frames import plural
from cdec.cli.frame.typed import record_error
from cdec.core.errors import CdecError, ChatTemplateMissingError, UsageError
from cdec.core.progress import Stage
from cdec.data.input.arrivals import never

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.core.models.base import LanguageModel
    from cdec.core.models.warping import Warping

Work: TypeAlias = Callable[[Sequence["Task"]], Sequence[Any]]
"""Returns a result, or the ``CdecError`` it met, for each task; none has an error for a request."""


@dataclass(frozen=True, slots=True)
class Task:
    """One record on its way.

    Attributes:
        name: What an error object calls the record: its id, or its line.
        request: What is to be done; an error where nothing can be done.
        temperature: The record's own; None takes the run's.
        head: Fields that its results begin with.
        missing: Indices of the draws to write; None writes all.
        ends_run: Whether a usage error of it is the run's, as all its options are.
    """

    name: object
    request: Any
    temperature: float | None = None
    head: Mapping[str, object] = field(default_factory=dict)
    missing: frozenset[int] | None = None
    ends_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Loop:
    """What a command does with its tasks.

    Attributes:
        work: Done batch by batch.
        records: The records of a task's result.
        write: Takes each record, and each error object.
        strict: Stop at the first bad record.
        phase: What progress calls the work.
        total: Records there are; None where that is not known.
        model: That works; its calls are shown. None for none.
        tally: Counts what is done, for the summary; ``records`` tells it more.
        skipped: Returns how many records were left out so far, being done already.
        kept: Returns what a signal leaves behind, and how to go on, from the count of the records
            that are done, as ``1 of 9 records is``.
    """

    work: Work
    records: Callable[[Task, Any], Iterable[Mapping[str, object]]]
    write: Callable[[Mapping[str, object]], None]
    strict: bool
    phase: str = "working"
    total: int | None = None
    model: LanguageModel | None = None
    tally: Tally = field(default_factory=Tally)
    skipped: Callable[[], int] = int
    kept: Callable[[str], str] = printed

    def over(self, batches: Iterable[Sequence[Task]], run: Run) -> int:
        """Carry out batches of tasks.

        Args:
            batches: In the order of the input.
            run: Console and signals.

        Returns:
            The exit status.

        Raises:
            CdecError: With ``strict`` the first bad record's own error, after what stands before
                it; in any case a usage error that is the run's, and a missing chat template, which
                all records would miss.
        """
        tally = self.tally
        run.kept = lambda: self.kept(count(tally.records + self.skipped(), self.total))
        from cdec.core.validity.judge import JUDGE

        is_traced = False
        JUDGE.take_notices()
        run.summary = lambda: tally.line(time.monotonic() - run.started, self._calls())
        with run.console.stage(self.phase, self.total, "records", self._note) as tell:
            for batch in batches:
                for task, found in zip(batch, self._results(batch), strict=True):
                    result, records = self._written(task, found)
                    if isinstance(result, CdecError):
                        if self.strict or (task.ends_run and isinstance(result, UsageError)):
                            raise result
                        tally.errors += 1
                        # Said once a run: how an error came about that other code raised.
                        if result.__cause__ is not None and not is_traced:
                            run.console.traceback(result)
                            is_traced = True
                    # With its last line a record is done: no signal comes between the two.
                    for left in reversed(range(len(records))):
                        with run.signals.shield(), run.console.printing():
                            self.write(records[-1 - left])
                            tally.records += left == 0
                    total = None if self.total is None else self.total - self.skipped()
                    tell(Stage(self.phase, tally.records, total, "records"))
                run.signals.checkpoint()
        run.console.warn(JUDGE.take_notices())
        return SOME_RECORDS_FAILED if tally.errors else 0

    def _calls(self) -> int | None:
        """Return the calls of the model so far."""
        return None if self.model is None else self.model.total_usage.calls

    def _note(self) -> str:
        """Return what progress says besides of the work."""
        calls = self._calls()
        return plural(calls, "model calls") if calls else ""

    def _results(self, batch: Sequence[Task]) -> list[Any]:
        """Return a result or an error for each task."""
        doable = [task for task in batch if not isinstance(task.request, CdecError)]
        found = iter(_each_done(self.work, doable) if doable else ())
        results = [
            task.request if isinstance(task.request, CdecError) else next(found) for task in batch
        ]
        for result in results:
            if isinstance(result, ChatTemplateMissingError):
                raise result
        return results

    def _written(self, task: Task, result: Any) -> tuple[Any, list[Mapping[str, object]]]:
        """Return a result with what is written of it; the error that kept it from being written."""
        if not isinstance(result, CdecError):
            try:
                return result, list(self.records(task, result))
            except CdecError:
                raise
            except Exception as error:
                result = own_error(error)
        return result, [record_error(result, task.name)]


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
) -> Work:
    """Return work on tasks that may ask for temperatures of their own, done together where equal.

    Args:
        model: As it was loaded.
        warping: The run's; a task's own temperature stands in the place of its temperature.
        work: Returns the results of requests, in their order, under a warped model.
    """

    def done(tasks: Sequence[Task]) -> list[Any]:
        groups: dict[float, list[int]] = {}
        for i, task in enumerate(tasks):
            own = task.temperature
            groups.setdefault(warping.temperature if own is None else own, []).append(i)
        results: dict[int, Any] = {}
        for temperature, members in groups.items():
            view = model.with_warping(temperature, warping.top_k, warping.top_p)
            found = work(view, [tasks[i].request for i in members])
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
