"""``cdec classify``: the probability of every label for every prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cdec.cli.frame.command import Run
from cdec.cli.frame.console import escape
from cdec.cli.frame.declaration import CommonOptions, deciding, group, option
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.cli.options.constraint import ConstraintOptions, artifact_option
from cdec.cli.options.model import ModelOptions, WarpingOptions, temperature_option
from cdec.cli.options.prompts import PromptOptions
from cdec.cli.options.shared import parse_fields, refuse_unused, require_utf8
from cdec.cli.runs import models
from cdec.cli.runs.artifacts import bind_for
from cdec.cli.runs.constraints import artifact_for_records, named_artifacts, read_held
from cdec.cli.runs.files import require_input
from cdec.cli.runs.inputs import Prompts, check_prompts
from cdec.cli.runs.loop import Loop, arriving, headed_error, named_error
from cdec.cli.runs.models import check_warping, refuse_revision, warping_of
from cdec.cli.runs.output import begun_anew, check_form, require_output
from cdec.cli.runs.tokenizer import loading
from cdec.compilers.sets.options import LeadingSpace
from cdec.core.errors import UsageError
from cdec.core.files.remote import Place
from cdec.core.record_fields import fields_of
from cdec.integrations.records.resolver import ConstraintResolver
from cdec.integrations.records.tasks import Task, at_temperatures, batches, prepared

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.errors import Notice
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.data.prompts.templates import PromptTemplate
    from cdec.integrations.records.settings import ConstraintSpecification
    from cdec.samplers.scoring.classify import Classification, Classifier


LABELS = "Labels"


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec classify``, in the order of its help."""

    loading: ModelOptions = group(ModelOptions)
    temperature: float = temperature_option()
    artifact: Place | None = artifact_option()
    held: ConstraintOptions = group(ConstraintOptions)
    prompts: PromptOptions = group(PromptOptions)

    label_file: str | None = option(
        None,
        "Labels, one a line, or JSONL, CSV, Parquet; or an artifact, ending in .arrow.",
        metavar="LABELS",
        positional=True,
    )
    labels: str | None = option(
        None,
        "Labels between commas; those that hold one go into a file.",
        LABELS,
        metavar="A,B,...",
        common=True,
    )
    field: str | None = option(
        None, "Field or column of LABELS with the texts; `text` if not given.", LABELS
    )
    id_field: str | None = option(
        None, "Field or column of LABELS with the ids; line numbers if not given.", LABELS
    )
    suffix: str = option(
        "", "Text that ends every label, in the place of the end of the text.", LABELS, common=True
    )
    leading_space: LeadingSpace = option(
        "auto", "Whether a label begins with a space when tokenised.", LABELS
    )
    top: int | None = option(
        None,
        "Show the N most probable labels; all if not given.",
        shared.OUTPUT,
        metavar="N",
        at_least=1,
        common=True,
    )
    calibrate: Literal["none", "contextual"] = option(
        "none",
        "`contextual` divides by the labels' probabilities without content.",
        shared.METHOD,
        common=True,
    )
    content_free: list[str] = option(
        [],
        "Stands for content with --calibrate: in the places of the template, or as the whole "
        "prompt without one; repeatable. N/A if not given.",
        shared.METHOD,
        metavar="TEXT",
    )
    batch_size: int = option(
        16, "Prompts classified together; changes no result.", shared.METHOD, at_least=1
    )
    format: Literal["jsonl", "csv", "table"] = option(
        "jsonl", "A record a prompt, or a row a label.", shared.OUTPUT, common=True
    )
    output: Path | None = option(
        None,
        "Write to this file, as its name says: .jsonl, or .csv and .tsv with a row a label; "
        "stdout if not given.",
        shared.OUTPUT,
        metavar="FILE",
        common=True,
        typed_only=True,
    )
    force: bool = shared.force_option()
    keep_input: bool = shared.keep_input_option()
    fields: str | None = shared.fields_option()
    failures: shared.FailureOptions = group(shared.FailureOptions)
    json: bool = shared.json_line_option()
    progress: bool | None = shared.progress_option()


