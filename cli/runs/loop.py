"""The one loop of a run, as a person at a terminal meets it: progress, signals, counts, its status.

Results stand in the order of the input, each written whole before a signal takes effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.console import record_error
from cdec.cli.frame.interruption import printed
from cdec.cli.frame.interruption import records as count
from cdec.cli.frame.progress import DIVIDER, plural
from cdec.cli.options.shared import DEFAULT_MAX_BAD
from cdec.cli.runs.tally import Spent, Tally
from cdec.core.errors import LimitError
from cdec.core.progress import Stage
from cdec.data.input.arrivals import Arrivals, never
from cdec.data.input.source import is_awaited
from cdec.integrations.records.tasks import Task, Work, work_off

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.console import Console
    from cdec.core.errors import CdecError
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.run_clock import RunClock

ItemT = TypeVar("ItemT")


def named_error(task: Task, error: CdecError) -> dict[str, object]:
    """Return the object that stands in a failed record's place, which its name tells."""
    return record_error(error, task.name)


def headed_error(task: Task, error: CdecError) -> dict[str, object]:
    """Return such an object with the fields that a result would begin with."""
    return {**record_error(error, task.name), **task.head}


@dataclass
class UnderWay:
    """Progress within the records under way, as a method tells it; of each warning the first.

    Attributes:
        console: Prints warnings at once: they may say that it is not worth waiting.
        said: What progress says of it; empty for nothing.
    """

    console: Console
    said: str = ""
    _warned: set[str] = field(default_factory=set)

    def __call__(self, stage: Stage) -> None:
        """Take what is told."""
        if stage.total:
            share = f"{stage.done / stage.total:.0%} of {plural(stage.total, stage.unit)}"
            self.said = f"{share}{DIVIDER}{stage.note}"
        if stage.notice is not None and stage.notice.code not in self._warned:
            self._warned.add(stage.notice.code)
            self.console.warn([stage.notice])


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Loop of a command over its tasks.

    Attributes:
        work: Done batch by batch.
        records: The records of a task's result.
        write: Takes each record, and each error object.
        failed: Returns the error object of a task.
        strict: Stop at the first bad record.
        max_bad: Bad records that are taken.
        phase: What progress calls the work, and the summary what is neither the model's time nor
            the masks'.
        total: Records there are; None where that is not known.
        model: That works; its calls are shown. None for none.
        json: Whether the summary is a JSON object.
        under_way: Told by a method that takes long for a record; None for none.
        tally: Counts what is done, for the summary; ``records`` tells it more.
        skipped: Returns how many records were left out so far, being done already.
        kept: Returns what a signal leaves behind, and how to go on, from the count of the records
            that are done, as ``1 of 9 records is``.
    """

    work: Work
    records: Callable[[Task, Any], Iterable[Mapping[str, object]]]
    write: Callable[[Mapping[str, object]], None]
    failed: Callable[[Task, CdecError], Mapping[str, object]] = named_error
    strict: bool
    max_bad: int = DEFAULT_MAX_BAD
    phase: str = "working"
    total: int | None = None
    model: LanguageModel | None = None
    json: bool = False
    under_way: UnderWay | None = None
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
            LimitError: More than ``max_bad`` records are bad.
        """
        tally = self.tally
        run.kept = lambda: self.kept(count(tally.records + self.skipped(), self.total))
        from cdec.core.child.judge import JUDGE

        is_traced = False
        JUDGE.take_notices()
        run.clock.begin()
        # The model may have worked for other runs.
        before = self._used()
        run.summary = lambda: self._summary(run.clock, before)
        note = partial(self._note, before)
        with run.console.stage(self.phase, self.total, "records", note) as tell:
            for done in work_off(batches, self.work, self.records, strict=self.strict):
                records = done.records
                if done.error is not None:
                    self._require_few(tally.errors)
                    tally.fail(done.error)
                    # Said once a run: how an error came about that other code raised.
                    if done.error.__cause__ is not None and not is_traced:
                        run.console.traceback(done.error)
                        is_traced = True
                    records = [self.failed(done.task, done.error)]
                # With its last line a record is done: no signal comes between the two.
                for left in reversed(range(len(records))):
                    with run.signals.shield(), run.clock.waiting:
                        self.write(records[-1 - left])
                        tally.records += left == 0
                total = None if self.total is None else self.total - self.skipped()
                tell(Stage(self.phase, tally.records, total, "records"))
                if self.under_way is not None:
                    self.under_way.said = ""
                run.signals.checkpoint()
        run.clock.end()
        run.console.warn(JUDGE.take_notices())
        is_told = run.console.quiet or not tally.has_results
        if is_told and (failure := tally.failure) is not None:
            # Said where nothing else is: the records may lie in a file, and a summary counts them.
            run.console.error(failure[0])
            run.console.tell(failure[1])
        return SOME_RECORDS_FAILED if tally.errors else 0

    def _require_few(self, bad: int) -> None:
        if bad >= self.max_bad:
            raise LimitError(
                f"more than {self.max_bad} records are bad; what was written stays",
                hint="look at the first of them; raise `max_bad` if the input is meant",
                limit=f"max_bad {self.max_bad}",
            )

    def _summary(self, clock: RunClock, before: tuple[int, int]) -> str:
        """Return what was done so far, as a line."""
        seconds = clock.seconds(self.phase)
        spent = Spent(sum(seconds.values()), seconds)
        if self.model is not None:
            calls, tokens = self._used()
            spent = replace(spent, calls=calls - before[0], tokens=tokens - before[1])
        return self.tally.json_line(spent) if self.json else self.tally.line(spent)

    def _used(self) -> tuple[int, int]:
        """Return the calls and tokens of the model so far, whoever made it work."""
        used = None if self.model is None else self.model.total_usage
        return (0, 0) if used is None else (used.calls, used.tokens)

    def _note(self, before: tuple[int, int]) -> str:
        """Return what progress says besides of the work."""
        calls = self._used()[0] - before[0]
        said = self.under_way.said if self.under_way is not None else ""
        pieces = [said, plural(calls, "model calls") if calls else ""]
        return DIVIDER.join(piece for piece in pieces if piece)


def arriving(
    records: Iterator[ItemT], sources: Sequence[str], idle_ms: int, size: int, clock: RunClock
) -> tuple[Iterator[ItemT], Callable[[], bool]]:
    """Return records so that one can tell when none comes for now, and what tells it.

    Args:
        records: Of the input, read from now on.
        sources: Where they come from; none for no stream.
        idle_ms: Milliseconds without a record after which none comes for now.
        size: Of a full batch. subtle: of one record, too: those that failed wait for the next.
        clock: Of the run, which waits for them.
    """
    if not any(map(_is_awaited, sources)):
        return clock.reading(records), never
    arrivals = Arrivals(records, idle_ms / 1000, ahead=size)

    def is_idle() -> bool:
        with clock.waiting:
            return arrivals.is_idle()

    return clock.reading(arrivals), is_idle


def _is_awaited(source: str) -> bool:
    """Whether somebody writes the input while it is read: a pipe, a socket, a device."""
    try:
        return is_awaited(os.fstat(0) if source == "-" else Path(source).stat())
    except OSError:
        return False
