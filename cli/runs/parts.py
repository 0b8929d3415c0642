"""One run of ``cdec sample --engine ray``: parts are dealt out to workers, reports are counted."""

from __future__ import annotations

import contextlib
import io
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.interruption import NOTHING, in_file
from cdec.cli.frame.progress import plural
from cdec.cli.options.engine import needs_folder
from cdec.cli.options.shared import parse_size
from cdec.cli.runs.output import inputs
from cdec.cli.runs.plan import Plan
from cdec.cli.runs.sample import decided, remedy_of
from cdec.cli.runs.tally import Spent, Tally
from cdec.core.errors import CdecError, Notice, UsageError
from cdec.core.files.remote import place_of
from cdec.core.progress import Stage
from cdec.integrations.records.counts import SAMPLING

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.prompts import PromptOptions
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.core.files.remote import Place
    from cdec.integrations.ray.parts import Part, PartFolder
    from cdec.integrations.ray.run import PartRun
    from cdec.integrations.ray.worker import Report


def sample_parts(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status.

    What can be refused without a model is refused before Ray is started; models are loaded by the
    workers alone.

    Raises:
        ExtraMissingError: Ray is not installed.
        CdecError: As ``cdec sample``, and what ends all workers.
    """
    from cdec.integrations.ray.cluster import Pool, cluster, ray_library
    from cdec.integrations.ray.far_parts import part_folder
    from cdec.integrations.ray.parts import parts_of_records
    from cdec.integrations.ray.run import PartRun
    from cdec.integrations.ray.run import sample_parts as dealt_out
    from cdec.integrations.ray.settings import Settings

    run.kept = lambda: NOTHING
    if options.writing.output is None:
        raise needs_folder()
    plan = Plan.of(options, run.typed)
    if flags := options.one_line.flags:
        raise UsageError(
            f"{flags[0]} is compiled into the cache of this machine, and workers may stand on "
            "others",
            hint="compile it with cdec compile-set, -grammar, -regex or -schema, and name the "
            "artifact with -a",
        )
    parts = _parts(options.prompts, options.writing.output)
    with run.console.stage("opening artifacts") as progress:
        files = _first_of(plan, parts).open_files(run, progress)
    if plan.method.is_measured:
        raise UsageError(
            "--cost-ratio measure times one machine, and workers may stand on others",
            hint="give a number: the cost of a draft's call in calls of the model",
        )
    ray_library()
    settings = Settings.of(plan.settings(files))
    config = decided(plan, files)
    folder = part_folder(
        options.writing.output, options.dealing.part_format, config=config, fields=plan.fields
    )
    folder.prepare(force=options.writing.force, resume=options.writing.resume)
    pool = Pool(
        workers=options.dealing.pool_sizes(),
        cpus=options.dealing.worker_cpus,
        gpus=options.dealing.worker_gpus,
        memory=parse_size(options.dealing.worker_memory, "--worker-memory"),
        retries=options.dealing.retries,
        accelerator=options.dealing.worker_accelerator,
    )
    dealt = parts or parts_of_records(files.records, options.dealing.part_size)
    read = {
        "limits": options.prompts.input_limits,
        "format": options.prompts.input_format,
        "no_header": options.prompts.no_header,
        "shard": options.prompts.chosen_shard,
    }
    reports = _Reports(run, plan, folder, PartRun())
    cpus = None if pool.most is None else max(1, math.ceil(pool.most * pool.cpus))
    with folder.locked(), _silent(options.debug), cluster(options.dealing.ray_address, cpus=cpus):
        reports.follow(dealt_out(dealt, folder, settings, pool, read=read, run=reports.parts))
    run.console.warn(files.prompts.stats.notices)
    return reports.finish()


def _parts(prompts: PromptOptions, output: Place) -> list[Part]:
    """Return a part for each file of the input, where it names a folder or a pattern."""
    from cdec.data.prompts.places import input_files, names_many
    from cdec.integrations.ray.parts import parts_of_files

    if not any(map(names_many, prompts.streams)):
        return []
    refuse_input_folder(prompts, output)
    return parts_of_files(input_files(prompts.streams))


def refuse_input_folder(prompts: PromptOptions, output: Place) -> None:
    """Refuse an output folder whose part files the input would name."""
    from cdec.data.prompts.places import would_hold

    for place in prompts.streams:
        if would_hold(place, place_of(f"{output}/part-00000.jsonl")):
            raise UsageError(
                f"{output} would be the output and is the input", hint="name another folder with -o"
            )


def _first_of(plan: Plan, parts: list[Part]) -> Plan:
    """Return a plan whose input is the first of several files, by which a run is judged."""
    if not parts:
        return plan
    prompts = replace(plan.options.prompts, input=[str(parts[0].source)])
    return replace(plan, options=replace(plan.options, prompts=prompts))


@contextlib.contextmanager
def _silent(is_shown: bool) -> Iterator[None]:
    """Keep what Ray prints away from standard output; it is shown with ``--debug`` alone."""
    with contextlib.redirect_stdout(sys.stderr if is_shown else io.StringIO()):
        yield


@dataclass
class _Reports:
    """What workers told: shown as they report, counted for the end.

    Attributes:
        run: Console and words.
        plan: Of the run.
        folder: Where part files go.
        parts: Of the run.
        tally: Of the parts that were done in this run.
        restarted: Workers that stand in for some that died.
        calls: Of all models.
        seconds: Of each activity of all workers.
    """

    run: Run
    plan: Plan
    folder: PartFolder
    parts: PartRun
    tally: Tally = field(default_factory=Tally)
    restarted: set[str] = field(default_factory=set)
    calls: int = 0
    seconds: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.run.kept = self._kept
        self.run.summary = self._summary

    def _summary(self) -> str:
        """Return what was done so far, as a line: of the activities, what workers told of."""
        own = self.run.clock.seconds(SAMPLING)
        told = {name: self.seconds[name] for name in own} | {"loading": own["loading"]}
        spent = Spent(sum(own.values()), told, self.calls)
        return self.tally.json_line(spent) if self.plan.options.json else self.tally.line(spent)

    def follow(self, reports: Iterable[Report]) -> None:
        """Show how far the parts are, and count what became of them."""
        parts = self.parts
        self.run.clock.begin()
        with self.run.console.stage("sampling", None, "parts", self._note) as tell:
            for report in reports:
                self._take(report)
                tell(Stage("sampling", parts.done, parts.total, "parts"))
                self.run.signals.checkpoint()

    def finish(self) -> int:
        """Say what is to be said of all records; return the exit status."""
        options, console = self.plan.options, self.run.console
        if self.restarted:
            message = (
                f"workers died, and {plural(len(self.restarted), 'others')} took their places: "
                "their parts were done again from the start"
            )
            console.warn([Notice("W_WORKER_DIED", message, {"workers": len(self.restarted)})])
        console.warn(self.tally.mass_notices(remedy_of(self.plan)))
        console.warn(self.tally.notices(required=options.require_complete))
        is_short = options.require_complete and self.tally.incomplete
        # Those of parts that were done before count too.
        has_errors = self.tally.errors or self.parts.before.errors
        return SOME_RECORDS_FAILED if is_short or has_errors else 0

    def _take(self, report: Report) -> None:
        self.tally.add(report.counts)
        self.calls += report.calls
        self.seconds.update(report.seconds)
        if report.is_restarted:
            self.restarted.add(report.worker)
        self.run.console.warn(report.notices)

    def _note(self) -> str:
        return plural(self.tally.records, "records") if self.tally.records else "starting workers"

    def _kept(self) -> str:
        """Return what a signal leaves behind, and how to go on."""
        # subtle: workers may have done more than they have told of yet.
        there: frozenset[str] = frozenset()
        with contextlib.suppress(OSError, CdecError):
            there = self.folder.names()
        done = self.parts.done + len(there & self.parts.waiting.keys())
        if not done:
            return NOTHING
        count = f"{done:,} of {plural(self.parts.total, 'parts')} {'is' if done == 1 else 'are'}"
        from_pipe = "-" in inputs(self.plan.options)
        return in_file(count, self.folder.path, self.run.words, from_pipe=from_pipe)