def execute(options: Options, run: Run) -> int:
    """Say how probable each of some labels is, for each prompt.

    Labels are those of --labels, the lines of LABELS, the members of -a ARTIFACT, or the
    `candidates` of a record, which need no artifact. For each prompt one JSON line: `label`, the
    best one; `labels`, each with its `probability` among them, which sum to 1, and its `logprob`;
    `log_mass`, the log of what the model gives to all of them together. All labels go through the
    model at once; nothing is drawn.

    The probability of a label is that of its usual tokens and of the end of the text behind them,
    or of --suffix. Long labels have less than short ones; --calibrate contextual divides by what
    they have without content.

    \b
    Examples:
      cdec classify --labels positive,negative --prompt "Great film. Sentiment:"
      cdec classify labels.txt -i r.jsonl --template r.txt --top 3
      cdec classify labels.txt -i r.jsonl --template r.txt --calibrate contextual
      cdec classify -a titles.arrow -i queries.txt --top 5 --format csv > ranked.csv
      echo '{"prompt": "The capital of France is", "candidates": ["Paris", "Lyon"]}' |
        cdec classify
    """
    fields = check_options(options, run.typed)
    form = format_of(options)
    labels = Labels.of(options, run)
    passed_on = form == "jsonl" and (fields is None or "input" in fields)
    keeps_all = options.keep_input
    prompts = Prompts.open(
        options.prompts, max_n=_ANY_N, passed_on=passed_on or keeps_all, keeps_all=keeps_all
    )
    classifier = _classifier(options, prompts.template)
    records, places = labels.places(prompts.records(), run)
    refuse_output(options, labels.options)
    with run.console.stage("opening artifacts") as progress:
        held = read_held(places, options.held, run, progress)
    with run.console.stage(loading(options.loading.model)):
        model = models.open_timed(options.loading, run.clock)
    default, notices = labels.compiled(model.vocabulary)
    run.console.warn(notices)
    with (
        ConstraintResolver(held, model, required=True, default=default, bind=bind_for) as resolver,
        _opened(options, form, fields) as write,
    ):
        run.console.warn(resolver.take_notices())
        shown = Shown(run.console, form, fields, write)
        loop = Loop(
            work=at_temperatures(model, warping_of(_warping(options)), classifier.run),
            records=_records,
            write=shown.write,
            failed=headed_error if options.keep_input else named_error,
            strict=options.failures.strict,
            max_bad=options.failures.max_bad,
            phase="classifying",
            total=prompts.total,
            model=model,
            json=options.json,
        )
        shown.begin()
        records, is_idle = arriving(
            records, options.prompts.streams, options.prompts.idle, options.batch_size, run.clock
        )
        tasks = (_prepared(record, resolver) for record in records)
        status = loop.over(batches(tasks, options.batch_size, is_idle), run)
        shown.finish()
        run.console.warn([*resolver.take_notices(), *prompts.stats.notices])
    return status


_WAYS = (
    "give --labels A,B,..., a file of labels, -a ARTIFACT, or candidates in the records (with "
    "commas in them, labels go into a file, one a line)"
)
_ARTIFACT = ".arrow"
_OF_TEXTS = ("field", "id_field", "suffix", "leading_space")


@dataclass(frozen=True)
class Labels:
    """The labels of the records that bring none.

    Attributes:
        entities: Texts, or batches of a file's; None where they are an artifact's, or there are
            none.
        options: Of the run, with the artifact that was named in the place of a file.
    """

    entities: Sequence[Any] | None
    options: Options

    @classmethod
    def of(cls, options: Options, run: Run) -> Labels:
        """Read what was typed.

        Raises:
            UsageError: Labels from two places, or an empty one.
            CdecError: The file cannot be read.
        """
        options = _one_source(options, run)
        file = options.label_file
        if options.labels is not None:
            refuse_unused(("field", "id_field"), run.typed, "with --labels")
            return cls(_typed(options.labels), options)
        if file is not None and not file.endswith(_ARTIFACT):
            return cls(_read(options, file), options)
        refuse_unused(_OF_TEXTS, run.typed, "without labels given as texts")
        if file is not None:
            options = replace(options, artifact=Path(file))
        return cls(None, options)

    def places(
        self, records: Iterator[PromptRecord | BadRecord], run: Run
    ) -> tuple[Iterator[PromptRecord | BadRecord], ConstraintSpecification]:
        """Return the records, and the artifacts of the run.

        Raises:
            UsageError: There are no labels anywhere.
        """
        options = self.options
        places = named_artifacts(options.artifact, options.held)
        if self.entities is None and not places.named:
            try:
                records, artifact = artifact_for_records(records, run, "cdec classify")
            except UsageError as error:
                error.message = error.message.replace("needs an artifact", "needs labels", 1)
                error.hint = _WAYS
                raise
            places = named_artifacts(artifact, options.held)
        return records, places

    def compiled(self, vocabulary: Vocabulary) -> tuple[StoredConstraint | None, Sequence[Notice]]:
        """Return the set of the labels that were given as texts, and its warnings.

        Raises:
            CdecError: There are none, or one cannot be tokenised.
        """
        if self.entities is None:
            return None, ()
        from cdec.compilers.sets.compile import compiled_set

        options = self.options
        suffix = require_utf8(options.suffix, "--suffix")
        constraint, report = compiled_set(
            self.entities, vocabulary, suffix=suffix, leading_space=options.leading_space
        )
        return constraint, report.notices


