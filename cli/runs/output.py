"""Output files of a run, refused before a model is loaded: records, trace, tree."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.shared import refuse_among
from cdec.core.errors import OutputError, OutputExistsError, UsageError
from cdec.data.output.forms import LINES, Form, form_of
from cdec.integrations.records.settings import DEFAULT

if TYPE_CHECKING:
    from cdec.cli.options.sampling import OutputOptions
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.integrations.records.drawing import Trace
    from cdec.integrations.records.settings import ConstraintSpecification
    from cdec.samplers.learning.saved import TreeFile


def check_form(output: Path | None, *, keep_input: bool) -> None:
    """Refuse an output whose name says a form that is not written.

    Args:
        output: The file; None for stdout.
        keep_input: Whether rows shall begin with the columns of the input.
    """
    from cdec.data.output.forms import form_of

    form = None if output is None or str(output) == "-" else form_of(output)
    if keep_input and (form is None or form.separator is None):
        raise UsageError(
            "--keep-input begins the rows of a table with the columns of the input, and "
            f"{'stdout' if form is None else output} takes "
            f"{'Parquet' if form is not None and form.kind == 'parquet' else 'lines of JSON'}",
            hint="name a .csv or .tsv with -o; elsewhere `input` holds what the record brought",
        )


def refuse_output(options: Options) -> None:
    """Refuse an output that is an input, that exists or cannot be, before the model is loaded.

    Raises:
        UsageError: The output is one of the files the run reads, or will be.
        OutputExistsError: It is there, and neither ``--force`` nor ``--resume`` was given.
        OutputError: Its folder is not there, or may not be written.
    """
    output, read = options.writing.output_file, inputs(options)
    if options.writing.trace is not None:
        refuse_among(options.writing.trace, read, "trace", "--trace")
        require_folder(options.writing.trace)
    if options.methods.save_counts is not None:
        others = [path for path in read if path != str(options.methods.given.get("counts"))]
        refuse_among(options.methods.save_counts, others, "file of counts", "--save-counts")
        require_folder(options.methods.save_counts)
    if output is not None:
        may_exist = options.writing.force or options.writing.resume
        require_output(output, read, options.prompts.streams, may_exist=may_exist)


def require_output(
    output: Path,
    read: Sequence[str],
    streams: Sequence[str],
    *,
    may_exist: bool,
    ways: str = "continue it with --resume, replace it with --force, or name another file",
) -> None:
    """Refuse one output.

    Args:
        output: As typed.
        read: Files that the run reads.
        streams: Those of its prompts, folders and patterns among them.
        may_exist: Whether it is replaced or gone on with.
        ways: What to do where it exists and may not.
    """
    from cdec.data.output.writer import existing_output
    from cdec.data.prompts.places import would_hold

    for place in streams:
        # The next run would read it.
        if would_hold(place, output):
            raise UsageError(
                f"{output} would be the output and among the inputs {place}",
                hint="name a file in another folder with -o",
            )
    require_folder(output)
    if (there := existing_output(output)) is None:
        return
    refuse_among(there, read, "output", "-o")
    if not may_exist:
        raise OutputExistsError(f"{there} exists", hint=ways, path=str(output))


def require_folder(output: Path) -> None:
    """Refuse a file whose folder is not there or may not be written."""
    folder = output.parent
    if output.exists() or (folder.is_dir() and os.access(folder, os.W_OK)):
        return
    what = "may not be written" if folder.is_dir() else "is not there"
    raise OutputError(
        f"cannot write {output}: its folder {folder} {what}",
        hint="name another file" if folder.is_dir() else f"make it first: mkdir -p {folder}",
        path=str(output),
    )


@contextmanager
def begun_anew() -> Iterator[None]:
    """Let the error of an output that its command cannot resume say how to write it again."""
    try:
        yield
    except OutputError as error:
        error.hint = (error.hint or "").replace("continue with `resume`", "write it with `force`")
        raise


def inputs(options: Options) -> list[str]:
    """Return the files that a run reads."""
    named = [pair.partition("=")[2] for pair in options.held.constraint]
    counts = options.methods.given.get("counts")
    artifacts = (options.artifact, options.calling.tools, *options.one_line.files)
    optional = (*artifacts, options.prompts.template, options.held.deny, counts)
    return [
        *options.prompts.read,
        *named,
        *map(str, options.held.conjoined),
        *(str(path) for path in optional if path is not None),
    ]


def check_trace(options: OutputOptions) -> None:
    """Refuse a trace that would say too little, or stand in the place of something else."""
    path = options.trace
    if path is None:
        return
    if str(path) == "-":
        raise UsageError("--trace is a file, and was given as -", hint="name a file")
    if form_of(path) != Form(LINES):
        raise UsageError("--trace writes JSON lines", hint="name a file that ends in .jsonl")
    if options.resume:
        raise UsageError(
            "--resume leaves out what was drawn before, which a trace would lack",
            hint="give one of them",
        )
    output = options.output_file
    if output is not None and output.resolve() == path.resolve():
        raise UsageError(f"{path} would be the output and the trace", hint="name two files")


@contextmanager
def tracing(options: OutputOptions, inputs: Sequence[str]) -> Iterator[Trace]:
    """Open the file of the trace, if one is asked for.

    Raises:
        OutputExistsError: It is there, and may not be replaced.
        OutputError: It cannot be written.
    """
    from cdec.data.output.writer import open_writer
    from cdec.integrations.records.drawing import Trace

    if options.trace is None:
        yield Trace()
        return
    with open_writer(options.trace, inputs=inputs, force=options.force) as writer:

        def write(line: Mapping[str, object]) -> None:
            with begun_anew():
                writer.write(line)

        yield Trace(write)


def for_tree(
    records: Iterator[PromptRecord | BadRecord],
    tree: TreeFile | None,
    held: ConstraintSpecification,
) -> Iterator[PromptRecord | BadRecord]:
    """Return the records; with a tree there must be no more than one, whose constraint it is of.

    Raises:
        UsageError: More records than one.
        OutputError: The tree could not be written.
    """
    if tree is None:
        return records
    from cdec.data.prompts.read import PromptRecord

    tree.require_writable()
    first, second = next(records, None), next(records, None)
    if second is not None:
        raise UsageError(
            "--tree keeps the tree of one record, and the input holds more",
            hint="give one prompt, or run each record with a --tree of its own",
        )
    if isinstance(first, PromptRecord):
        tree.names = names_of(held, first)
    return iter([] if first is None else [first])


def names_of(held: ConstraintSpecification, record: PromptRecord) -> dict[str, str]:
    """Return what tells a record's constraint from others, by the words of messages."""
    from cdec.samplers.learning.saved import hash_of

    chosen = record.candidates or [list(one) for one in record.narrowed]
    own = {**record.sources, "candidates": chosen}
    restricted = {
        "--and": held.other_digests,
        "--deny": sorted(set(held.denied)),
        "--set": held.set_digests,
        "--span": {name: of.to_json() for name, of in held.quotes.items()},
        "--span-of": None if held.spans is None else held.spans.to_json(),
        "document": _documents(held, record),
    }
    names = {"artifact": held.digests.get(record.constraint or DEFAULT, "")}
    if record.sources:
        names = {}
    names |= {name: hash_of(value) for name, value in (own | restricted).items() if value}
    if held.lookahead is not None:
        names["--lookahead"] = str(held.lookahead)
    prefill = held.prefill_of(record)
    names |= {} if prefill is None else {"--prefill": hash_of(prefill)}
    asked = {
        "--heal": held.heal,
        "--fit": held.fit,
        "--canonical": held.canonical,
        "--templated": held.templated,
    }
    return names | {flag: "yes" for flag, is_asked in asked.items() if is_asked}


def _documents(held: ConstraintSpecification, record: PromptRecord) -> dict[str, object]:
    """Return the documents of a record whose pieces its texts are, by the names of their fields."""
    from cdec.core.schemas.own_keywords import span_fields_in

    names = held.document_fields | span_fields_in(record.schema)
    brought = record.input or {}
    return {name: brought[name] for name in sorted(names) if name in brought}


def checked_tree(
    tree: TreeFile | None, *, output: Path | None = None, resume: bool = False
) -> TreeFile | None:
    """Return the tree of a run, if it keeps one.

    Raises:
        UsageError: ``--resume``, or a tree in the place of the output or of standard output.
    """
    if tree is None:
        return None
    if str(tree.path) == "-":
        raise UsageError("--tree is a file, and was given as -", hint="name a file")
    if resume:
        raise UsageError(
            "--resume would draw a record anew, and --tree holds what it drew before",
            hint="give one of them",
        )
    if output is not None and output.resolve() == tree.path.resolve():
        raise UsageError(f"{output} would be the output and the tree", hint="name two files")
    return tree
