"""From a dataclass of options to a Typer command: the one place that knows Typer's conventions."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cdec.cli.frame.config import FILE_NAME, Config, changed_words, require_confirmed
from cdec.cli.frame.console import Console
from cdec.cli.frame.declaration import (
    NumberOrWord,
    OptionsT,
    options_from,
    parameters_of,
    value_named,
    words_of,
)
from cdec.cli.frame.help import HELP_ALL, HelpAll
from cdec.cli.frame.process import Signals, require_room
from cdec.cli.frame.registry import COMMANDS
from cdec.core.files.remote import Place, place_of
from cdec.core.options import Option
from cdec.core.run_clock import RunClock

EXIT_STATUSES: dict[int, str] = {
    0: "All went well.",
    1: "`cdec check --fail` found a text that is invalid, or `cdec reproduce --strict` a finding "
    "that does not hold.",
    2: "The command line makes no sense.",
    3: "The run went on past records that became error objects, or that are not complete where "
    "`--require-complete` asks for it.",
    65: "Input, an artifact, or what a run resumes is not what it should be; a reward failed "
    "with `--strict`.",
    66: "An input does not exist or cannot be read.",
    69: "A model or an optional package cannot be had, or a model is not trusted.",
    70: "A fault of cdec: run again with `--debug` and report the traceback.",
    73: "An output exists: `--force` replaces it, `--resume` goes on with it.",
    74: "Reading or writing failed.",
    75: "A limit was passed, memory is used up, or another process writes the same output.",
    78: "`cdec.toml`, or a recipe, is wrong.",
    130: "Interrupted (Ctrl-C); what is written is whole.",
    141: "Whoever read the output went away (`| head`).",
    143: "Terminated; what is written is whole.",
}
"""Exit status → what happened; every error class states its own."""


@dataclass
class Run:
    """State that ``main`` and the command share; Typer's context carries it as ``obj``.

    Attributes:
        signals: Handlers of the run.
        console: Output streams; replaced when the options are known.
        words: What was typed after ``cdec``.
        typed: Names of the options that stood on the command line.
        given: Values of these and of those in ``cdec.toml``, by name.
        clock: Of the run's time.
        kept: Returns what a signal leaves behind and how to go on; empty for nothing to say.
        summary: Returns what was done, for the end; empty for nothing to say.
    """

    signals: Signals
    console: Console
    words: tuple[str, ...] = ()
    typed: frozenset[str] = frozenset()
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    clock: RunClock = dataclasses.field(default_factory=RunClock)
    kept: Callable[[], str] = str
    summary: Callable[[], str] = str


SOME_TEXTS_INVALID = 1
"""Exit status of a check that was asked to fail where a text is invalid."""
SOME_DO_NOT_HOLD = 1
"""Exit status of a run that was asked to fail where a finding does not hold."""
SOME_RECORDS_FAILED = 3
"""Exit status of a run that went on past records that became error objects."""


def as_command(
    name: str,
    options_class: type[OptionsT],
    execute: Callable[[OptionsT, Run], int],
) -> Callable[..., int]:
    """Return a function whose signature Typer reads: one parameter a field of the dataclass.

    Values not typed come from ``cdec.toml`` where it has them, else from the dataclass.

    Args:
        name: The command's name, as in ``cdec.toml`` tables.
        options_class: Frozen dataclass, whose fields are options or groups of them.
        execute: Does the work and returns the exit status.
    """

    def function(ctx: typer.Context, **values: Any) -> int:
        run: Run = ctx.obj
        require_room(COMMANDS[name].least_mib)
        values.pop(HELP_ALL, None)
        run.typed = frozenset(field for field in values if _was_typed(ctx, field))
        given = {field: values[field] for field in run.typed}
        config = Config.load()
        configured = config.values(name, options_class, skip=run.typed)
        require_confirmed(config, options_class, configured, bool(given.get("trust_config")))
        run.given = given | configured
        options = options_from(options_class, run.given)
        progress = False if value_named(options, "stream") else value_named(options, "progress")
        run.console = Console(quiet=options.quiet, debug=options.debug, progress=progress)
        run.signals.before_exit = run.console.display.leave
        # A file that was found must not hide what it does: only a typed --quiet does.
        if not given.get("quiet") and (changed := changed_words(options_class, configured)):
            run.console.tell(f"{FILE_NAME}: {changed}")
        if os.environ.get("CDEC_FAULT") == "raise":
            # A fault on purpose: lets a test see that no secret gets into a traceback.
            raise RuntimeError(f"fault asked for, HF_TOKEN={os.environ.get('HF_TOKEN')}")
        # From the first second on: what a command imports may load for long.
        with run.console.stage("working"):
            status = execute(options, run)
        # A signal that the interpreter dropped after the last batch.
        run.signals.checkpoint()
        if summary := run.summary():
            run.console.note(summary)
        return status

    parameters = parameters_of(options_class).values()
    types = {parameter.name: _typer_type(parameter) for parameter in parameters}
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(_signature_parameter(p, types[p.name]) for p in parameters),
            inspect.Parameter(
                HELP_ALL, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll
            ),
        ]
    )
    function.__annotations__ = types | {"ctx": typer.Context, HELP_ALL: HelpAll}
    function.__name__ = name.replace("-", "_")
    function.__doc__ = execute.__doc__
    return function


def _signature_parameter(parameter: Option, annotation: Any) -> inspect.Parameter:
    default = parameter.default
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
        annotation=annotation,
    )


def _typer_type(parameter: Option) -> Any:
    """Return a parameter's type with what Typer is to know of it."""
    kind, parser = _parsed(parameter)
    if parameter.positional:
        info: Any = typer.Argument(
            metavar=parameter.metavar or None, help=parameter.help, parser=parser
        )
        return Annotated[kind, info]
    words = list(words_of(parameter.name))
    if parameter.type is bool and parameter.default is not False:
        words[0] += words[0].replace("--", "/--no-", 1)
    info = typer.Option(
        *words,
        metavar=parameter.metavar or None,
        help=parameter.help,
        rich_help_panel=parameter.panel,
        show_default=parameter.default is not None,
        parser=parser,
    )
    return Annotated[kind, info]


_PLACES: Mapping[Any, Any] = {Place: Path, list[Place]: list[Path]}
"""Types of options that take a path or a URL, and what stands for them: Typer knows no unions."""


def _parsed(option: Option) -> tuple[Any, Callable[[str], Any] | None]:
    """Return the type that Typer is told, and what makes a value of a text; None for Typer."""
    kind = option.type
    parser: Callable[[str], Any] | None = NumberOrWord if kind is NumberOrWord else None
    if kind in _PLACES:
        kind, parser = _PLACES[kind], place_of
    return kind | None if option.default is None else kind, parser


def _was_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