def _one_source(options: Options, run: Run) -> Options:
    """Return the options with labels from one place: what was typed before what cdec.toml says."""
    given = {"label_file": options.label_file, "labels": options.labels}
    given["artifact"] = None if options.artifact is None else str(options.artifact)
    names = [name for name, value in given.items() if value is not None]
    typed = [name for name in names if name in run.typed]
    if len(typed) > 1:
        words = {"label_file": "LABELS", "labels": "--labels", "artifact": "-a"}
        raise UsageError(
            f"labels come from {' and '.join(words[name] for name in typed)}",
            hint="give one of them",
        )
    chosen = (typed or names)[:1]
    dropped: dict[str, Any] = {name: None for name in names if name not in chosen}
    return replace(options, **dropped)


def _typed(text: str) -> list[str]:
    """Return the labels of ``--labels``; spaces around them are not theirs."""
    labels = [label.strip() for label in require_utf8(text, "--labels").split(",")]
    if not all(labels):
        raise UsageError(
            f"--labels is {text!r}, which has an empty label",
            hint="write for example --labels red,green",
        )
    return labels


def _read(options: Options, file: str) -> list[Any]:
    """Return the entities of a file, read whole: so they are refused before a model loads."""
    from cdec.data.entities.source import read_entities

    if file == "-" and "-" in options.prompts.input and not options.prompts.has_texts:
        raise UsageError("labels and prompts both come from stdin", hint="name one of the files")
    require_input(file)
    return list(read_entities(file, field=options.field, id_field=options.id_field))


_ANY_N = 2**63 - 1
"""How many draws a record asks for does not matter here."""


