"""The file of ``--trace``: what happened at every token of the samples that were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.options.sampling import DrawnOptions as Options
    from cdec.core.sample import Sample
    from cdec.samplers.observer import Observer


class Trace:
    """Where traces go, if anywhere.

    Args:
        append: Writes a line to the file; None writes nothing, and nothing is computed.
    """

    def __init__(self, append: Callable[[Mapping[str, object]], None] | None = None) -> None:
        self._append = append

    def watching(
        self, draw_batch: Callable[..., Any], observer: Observer | None = None
    ) -> Callable[..., Any]:
        """Return a sampler's ``draw_batch`` with somebody who looks on, if traces are written.

        Args:
            draw_batch: Of the sampler.
            observer: Who looks on in any case; None for nobody.
        """
        if self._append is None and observer is None:
            return draw_batch
        from cdec.samplers.scoring.trace import Tracer

        return partial(draw_batch, observer=observer or Tracer())

    def write(self, sample: Sample) -> None:
        """Write the lines of a sample."""
        if self._append is not None:
            for line in sample.trace or ():
                self._append(line)


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
    if path.suffix in (".parquet", ".pq"):
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
    inputs = options.streams
    with open_writer(options.trace, inputs=inputs, force=options.force) as writer:
        yield Trace(writer.write)
