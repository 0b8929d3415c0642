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
from cdec.cli.frame.frames import plural
from cdec.cli.frame.typed import record_error
from cdec.core.errors import CdecError, ChatTemplateMissingError, UsageError
from cdec.core.progress import Stage

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
        from cdec.core.grammars.validity.judge import JUDGE

        is_traced = False
        tally = self.tally
        JUDGE.take_notices()
        run.kept = lambda: self.kept(count(tally.records + self.skipped(), self.total))
        run.summary = lambda: tally.line(time.monotonic() - run.started, self._calls())
        with run.console.stage(self.phase, self.total, "records", self._note) as tell:
            for batch in batches:
                for task, result in zip(batch, self._results(batch), strict=True):
                    if isinstance(result, CdecError):
                        if self.strict or (task.ends_run and isinstance(result, UsageError)):
                            raise result
                        tally.errors += 1
                        # Said once a run: how an error came about that other code raised.
                        if result.__cause__ is not None and not is_traced:
                            run.console.traceback(result)
                            is_traced = True
                    records = list(self._records(task, result))
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
        found = iter(self.work(doable) if doable else ())
        results = [
            task.request if isinstance(task.request, CdecError) else next(found) for task in batch
        ]
        for result in results:
            if isinstance(result, ChatTemplateMissingError):
                raise result
        return results

    def _records(self, task: Task, result: Any) -> Iterable[Mapping[str, object]]:
        if isinstance(result, CdecError):
            return [record_error(result, task.name)]
        return self.records(task, result)


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


def batches(tasks: Iterable[Task], size: int) -> Iterator[list[Task]]:
    """Cut tasks into batches of ``size`` that can be done; errors travel with their neighbours.

    Raises:
        CdecError: What the input raised, after the batch that stands before it.
    """
    batch: list[Task] = []
    doable = 0
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
        doable += not isinstance(task.request, CdecError)
        if doable >= size or len(batch) >= 4 * size:
            yield batch
            batch, doable = [], 0
    if batch:
        yield batch
    if failure is not None:
        raise failure
