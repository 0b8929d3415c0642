"""One run of ``cdec mass``: opens what was typed, measures record by record, prints."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from cdec.cli import sample_run
from cdec.cli.adaptation import Adaptation
from cdec.cli.constraints import Constraints, artifact_paths, verify_artifacts
from cdec.cli.model_options import refuse_revision
from cdec.cli.narrowing import conjoined_paths
from cdec.cli.options import refuse_terminal, require_count
from cdec.cli.pipeline import read_texts
from cdec.cli.prompts import Prompts
from cdec.cli.sampling import Task, batches
from cdec.cli.tables import print_columns, print_json
from cdec.cli.tree import RunConstraint, for_tree, tree_of
from cdec.core.errors import CdecError, ChatTemplateMissingError, UsageError, record_error
from cdec.core.warping import Warping

if TYPE_CHECKING:
    from cdec.cli.command import Run
    from cdec.cli.console import Console
    from cdec.cli.mass import Options
    from cdec.cli.sample_options import SampleOptions
    from cdec.core.model import LanguageModel, Prompt
    from cdec.data.prompts import BadRecord, PromptRecord
    from cdec.samplers.base import Request
    from cdec.samplers.mass_estimator import Mass, MassEstimator

SOME_RECORDS_FAILED = 3
_HOW_TO = (
    "name the artifact: cdec mass -a ARTIFACT (make one with cdec compile-set FILE or "
    "cdec compile-grammar FILE)"
)


def measure(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status."""
    _check_options(options, run.typed)
    estimator = _estimator(options)
    tree = tree_of(estimator)
    paths = artifact_paths(options.artifact, options.constraint)
    conjoined = conjoined_paths(options.conjoined)
    prompts = Prompts.open(cast("SampleOptions", options))
    records = prompts.records()
    if not (paths or conjoined):
        records = _refuse_unconstrained(records)
    denied = list(read_texts(options.deny)) if options.deny else []
    digests = verify_artifacts(paths)
    also = list(verify_artifacts(conjoined).values())
    records = for_tree(records, tree, RunConstraint.of(options, digests, also, denied))
    model = sample_run.open_model(options)
    adaptation = Adaptation(model, lookahead=options.lookahead, heal=options.heal)
    output = _Output(options, run.console, is_strict=options.strict or tree is not None)
    with Constraints(paths, model.vocabulary, denied, None, conjoined) as constraints:
        run.console.warn(constraints.notices)
        tasks = (_task(options, record, constraints, adaptation) for record in records)
        with run.console.progress("records") as progress:
            for batch in batches(tasks, options.batch_size):
                results = _results(options, estimator, model, batch)
                with run.signals.shield():
                    output.write(batch, results)
                run.signals.checkpoint()
                progress.update("measuring", output.written, None)
        output.finish()
        run.console.warn([*constraints.take_notices(), *prompts.stats.notices])
    return SOME_RECORDS_FAILED if output.failed else 0


def _check_options(options: Options, typed: frozenset[str]) -> None:
    for value, least, flag in (
        (options.candidates, 1, "--candidates"),
        (options.round, 1, "--round"),
        (options.batch_size, 1, "--batch-size"),
        (options.max_new_tokens, 1, "--max-new-tokens"),
        (options.lookahead, 0, "--lookahead"),
        (options.max_line_bytes, 1, "--max-line-bytes"),
        (options.seed, 0, "--seed"),
    ):
        require_count(value, least, flag)
    Warping(options.temperature, options.top_k, options.top_p)
    refuse_revision(options.model, typed)
    if options.prompt and "input" in typed:
        raise UsageError("--prompt and --input were both given", hint="give one of them")
    if options.tree is not None and not options.remember:
        raise UsageError("--tree keeps what --no-remember forgets", hint="give one of them")
    has_artifact = options.artifact or options.constraint or options.conjoined
    if options.prompt and not has_artifact:
        raise UsageError("cdec mass needs an artifact", hint=_HOW_TO)
    if not options.prompt and options.input == "-":
        refuse_terminal(
            "prompts (text or JSONL lines)", "give --prompt TEXT or -i FILE, or pipe them in"
        )


def _estimator(options: Options) -> MassEstimator:
    from cdec.samplers.mass_estimator import MassEstimator
    from cdec.samplers.tree_file import TreeFile

    return MassEstimator(
        candidates=options.candidates,
        until_converged=options.until_converged,
        round=options.round,
        remember=options.remember,
        tree=None if options.tree is None else TreeFile(options.tree),
    )


def _refuse_unconstrained(
    records: Iterator[PromptRecord | BadRecord],
) -> Iterator[PromptRecord | BadRecord]:
    """Look at the first record of a run without artifacts: it must bring a grammar of its own."""
    first = next(records, None)
    if first is None or getattr(first, "grammar", None) is None:
        raise UsageError("cdec mass needs an artifact", hint=_HOW_TO)
    return itertools.chain([first], records)


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
    from cdec.data.prompts import BadRecord
    from cdec.data.seeds import derive_seed
    from cdec.samplers.base import Request

    if isinstance(record, BadRecord):
        return Task(record.id, record.error)
    prompt: Prompt = list(record.messages or ()) if record.prompt is None else record.prompt
    try:
        constraint = constraints.of(record, required=not options.conjoined)
        prompt, constraint = adaptation.of(prompt, constraint)
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


def _results(
    options: Options, estimator: MassEstimator, model: LanguageModel, tasks: Sequence[Task]
) -> list[Mass | CdecError]:
    """Return the mass or the error of each task; tasks of one temperature decode together."""
    results: dict[int, Mass | CdecError] = {}
    groups: dict[float, list[int]] = {}
    for i, task in enumerate(tasks):
        if isinstance(task.request, CdecError):
            results[i] = task.request
        else:
            warmth = options.temperature if task.temperature is None else task.temperature
            groups.setdefault(warmth, []).append(i)
    for warmth, members in groups.items():
        view = model.with_warping(warmth, options.top_k, options.top_p)
        requests = [cast("Request", tasks[i].request) for i in members]
        results.update(zip(members, estimator.run(view, requests), strict=True))
    return [results[i] for i in range(len(tasks))]


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
            CdecError: When strict the first bad record's own error; in any case one that every
                record would meet.
        """
        for result in results:
            if isinstance(result, ChatTemplateMissingError):
                raise result
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
