"""One run of ``cdec classify``: opens what was typed, classifies in batches, prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cdec.cli.options.shared import parse_fields, refuse_unused, require_utf8
from cdec.cli.runs import models
from cdec.cli.runs.artifacts import read_held
from cdec.cli.runs.classify.labels import Labels
from cdec.cli.runs.classify.shown import Shown
from cdec.cli.runs.inputs import Prompts, check_prompts, read_denied
from cdec.cli.runs.loop import Loop, arriving
from cdec.cli.runs.models import check_warping, loading, refuse_revision, warping_of
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
    labels = Labels.of(options, run)
    passed_on = options.format == "jsonl" and (fields is None or "input" in fields)
    prompts = Prompts.open(options, max_n=_ANY_N, passed_on=passed_on)
    classifier = _classifier(options, prompts.template)
    records, paths = labels.paths(prompts.records(), run)
    with run.console.stage("opening artifacts") as progress:
        held = read_held(paths, read_denied(options.deny), options, progress)
    with run.console.stage(loading(options.model)):
        model = models.open_model(options)
    default, notices = labels.compiled(model.vocabulary)
    run.console.warn(notices)
    shown = Shown(run.console, options.format, fields)
    with Requirements(held, model, required=True, default=default, bind=bind_for) as requirements:
        run.console.warn(requirements.take_notices())
        loop = Loop(
            work=at_temperatures(model, warping_of(options), classifier.run),
            records=_records,
            write=shown.write,
            strict=options.strict,
            max_bad=options.max_bad,
            phase="classifying",
            total=prompts.total,
            model=model,
        )
        shown.begin()
        records, is_idle = arriving(records, options.streams, options.idle, options.batch_size)
        tasks = (prepared(record.id, partial(_task, record, requirements)) for record in records)
        status = loop.over(batches(tasks, options.batch_size, is_idle), run)
        shown.finish()
        run.console.warn([*requirements.take_notices(), *prompts.stats.notices])
    return status


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
    if options.format != "jsonl":
        refuse_unused(("fields",), typed, f"with --format {options.format}")
    fields = parse_fields(options.fields, fields_of("classify"), "classification")
    check_prompts(options, typed)
    return fields


def _classifier(options: Options, template: PromptTemplate | None) -> Classifier:
    from cdec.samplers.scoring.calibration import CONTENT_FREE
    from cdec.samplers.scoring.classify import Classifier

    texts = [require_utf8(text, "--content-free") for text in options.content_free]
    texts = texts or [CONTENT_FREE]
    if template is not None:
        texts = [template.fill(dict.fromkeys(template.fields, text), 0) for text in texts]
    return Classifier(top=options.top, calibrate=options.calibrate, content_free=texts)


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
    head = {} if record.input is None else {"input": record.input}
    return Task(record.id, ClassifyRequest(prompt, constraint), record.temperature, head)


def _records(task: Task, found: Classification) -> Iterator[Mapping[str, object]]:
    yield {"id": task.name, **found.to_json(), **task.head}
