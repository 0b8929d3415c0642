"""Outputs that are refused before a model is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.shared import refuse_among
from cdec.core.errors import OutputError, OutputExistsError, UsageError

if TYPE_CHECKING:
    from cdec.cli.options.sampling import SampleOptions as Options


def check_form(output: Path | None, *, keep_input: bool) -> None:
    """Refuse an output whose name says a form that is not written.

    Args:
        output: The file; None for stdout.
        keep_input: Whether rows shall begin with the columns of the input.

    Raises:
        UsageError: It does, or ``keep_input`` where there are no rows.
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
    output, read = options.output_file, inputs(options)
    if options.trace is not None:
        refuse_among(options.trace, read, "trace", "--trace")
        require_folder(options.trace)
    if options.save_counts is not None:
        others = [path for path in read if path != str(options.given.get("counts"))]
        refuse_among(options.save_counts, others, "file of counts", "--save-counts")
        require_folder(options.save_counts)
    if output is not None:
        may_exist = options.force or options.resume
        require_output(output, read, options.streams, may_exist=may_exist)


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

    Raises:
        UsageError, OutputExistsError, OutputError: As ``refuse_output``.
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
    """Refuse a file whose folder is not there or may not be written.

    Raises:
        OutputError: It is so.
    """
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
    named = [pair.partition("=")[2] for pair in options.constraint]
    optional = (options.artifact, options.template, options.deny, options.given.get("counts"))
    return [
        *(options.prompt_file if options.has_texts else options.input),
        *named,
        *map(str, options.conjoined),
        *(str(path) for path in optional if path is not None),
    ]
