"""The file of ``--trace``: what happened at every token of the samples that were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdec.cli.runs.outputs.checks import begun_anew
from cdec.core.errors import UsageError
from cdec.data.output.forms import LINES, Form, form_of
from cdec.integrations.records.tracing import Trace

if TYPE_CHECKING:
    from cdec.cli.options.sampling import DrawnOptions as Options


def check_trace(options: Options) -> None:
    """Refuse a trace that would say too little, or stand in the place of something else.

    Raises:
        UsageError: It would.
    """
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
def tracing(options: Options) -> Iterator[Trace]:
    """Open the file of the trace, if one is asked for.

    Raises:
        OutputExistsError: It is there, and may not be replaced.
        OutputError: It cannot be written.
    """
    from cdec.data.output.writer import open_writer

    if options.trace is None:
        yield Trace()
        return
    with open_writer(options.trace, inputs=options.streams, force=options.force) as writer:

        def write(line: Mapping[str, object]) -> None:
            with begun_anew():
                writer.write(line)

        yield Trace(write)
