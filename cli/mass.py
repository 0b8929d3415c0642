"""``cdec mass``: how much of a model's mass satisfies an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.cli.options.calling import ToolOptions
from cdec.cli.options.constraint import ConstraintOptions, artifact_option
from cdec.cli.options.model import DecodingOptions, ModelOptions, WarpingOptions
from cdec.cli.options.one_line import OneLineOptions
from cdec.cli.options.prompts import BatchFileOptions, PromptOptions
from cdec.cli.options.quoting import SpanOfOptions
from cdec.cli.options.record_sources import (
    RecordSourceOptions,
    check_record_sources,
    record_sources,
)
from cdec.cli.runs import models
from cdec.cli.runs.artifacts import bind_for
from cdec.cli.runs.calls import typed_tools
from cdec.cli.runs.constraints import (
    artifact_for_records,
    named_artifacts,
    read_held,
    typed_constraint,
    warned_of_unused,
)
from cdec.cli.runs.inputs import Prompts, check_prompts
from cdec.cli.runs.loop import Loop, arriving
from cdec.cli.runs.models import check_warping, refuse_revision, warping_of
from cdec.cli.runs.output import checked_tree, for_tree
from cdec.cli.runs.tally import BY_MEASURING, Tally
from cdec.cli.runs.tokenizer import loading
from cdec.core.errors import UsageError
from cdec.core.files.remote import Place
from cdec.integrations.records.resolver import ConstraintResolver
from cdec.integrations.records.tasks import Task, at_temperatures, batches, prepared
from cdec.samplers.options import ROUND

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec mass``, in the order of its help."""

    loading: ModelOptions = group(ModelOptions)
    warping: WarpingOptions = group(WarpingOptions)
    decoding: DecodingOptions = group(DecodingOptions)
    artifact: Place | None = artifact_option()
    one_line: OneLineOptions = group(OneLineOptions)
    calling: ToolOptions = group(ToolOptions)
    held: ConstraintOptions = group(ConstraintOptions)
    quoting: SpanOfOptions = group(SpanOfOptions)
    prompts: PromptOptions = group(PromptOptions)

    candidates: int = option(
        256,
        "Candidates drawn for each prompt; the estimate is their mean.",
        shared.METHOD,
        metavar="N",
        common=True,
    )
    until_converged: float | None = option(
        None,
        "Stop earlier where the certified bounds of the log mass are at most W nats apart; "
        "such a record has bounds and no estimate, since a stopped mean is biased.",
        shared.METHOD,
        metavar="W",
        common=True,
    )
    round: int = option(
        ROUND.default,
        "Candidates that are drawn before a record learns from them; decides results.",
        shared.METHOD,
        metavar="N",
    )
    remember: bool = option(
        True, "Let candidates learn from those before; if not, they are independent.", shared.METHOD
    )
    tree: Path | None = option(
        None,
        "Keep what a single prompt's candidates learnt in this file, and begin with what "
        "it holds, as in cdec sample. Written when all is drawn.",
        shared.METHOD,
        metavar="FILE.arrow",
        typed_only=True,
    )
    failures: shared.FailureOptions = group(shared.FailureOptions)
    json: bool = option(
        False,
        "Print JSON lines on a terminal too, not a table, and the summary as a JSON object.",
        shared.OUTPUT,
        common=True,
    )
    progress: bool | None = shared.progress_option()
    sources: RecordSourceOptions = group(RecordSourceOptions, common=False)


def execute(options: Options, run: Run) -> int:
    """Say how much of a model's mass satisfies an artifact.

    For each prompt one JSON line (on a terminal, one row of a table): `mass`, which is P(S), S
    being sequences of tokens (of a set each member in the tokenizer's own tokens, else every
    tokenisation), with its logarithm and standard error, from --candidates texts drawn as cdec
    sample --method asap draws them; `mass_lower` and `mass_upper`, certified for this model: what
    was found, and what is not excluded, widened by rounding; `log_mass_unclipped`, to average over
    prompts; `length_mass_upper`, an upper bound (estimated) of the share of it beyond the length
    limit. Logarithms are natural.

    A bad record becomes an error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec mass -a json.arrow --prompt "A JSON object:"
      cdec mass -a titles.arrow -i prompts.jsonl --candidates 1000 | jq .mass
      cdec mass -a cities.arrow --and short.arrow --prompt "A city:" --until-converged 0.01
      cdec mass -a sql.arrow --prompt "SELECT" --tree select.arrow
    """
    _check_options(options, run.typed)
    estimator = _estimator(options)
    tree = checked_tree(estimator.tree)
    given = typed_constraint(options, options.prompts.read)
    tools = typed_tools(options, options.prompts.read, options.quoting.given)
    places = named_artifacts(given, options.held, options.quoting)
    prompts = Prompts.open(options.prompts, max_n=_ANY_N)
    records = warned_of_unused(prompts.records(), run, _flags(options))
    if not places.has_artifacts and places.spans is None and tools is None:
        records, artifact = artifact_for_records(records, run, "cdec mass")
        places = named_artifacts(artifact, options.held, options.quoting)
    with run.console.stage("opening artifacts") as progress:
        held = replace(
            read_held(places, options.held, run, progress),
            sources=record_sources(options.sources),
            tools=tools,
            tool_style=options.calling.tool_style,
        )
    records = for_tree(records, tree, held)
    warping = warping_of(options.warping)
    with run.console.stage(loading(options.loading.model)):
        model = models.open_timed(options.loading, run.clock)
    shown, tally = _Shown(options, run.console), Tally()
    with ConstraintResolver(
        held, model, required=not options.held.conjoined, bind=bind_for
    ) as resolver:
        run.console.warn(resolver.take_notices())
        records, is_idle = arriving(
            records,
            options.prompts.streams,
            options.prompts.idle,
            options.decoding.batch_size,
            run.clock,
        )
        tasks = (
            prepared(record.id, partial(_task, options, record, resolver)) for record in records
        )
        loop = Loop(
            work=at_temperatures(model, warping, estimator.run),
            records=partial(_records, tally),
            write=shown.write,
            strict=options.failures.strict or tree is not None,
            max_bad=options.failures.max_bad,
            phase="measuring",
            total=prompts.total,
            model=model,
            json=options.json,
            tally=tally,
        )
        try:
            status = loop.over(batches(tasks, options.decoding.batch_size, is_idle), run)
        finally:
            # What was measured is shown, whatever ended the run.
            shown.finish()
        run.console.warn([*resolver.take_notices(), *prompts.stats.notices])
        run.console.warn(tally.mass_notices(BY_MEASURING))
    return status


