"""One run of ``cdec classify``: opens what was typed, classifies in batches, prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.declaration import deciding
from cdec.cli.options.shared import parse_fields, refuse_unused, require_utf8
from cdec.cli.runs import models
from cdec.cli.runs.artifacts import read_held
from cdec.cli.runs.classify.labels import Labels
from cdec.cli.runs.classify.shown import COLUMNS, Shown
from cdec.cli.runs.inputs import Prompts, check_prompts, read_denied
from cdec.cli.runs.loop import Loop, arriving, headed_error, named_error
from cdec.cli.runs.models import check_warping, loading, refuse_revision, warping_of
from cdec.cli.runs.outputs.checks import begun_anew, check_form, require_output
from cdec.cli.runs.recompile import bind_for
from cdec.core.errors import UsageError
from cdec.core.record_fields import fields_of
from cdec.integrations.records.requirements import Requirements
from cdec.integrations.records.tasks import Task, at_temperatures, batches, prepared

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.classifying import ClassifyOptions as Options
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.data.prompts.templates import PromptTemplate
    from cdec.samplers.scoring.classification import Classification
    from cdec.samplers.scoring.classify import Classifier

_ANY_N = 2**63 - 1
"""How many draws a record asks for does not matter here."""


def classify(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status.

    Raises:
        CdecError: What every record would meet; with ``--strict`` the first bad record's own error.
    """
    fields = check_options(options, run.typed)
    form = format_of(options)
    labels = Labels.of(options, run)
    passed_on = form == "jsonl" and (fields is None or "input" in fields)
    keeps_all = options.keep_input
    prompts = Prompts.open(
        options, max_n=_ANY_N, passed_on=passed_on or keeps_all, keeps_all=keeps_all
    )
    classifier = _classifier(options, prompts.template)
    records, paths = labels.paths(prompts.records(), run)
    refuse_output(options, labels.options)
    with run.console.stage("opening artifacts") as progress:
        held = read_held(paths, read_denied(options.deny), options, progress)
    with run.console.stage(loading(options.model)):
        model = models.open_model(options)
    default, notices = labels.compiled(model.vocabulary)
    run.console.warn(notices)
    with (
        Requirements(held, model, required=True, default=default, bind=bind_for) as requirements,
        _opened(options, form, fields) as write,
    ):
        run.console.warn(requirements.take_notices())
        shown = Shown(run.console, form, fields, write)
        loop = Loop(
            work=at_temperatures(model, warping_of(options), classifier.run),
            records=_records,
            write=shown.write,
            failed=headed_error if options.keep_input else named_error,
            strict=options.strict,
            max_bad=options.max_bad,
            phase="classifying",
            total=prompts.total,
            model=model,
        )
        shown.begin()
        records, is_idle = arriving(records, options.streams, options.idle, options.batch_size)
        tasks = (_prepared(record, requirements) for record in records)
        status = loop.over(batches(tasks, options.batch_size, is_idle), run)
        shown.finish()
        run.console.warn([*requirements.take_notices(), *prompts.stats.notices])
    return status


def format_of(options: Options) -> str:
    """Return how results are written: as --format says, or the name of the output."""
    from cdec.data.output.forms import form_of

    if options.output is None:
        return options.format
    return "jsonl" if form_of(options.output).separator is None else "csv"


def refuse_output(options: Options, labels: Options) -> None:
    """Refuse an output that is an input, exists or cannot be, before the model is loaded.

    Args:
        options: As typed.
        labels: With where labels come from.

    Raises:
        UsageError, OutputExistsError, OutputError: It is so.
    """
    if options.output is None:
        return
    files = (labels.label_file, labels.artifact, options.template, options.deny)
    read = [*options.streams, *(str(file) for file in files if file is not None)]
    ways = "replace it with --force, or name another file"
    require_output(options.output, read, options.streams, may_exist=options.force, ways=ways)


@contextmanager
def _opened(
    options: Options, form: str, fields: Sequence[str] | None
) -> Iterator[Callable[[Mapping[str, Any]], None] | None]:
    """Give what writes to the output; None for stdout."""
    if options.output is None:
        yield None
        return
    from cdec.data.output.writer import open_writer

    columns = (COLUMNS if fields is None else fields) if form == "csv" else None
    with (
        begun_anew(),
        open_writer(
            options.output,
            config=deciding(options),
            force=options.force,
            fields=columns,
            keep_input=options.keep_input,
        ) as writer,
    ):
        yield writer.write


def check_options(options: Options, typed: frozenset[str]) -> Sequence[str] | None:
    """Refuse what makes no sense before anything is opened; return the fields to keep, or None.

    Raises:
        UsageError: A value out of range, options that contradict each other, an unknown field.
    """
    check_warping(options)
    refuse_revision(options.model, typed)
    refuse_unused(("lookahead", "heal"), typed, "to cdec classify: labels are whole texts")
    if options.calibrate == "none":
        refuse_unused(("content_free",), typed, "without --calibrate contextual")
    elif options.template is None and not options.content_free:
        raise UsageError(
            "--calibrate contextual needs the prompt without content",
            hint="give the prompts' --template, in whose places N/A will stand, or the whole "
            "prompt: --content-free TEXT",
        )
    if options.output is not None:
        refuse_unused(("format",), typed, "with -o, whose name says how results are written")
        check_form(options.output, keep_input=options.keep_input)
        refuse_parquet(options.output)
    else:
        refuse_unused(("force",), typed, "without -o")
        check_form(None, keep_input=options.keep_input)
    if format_of(options) == "table":
        refuse_unused(("fields",), typed, "with --format table")
    known = COLUMNS if format_of(options) == "csv" else fields_of("classify")
    fields = parse_fields(options.fields, known, "classification")
    check_prompts(options, typed)
    return fields


def refuse_parquet(output: Path) -> None:
    """Refuse Parquet, whose columns are those of samples.

    Raises:
        UsageError: The output is Parquet by its name.
    """
    from cdec.data.output.forms import COLUMNS as PARQUET
    from cdec.data.output.forms import form_of

    if form_of(output).kind == PARQUET:
        raise UsageError(
            f"{output} would be Parquet, which takes samples alone",
            hint="name it .csv or .tsv for a row a label, or .jsonl",
        )


def _classifier(options: Options, template: PromptTemplate | None) -> Classifier:
    from cdec.samplers.scoring.calibration import CONTENT_FREE
    from cdec.samplers.scoring.classify import Classifier

    texts = [require_utf8(text, "--content-free") for text in options.content_free]
    texts = texts or [CONTENT_FREE]
    if template is not None:
        texts = [template.fill(dict.fromkeys(template.fields, text), 0) for text in texts]
    return Classifier(top=options.top, calibrate=options.calibrate, content_free=texts)


def _prepared(record: PromptRecord | BadRecord, requirements: Requirements) -> Task:
    """Return the task of a record; where it cannot be classified, with its error."""
    task = prepared(record.id, partial(_task, record, requirements))
    return replace(task, head={} if record.input is None else {"input": record.input})


def _task(record: PromptRecord | BadRecord, requirements: Requirements) -> Task:
    """Return what to classify of one record.

    Raises:
        CdecError: It cannot be classified.
    """
    from cdec.data.prompts.record import BadRecord
    from cdec.samplers.scoring.classify import ClassifyRequest

    if isinstance(record, BadRecord):
        return Task(record.id, record.error)
    prompt, constraint = requirements.of(record)
    return Task(record.id, ClassifyRequest(prompt, constraint), record.temperature)


def _records(task: Task, found: Classification) -> Iterator[Mapping[str, object]]:
    yield {"id": task.name, **found.to_json(), **task.head}
