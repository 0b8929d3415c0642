"""``cdec trace``: what the constraint did to samples, token by token, from the file of a trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.console import escape
from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.cli.traces.page import page, shown_event, shown_warning
from cdec.cli.traces.read import TracedSample, read_traces
from cdec.core.errors import Notice, UsageError
from cdec.core.files.whole import refuse_existing, whole_file
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, source_name

_HEADER = ("", "token", "P", "Z", "model's own", "P", "struck out", "P", "")


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec trace``; the documented defaults stand here."""

    file: Annotated[
        str,
        Declared("What `--trace` wrote; `-` is stdin.", metavar="FILE", positional=True),
    ]
    html: Annotated[
        Path | None,
        Declared(
            "Write one page for a browser to this file: text coloured by Z, and the "
            "alternatives of each token.",
            shared.OUTPUT,
            metavar="OUT.html",
            common=True,
            typed_only=True,
        ),
    ] = None
    json: Annotated[
        bool,
        Declared(
            "Print one JSON object a sample: sums over its tokens.", shared.OUTPUT, common=True
        ),
    ] = False
    force: shared.ForceOption = False
    input_limits: Annotated[InputLimits, Limits(shared.INPUT)] = PROMPT_LIMITS


def execute(options: Options, run: Run) -> int:
    """Show what the constraint did to samples, token by token.

    FILE is what `cdec sample --trace FILE` wrote. A row a token: its probability under the model, Z
    (the model's mass that the constraint left), what the model would have taken itself, and the
    most probable token that was struck out. The logarithms of Z add up to the sample's
    `log_candidate_weight` where a method draws by masks alone. Below the rows stand the warnings
    of the sample's record: where the model fought the constraint, and where the text loops.

    \b
    Examples:
      cdec sample -a titles.arrow --method masked --prompt "A title: " --trace t.jsonl
      cdec trace t.jsonl
      cdec trace t.jsonl --html t.html
      cdec trace t.jsonl --json | jq .least_log_z
    """
    if options.json and options.html is not None:
        raise UsageError("--json and --html were both given", hint="give one of them")
    if options.html is None and options.force:
        raise UsageError("--force means nothing without --html", hint="leave it out")
    if options.html is not None and str(options.html) == "-":
        raise UsageError("--html is a file, and was given as -", hint="name a file")
    samples = _noticed(read_traces(options.file, options.input_limits), options.file, run)
    if options.html is not None:
        shared.refuse_among(options.html, [options.file], "page", "--html")
        refuse_existing(options.html, force=options.force)
        with whole_file(options.html, force=options.force) as file:
            for part in page(samples):
                file.write(part.encode("utf-8", "backslashreplace"))
        return 0
    _print(samples, options, run)
    return 0


def _noticed(samples: Iterator[TracedSample], file: str, run: Run) -> Iterator[TracedSample]:
    """Yield the samples; warn where there are none."""
    first = next(samples, None)
    if first is None:
        run.console.warn([Notice("W_NO_INPUT", f"{source_name(file)} holds no trace")])
        return
    yield first
    yield from samples


def _print(samples: Iterator[TracedSample], options: Options, run: Run) -> None:
    """Print samples one by one."""
    for number, sample in enumerate(samples):
        if options.json:
            print_json(run.console, sample.summary())
            continue
        if number:
            run.console.data("")
        run.console.data(escape(f"{sample.id} / {sample.index}"))
        print_columns(run.console, _HEADER, [_row(line) for line in sample.lines])
        sums = sample.summary()
        run.console.data(f"log P {_sum(sums['logprob'])}, log Z {_sum(sums['log_z_sum'])}")
        for warning in sample.warnings:
            run.console.data(f"warning: {shown_warning(warning)}")


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a token as cells."""
    choice, struck = line["choice"], line["struck"]
    own = [shown_event(choice), _share(choice["logprob"])]
    if choice["token_id"] == line["token_id"] and line["event"] != "none":
        own = ["same", ""]
    out = [shown_event(struck[0]), _share(struck[0]["logprob"])] if struck else ["", ""]
    first = (
        str(line["position"]),
        shown_event(line),
        _share(line["logprob"]),
        _share(line["log_z"]),
    )
    words = [name for name in ("free", "forced") if line.get(name)]
    return (*first, *own, *out, ", ".join(words))


def _share(log_p: float | None) -> str:
    return "0" if log_p is None else f"{math.exp(min(0.0, log_p)):.3g}"


def _sum(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float | int) else "-"
