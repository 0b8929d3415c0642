"""One run of ``cdec mass``: opens what was typed, measures record by record, prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.frame.typed import record_error
from cdec.cli.runs import models
from cdec.cli.runs.adaptation import Adaptation
from cdec.cli.runs.checks import check_prompts, check_warping, warping_of
from cdec.cli.runs.constraints import (
    Constraints,
    artifact_paths,
    needs_artifact,
    refuse_unconstrained,
    verify_artifacts,
)
from cdec.cli.runs.inputs import Prompts, read_denied
from cdec.cli.runs.loop import Task, batches, by_temperature
from cdec.cli.runs.models import refuse_revision
from cdec.cli.runs.narrowing import conjoined_paths
from cdec.cli.runs.tree import RunConstraint, for_tree, tree_of
from cdec.core.errors import CdecError, UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.console import Console
    from cdec.cli.options.scoring import MassOptions as Options
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator

_COMMAND = "cdec mass"
_ANY_N = 2**63 - 1
"""How many draws a record asks for does not matter here."""


def measure(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status."""
    _check_options(options, run.typed)
    estimator = _estimator(options)
    tree = tree_of(estimator)
    paths = artifact_paths(options.artifact, options.constraint)
    conjoined = conjoined_paths(options.conjoined)
    prompts = Prompts.open(options, max_n=_ANY_N)
    records = prompts.records()
    if not (paths or conjoined):
        records = refuse_unconstrained(records, needs_artifact(_COMMAND, _COMMAND))
    denied = read_denied(options.deny)
    digests = verify_artifacts(paths)
    also = list(verify_artifacts(conjoined).values())
    records = for_tree(records, tree, RunConstraint.of(options, digests, also, denied))
    warping = warping_of(options)
    model = models.open_model(options)
    adaptation = Adaptation(model, lookahead=options.lookahead, heal=options.heal)
    output = _Output(options, run.console, is_strict=options.strict or tree is not None)
    with Constraints(paths, model.vocabulary, denied, None, conjoined) as constraints:
        run.console.warn(constraints.notices)
        tasks = (_task(options, record, constraints, adaptation) for record in records)
        with run.console.progress("records") as progress:
            for batch in batches(tasks, options.batch_size):
                results = by_temperature(batch, model, warping, estimator.run)
                with run.signals.shield():
                    output.write(batch, results)
                run.signals.checkpoint()
                progress.update("measuring", output.written, None)
        output.finish()
        run.console.warn([*constraints.take_notices(), *prompts.stats.notices])
    return SOME_RECORDS_FAILED if output.failed else 0


def _check_options(options: Options, typed: frozenset[str]) -> None:
    check_warping(options)
    refuse_revision(options.model, typed)
    if options.tree is not None and not options.remember:
        raise UsageError("--tree keeps what --no-remember forgets", hint="give one of them")
    has_artifact = options.artifact or options.constraint or options.conjoined
    needed = None if has_artifact else needs_artifact(_COMMAND, _COMMAND)
    check_prompts(options, typed, unconstrained=needed)


def _estimator(options: Options) -> MassEstimator:
    from cdec.samplers.learning.saved.file import TreeFile
    from cdec.samplers.scoring.mass_estimator import MassEstimator

    return MassEstimator(
        candidates=options.candidates,
        until_converged=options.until_converged,
        round=options.round,
        remember=options.remember,
        tree=None if options.tree is None else TreeFile(options.tree),
    )


def _task(
    options: Options,
    record: PromptRecord | BadRecord,
    constraints: Constraints,
    adaptation: Adaptation,
) -> Task:
    """Return what to measure of one record.

    Raises:
        UsageError: An option that does not go with the constraint.
    """
    from cdec.data.prompts.read import BadRecord
    from cdec.data.prompts.seeds import derive_seed
    from cdec.samplers.request import Request

    if isinstance(record, BadRecord):
        return Task(record.id, record.error)
    try:
        prompt, constraint = adaptation.of_record(
            record, constraints, required=not options.conjoined
        )
    except UsageError:
        raise
    except CdecError as error:
        return Task(record.id, error)
    seed = options.seed if record.seed is None else record.seed
    longest = options.max_new_tokens if record.max_tokens is None else record.max_tokens
    # The seed of a record's first draw, from which methods that learn draw all candidates.
    seeds = [derive_seed(seed, record.id, 0)]
    request = Request(prompt, constraint, seeds, id=record.id, max_new_tokens=longest)
    return Task(record.id, request, record.temperature)


@dataclass(slots=True)
class _Output:
    """Prints results in the order of the input: JSON lines, or on a terminal a table at the end."""

    options: Options
    console: Console
    is_strict: bool
    failed: int = 0
    written: int = 0
    rows: list[list[str]] | None = None

    def __post_init__(self) -> None:
        if self.console.stdout.isatty() and not self.options.json:
            self.rows = []

    def write(self, tasks: Sequence[Task], results: Sequence[Mass | CdecError]) -> None:
        """Print one batch.

        Raises:
            CdecError: When strict the first bad record's own error.
        """
        for task, result in zip(tasks, results, strict=True):
            self.written += 1
            if isinstance(result, CdecError):
                if self.is_strict:
                    raise result
                self.failed += 1
                self._print(record_error(result, task.id))
            else:
                self._print({"id": task.id, **result.to_json()})

    def finish(self) -> None:
        """Print the table, if it is one."""
        if self.rows:
            print_columns(self.console, _HEADER, self.rows)

    def _print(self, record: Mapping[str, Any]) -> None:
        if self.rows is None:
            print_json(self.console, record)
        else:
            self.rows.append(_row(record))


_HEADER = ("id", "mass", "error", "lower", "upper", "candidates", "evaluations")


def _row(record: Mapping[str, Any]) -> list[str]:
    """Return a record as cells; the standard error is that of the mass."""
    if "error" in record:
        found: Mapping[str, Any] = record["error"]
        return [str(record["id"]), f"{found['code']}: {found['message']}", *[""] * 5]
    mass, log_error = record["mass"], record["log_mass_se"]
    error = None if mass is None or log_error is None else mass * log_error
    masses = [mass, error, record["mass_lower"], record["mass_upper"]]
    shown = ["-" if value is None else f"{value:.6g}" for value in masses]
    counts = [str(record[name]) for name in ("candidates", "distinct_evaluations")]
    return [str(record["id"]), *shown, *counts]