def _warping(options: Options) -> WarpingOptions:
    return WarpingOptions(temperature=options.temperature)


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
    """
    if options.output is None:
        return
    files = (labels.label_file, labels.artifact, options.prompts.template, options.held.deny)
    read = [*options.prompts.streams, *(str(file) for file in files if file is not None)]
    ways = "replace it with --force, or name another file"
    require_output(
        options.output, read, options.prompts.streams, may_exist=options.force, ways=ways
    )


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
    check_warping(_warping(options))
    refuse_revision(options.loading.model, typed)
    refuse_unused(
        ("lookahead", "heal", "fit", "canonical", "templated"),
        typed,
        "to cdec classify: labels are whole texts",
    )
    if options.calibrate == "none":
        refuse_unused(("content_free",), typed, "without --calibrate contextual")
    elif options.prompts.template is None and not options.content_free:
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
    check_prompts(options.prompts, typed)
    return fields


def refuse_parquet(output: Path) -> None:
    """Refuse Parquet, whose columns are those of samples."""
    from cdec.data.output.forms import COLUMNS as PARQUET
    from cdec.data.output.forms import form_of

    if form_of(output).kind == PARQUET:
        raise UsageError(
            f"{output} would be Parquet, which takes samples alone",
            hint="name it .csv or .tsv for a row a label, or .jsonl",
        )


def _classifier(options: Options, template: PromptTemplate | None) -> Classifier:
    from cdec.samplers.scoring.classify import CONTENT_FREE, Classifier

    texts = [require_utf8(text, "--content-free") for text in options.content_free]
    texts = texts or [CONTENT_FREE]
    if template is not None:
        texts = [template.fill(dict.fromkeys(template.fields, text), 0) for text in texts]
    return Classifier(top=options.top, calibrate=options.calibrate, content_free=texts)


def _prepared(record: PromptRecord | BadRecord, resolver: ConstraintResolver) -> Task:
    """Return the task of a record; where it cannot be classified, with its error."""
    task = prepared(record.id, partial(_task, record, resolver))
    return replace(task, head={} if record.input is None else {"input": record.input})


def _task(record: PromptRecord | BadRecord, resolver: ConstraintResolver) -> Task:
    """Return what to classify of one record."""
    from cdec.data.prompts.record import BadRecord
    from cdec.samplers.scoring.classify import ClassifyRequest

    if isinstance(record, BadRecord):
        return Task(record.id, record.error)
    prompt, constraint = resolver.of(record)
    return Task(record.id, ClassifyRequest(prompt, constraint), record.temperature)


def _records(task: Task, found: Classification) -> Iterator[Mapping[str, object]]:
    yield {"id": task.name, **found.to_json(), **task.head}


COLUMNS = ("id", "rank", "label", "label_id", "probability", "logprob", "log_mass", "error")
"""Of CSV; a bad record is one row, with an error and without a label."""
_HEADER = ("id", "label", "probability", "logprob")


class Shown:
    """Writes records in one format.

    Args:
        console: Its stdout is written to.
        format: ``jsonl``, ``csv`` or ``table``.
        fields: Of JSON records, or columns of CSV; None keeps all.
        write: Takes records, or rows of ``format`` csv, in the place of stdout.
    """

    def __init__(
        self,
        console: Console,
        format: str,
        fields: Sequence[str] | None,
        write: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._console = console
        self._format = format
        self._fields = fields
        self._columns = COLUMNS if fields is None else fields
        self._write = write
        self._rows: list[list[str]] = []

    def begin(self) -> None:
        """Write what stands before all records."""
        if self._format == "csv" and self._write is None:
            self._csv(self._columns)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one record, or note it for the table."""
        if self._format == "csv":
            from cdec.data.output.csv_table import cell_of

            for row in rows_of(record):
                if self._write is not None:
                    self._write(row)
                else:
                    self._csv([cell_of(row.get(name), name) for name in self._columns])
        elif self._format == "table":
            self._rows += _cells(record)
        elif self._write is not None:
            self._write(_kept(record, self._fields))
        else:
            print_json(self._console, _kept(record, self._fields))

    def finish(self) -> None:
        """Print the table, if it is one."""
        if self._rows:
            print_columns(self._console, _HEADER, self._rows)

    def _csv(self, row: Sequence[object]) -> None:
        from cdec.data.output.csv_table import row_of

        text = row_of(row)
        # A file gets texts as they are; a terminal none of their control characters.
        self._console.data(escape(text) if self._console.stdout.isatty() else text)


def _kept(record: Mapping[str, Any], fields: Sequence[str] | None) -> Mapping[str, Any]:
    if fields is None or "error" in record:
        return record
    return {name: record[name] for name in fields if name in record}


def rows_of(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row of CSV for each label of a record, by column, and what the record brought."""
    brought = {"input": record["input"]} if "input" in record else {}
    if "error" in record:
        yield {"id": record["id"], "error": record["error"], **brought}
        return
    for rank, label in enumerate(record["labels"], 1):
        yield {
            "id": record["id"],
            "rank": rank,
            "label": label["text"],
            "label_id": label.get("id"),
            "probability": label["probability"],
            "logprob": label["logprob"],
            "log_mass": record["log_mass"],
            **brought,
        }


def _cells(record: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield a row of the table for each label."""
    if "error" in record:
        found = record["error"]
        yield [str(record["id"]), f"{found['code']}: {found['message']}", "", ""]
        return
    for label in record["labels"]:
        shown = ("-" if label[name] is None else label[name] for name in _HEADER[2:])
        numbers = [cell if isinstance(cell, str) else f"{cell:.6g}" for cell in shown]
        yield [str(record["id"]), label["text"], *numbers]
