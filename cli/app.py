"""The ``cdec`` program: builds the command line, catches every error, gives the exit status."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cdec.cli.frame.command import Run, as_command
from cdec.cli.frame.console import Console
from cdec.cli.frame.help import SectionedCommand, refuse_unknown_command, suggest_file
from cdec.cli.frame.process import (
    BROKEN_PIPE_STATUS,
    Interrupted,
    Signals,
    address_space,
    drop_stdout,
    open_closed_streams,
    use_utf8,
)
from cdec.cli.frame.registry import COMMANDS, execute_of, options_class_of
from cdec.core.errors import CdecError, LimitError, UsageError
from cdec.integrations.records.faults import as_cdec_error

SUMMARY = """Constrained decoding: compile a constraint, draw texts that satisfy it.

\b
  cdec demo                          try it: needs nothing
  cdec compile-set titles.txt        a list of texts, one a line
  cdec sample -a titles.arrow --prompt "What is the capital of France?"
  cdec COMMAND --help                the usual options; --help-all: every one
"""

_COLLECT_AFTER = 200_000
"""Objects that are made before garbage is looked for."""
_HELP = {"help_option_names": ["-h", "--help"]}

# subtle: newer Typer carries its own copy of click, older Typer imports click; the public
# BadParameter leads to the base class of whichever it is.
_PARSER_ERROR: type[Any] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


class LazyGroup(TyperGroup):
    """The commands of the registry, each built when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Build a command; None where there is none of this name."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = build_command(cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names."""
        if not ctx.resilient_parsing:
            refuse_unknown_command(args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under the headings of the registry, one line each."""
        groups: dict[str, list[tuple[str, str]]] = {}
        widest = max(map(len, COMMANDS))
        for name, command in COMMANDS.items():
            groups.setdefault(command.group, []).append((f"{name:<{widest}}", command.summary))
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows)


def build_app() -> typer.Typer:
    """Return the Typer application, whose commands are those of the registry."""
    app = typer.Typer(
        name="cdec",
        help=SUMMARY,
        cls=LazyGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        invoke_without_command=True,
        context_settings=_HELP,
    )
    app.callback()(_top)
    return app


@functools.cache
def build_command(name: str) -> Any:
    """Return the parser's command of this name, built once however often a process runs it."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    function = as_command(name, options_class_of(name), execute_of(name))
    alone.command(name, cls=SectionedCommand, context_settings=_HELP)(function)
    return typer.main.get_command(alone)


def _top(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        print(f"cdec {installed_version('cdec')}")  # noqa: T201  # data: stdout
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        print(ctx.get_help(), file=sys.stderr)  # noqa: T201
        raise typer.Exit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; raises nothing.

    Args:
        arguments: Words after the program's name; None takes the process's.
    """
    # What a command loads stays, and few of its objects are cycles that are left.
    gc.set_threshold(_COLLECT_AFTER)
    open_closed_streams()
    use_utf8()
    with Signals() as signals:
        run = Run(signals, Console())
        try:
            status = _run_app(run, arguments)
            sys.stdout.flush()
        except BaseException as error:  # the one place where every error ends
            signals.finish()
            status = _report(error, run)
            if status == LimitError.exit_status and address_space() is not None:
                # subtle: libraries that were loaded by half crash when they are taken down.
                with contextlib.suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(status)
    return status


def _run_app(run: Run, arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    run.words = tuple(words)
    if words[:1] and words[0] in COMMANDS:
        # Past the group, whose own options Typer would load a validation library for.
        command, name = build_command(words[0]), f"cdec {words[0]}"
        result = command.main(args=words[1:], prog_name=name, standalone_mode=False, obj=run)
    else:
        result = build_app()(args=words, prog_name="cdec", standalone_mode=False, obj=run)
    return result if isinstance(result, int) else 0


def _report(error: BaseException, run: Run) -> int:
    """Print what is to be said of ``error`` and return the exit status."""
    # subtle: the parser turns a broken pipe into SystemExit(1); the cause hangs on it.
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        error = error.__context__
    if isinstance(error, Interrupted):
        return _report_interruption(error, run)
    if isinstance(error, BrokenPipeError):
        drop_stdout()
        return BROKEN_PIPE_STATUS
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    run.console.traceback(error)
    known = _known(error)
    suggest_file(known)
    run.console.error(known)
    if isinstance(error, OSError):
        drop_stdout()
    return known.exit_status


def _report_interruption(error: Interrupted, run: Run) -> int:
    """Print what is kept, and how to go on."""
    # What was said to be printed is, and its last line is whole.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    drop_stdout()
    if summary := run.summary():
        run.console.note(summary)
    kept = run.kept()
    for line in (f"{error.word}: {kept}" if kept else error.word).split("\n"):
        run.console.note(line)
    return error.exit_status


def _known(error: BaseException) -> CdecError:
    if isinstance(error, _PARSER_ERROR):
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", None) or "cdec"
        # Newer Typer names the class of what its own check raised.
        message = " ".join(error.format_message().split()).replace(": Value error, ", ": ")
        return UsageError(message, hint=f"see `{path} --help`")
    return as_cdec_error(error)