_ANY_N = 2**63 - 1
"""How many draws a record asks for does not matter here."""


def _check_options(options: Options, typed: frozenset[str]) -> None:
    check_warping(options.warping)
    refuse_revision(options.loading.model, typed)
    options.quoting.refuse_unused(typed, options.one_line.spans_of)
    if options.tree is not None and not options.remember:
        raise UsageError("--tree keeps what --no-remember forgets", hint="give one of them")
    check_prompts(options.prompts, typed)
    options.calling.refuse_unused(typed)
    check_record_sources(options.prompts, BatchFileOptions(), _flags(options), typed)


def _flags(options: Options) -> tuple[str, ...]:
    """Return the options that give a source in an artifact's place."""
    return *options.one_line.flags, *options.calling.flags


def _estimator(options: Options) -> MassEstimator:
    from cdec.samplers.learning.saved import TreeFile
    from cdec.samplers.scoring.mass_estimator import MassEstimator

    return MassEstimator(
        candidates=options.candidates,
        until_converged=options.until_converged,
        round=options.round,
        remember=options.remember,
        tree=None if options.tree is None else TreeFile(options.tree),
    )


def _task(options: Options, record: PromptRecord | BadRecord, resolver: ConstraintResolver) -> Task:
    """Return what to measure of one record."""
    from cdec.data.prompts.record import BadRecord
    from cdec.samplers.request import Request

    if isinstance(record, BadRecord):
        return Task(record.id, record.error)
    most = options.decoding.max_new_tokens
    prompt, constraint = resolver.of(record, max_new_tokens=most)
    seed = options.decoding.seed if record.seed is None else record.seed
    longest = most if record.max_tokens is None else record.max_tokens
    # One draw: its seed is that from which methods that learn draw all candidates.
    request = Request.numbered(prompt, constraint, id=record.id, seed=seed, max_new_tokens=longest)
    return Task(record.id, request, record.temperature)


def _records(tally: Tally, task: Task, mass: Mass) -> list[dict[str, object]]:
    from cdec.core.constraint import said_of_held

    tally.estimate(mass.log_mass_reliable)
    return [{"id": task.name, **mass.to_json(), **said_of_held(task.request.constraint)}]


class _Shown:
    """Results on stdout: JSON lines, or on a terminal a table at the end."""

    def __init__(self, options: Options, console: Console) -> None:
        self._console = console
        self._rows: list[list[str]] | None = None
        if console.stdout.isatty() and not options.json:
            self._rows = []

    def write(self, record: Mapping[str, Any]) -> None:
        """Print one record, or note it for the table."""
        if self._rows is None:
            print_json(self._console, record)
        else:
            self._rows.append(_row(record))

    def finish(self) -> None:
        """Print the table, if it is one."""
        if self._rows:
            print_columns(self._console, _HEADER, self._rows)


_HEADER = ("id", "mass", "error", "reliable", "lower", "upper", "candidates", "evaluations")


def _row(record: Mapping[str, Any]) -> list[str]:
    """Return a record as cells; the standard error is that of the mass."""
    if "error" in record:
        found: Mapping[str, Any] = record["error"]
        return [str(record["id"]), f"{found['code']}: {found['message']}", *[""] * 6]
    mass, log_error = record["mass"], record["log_mass_se"]
    error = None if mass is None or log_error is None else mass * log_error
    masses = [mass, error, record["mass_lower"], record["mass_upper"]]
    shown = ["-" if value is None else f"{value:.6g}" for value in masses]
    shown.insert(2, {True: "yes", False: "no", None: "-"}[record["log_mass_reliable"]])
    counts = [str(record[name]) for name in ("candidates", "distinct_evaluations")]
    return [str(record["id"]), *shown, *counts]
