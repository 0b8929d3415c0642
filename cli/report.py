"""``cdec report``: an evaluation as one page, with plots."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.options import shared
from cdec.cli.options.evaluation import EvaluationOptions
from cdec.cli.options.shared import refuse_among, refuse_terminal, refuse_unused
from cdec.cli.runs.evaluation import evaluated, refuse_stdin_twice
from cdec.core.errors import DataError, UsageError
from cdec.core.files.whole import refuse_existing, whole_file
from cdec.data.input.source import Source, source_name
from cdec.data.reports.plots import FORMS, PLOTS

if TYPE_CHECKING:
    from cdec.data.reports.plots import Plot

_OF_EVALUATIONS = (
    *("references", "target", "compare", "metrics", "at", "hook", "weights"),
    *("resamples", "confidence", "seed"),
)


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec report``; the documented defaults stand here."""

    files: list[str] = option(
        MISSING,
        "What `cdec eval --json` wrote, or samples, which are evaluated; `-` is stdin.",
        metavar="FILE...",
        positional=True,
    )
    output: Path | None = option(
        None,
        "The page; beside the first input if not given, which is needed for stdin.",
        shared.OUTPUT,
        metavar="OUT.html",
        common=True,
        typed_only=True,
    )
    title: str = option("Evaluation", "Of the page.", shared.OUTPUT, metavar="TEXT", common=True)
    plots: bool = option(
        True,
        "Draw plots, and write each as SVG and PNG beside the page; it needs matplotlib.",
        shared.OUTPUT,
        common=True,
    )
    force: bool = shared.force_option()
    evaluation: EvaluationOptions = group(EvaluationOptions)
    progress: bool | None = shared.progress_option()


def execute(options: Options, run: Run) -> int:
    """Write an evaluation as one page, with plots.

    The page is one file that loads nothing and runs nothing: what was evaluated, each metric with
    its interval, reliability, quality against cost, all differences between systems, and what the
    metrics mean. Samples are evaluated as `cdec eval` does, with its options. What a trace holds is
    a page of `cdec trace --html`.

    \b
    Examples:
      cdec report masked.jsonl exact.jsonl --references refs.jsonl -o methods.html
      cdec eval masked.jsonl exact.jsonl --json > eval.json; cdec report eval.json
      cdec report samples.jsonl --no-plots
    """
    if "-" in options.files:
        refuse_terminal("samples", "name a file, or pipe them in")
    refuse_stdin_twice(options.files, options.evaluation)
    output = _output(options)
    places = [output, *(_beside(output, name, form) for name, form in _PICTURES if options.plots)]
    for place in places:
        refuse_among(place, options.files, "page", "--output")
        refuse_existing(place, force=options.force)
    found = _evaluation(options, run)
    with run.console.stage("drawing"):
        _write(found, options, output)
    run.console.note(f"page: {output}")
    return 0


_PICTURES = [(name, form) for name in PLOTS for form in FORMS]


def _output(options: Options) -> Path:
    if options.output is not None:
        if str(options.output) == "-":
            raise UsageError("the page is a file, and was given as -", hint="name a file with -o")
        return options.output
    if options.files[0] == "-":
        raise UsageError("a page of stdin needs a name", hint="give -o OUT.html")
    return Path(options.files[0]).with_suffix(".html")


def _beside(output: Path, name: str, form: str) -> Path:
    return output.with_name(f"{output.stem}.{name}.{form}")


def _evaluation(options: Options, run: Run) -> Mapping[str, Any]:
    """Return the evaluation that was given, or that of the samples."""
    from cdec.data.reports.evaluation import read_evaluation

    with _kept() as kept:
        sources = [_repeatable(file, kept) for file in options.files]
        found = _first(sources[0], options)
        kept.seek(0)
        if "systems" in found:
            if len(sources) > 1:
                raise UsageError(
                    f"{options.files[0]} is an evaluation, and other files were given beside it",
                    hint="give the evaluation alone, or all files of samples",
                )
            refuse_unused(_OF_EVALUATIONS, run.typed, "with an evaluation that was made")
            return read_evaluation(found, source_name(options.files[0]))
        if "position" in found and "choice" in found:
            raise DataError(
                f"{source_name(options.files[0])} is a trace, and no samples",
                hint="write its page with `cdec trace FILE --html OUT.html`",
            )
        return evaluated(sources, options.evaluation, run).to_json()


@contextmanager
def _kept() -> Iterator[BinaryIO]:
    """Open a file for what stdin brings, which is called so."""
    with tempfile.TemporaryFile(buffering=0) as raw:
        raw.name = "stdin"
        yield io.BufferedRandom(raw)


def _repeatable(file: str, kept: BinaryIO) -> Source:
    """Return an input that can be read twice: stdin goes through a file."""
    if file != "-":
        return file
    shutil.copyfileobj(sys.stdin.buffer, kept)
    kept.seek(0)
    return kept


def _first(source: Source, options: Options) -> Mapping[str, Any]:
    """Return the first object of an input; an empty one where there is none."""
    from cdec.data.metrics.records import read_first

    return read_first(source, options.evaluation.input_limits)


def _write(found: Mapping[str, Any], options: Options, output: Path) -> None:
    """Write plots and page, each whole or not at all."""
    from cdec.data.reports.evaluation import page, plots

    drawn: Sequence[Plot] = plots(found) if options.plots else ()
    for plot in drawn:
        for form, drawing in plot.files.items():
            with whole_file(_beside(output, plot.name, form), force=options.force) as file:
                file.write(drawing)
    with whole_file(output, force=options.force) as file:
        for part in page(found, drawn, options.title):
            file.write(part.encode("utf-8", "backslashreplace"))
