"""What both compile commands take: the artifact to write, and the tokenizer it is for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options import shared
from cdec.core.errors import OutputExistsError, UsageError


@dataclass(frozen=True, kw_only=True)
class CompileOptions(CommonOptions):
    """Where an artifact goes, for which tokenizer it is, and what is said of it."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Artifact to write; if not given the input's name, ending in .arrow, beside it.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="NAME_OR_PATH",
            help="Tokenizer file, folder or hub name; the embedded model's if not given.",
            rich_help_panel=shared.MODEL,
        ),
    ] = None
    model: shared.ModelOption = None
    revision: shared.RevisionOption = None
    force: shared.ForceOption = False
    json: shared.JsonOption = False
    progress: shared.ProgressOption = None


def require_output(output: Path, source: str, *, force: bool) -> Path:
    """Return where an artifact goes, if it may be written.

    Args:
        output: As typed, or by the input's name.
        source: The input, a path or ``-``.
        force: Whether an existing file is replaced.

    Raises:
        UsageError: The output is the input.
        OutputExistsError: The file is there and ``force`` is off.
    """
    if not output.exists():
        return output
    if source != "-" and Path(source).exists() and output.samefile(source):
        raise UsageError(
            f"{output} is the input and would be the output", hint="name another file with -o"
        )
    if not force and output.is_file():
        raise OutputExistsError(
            f"{output} exists", hint="replace it with --force, or name another file with -o"
        )
    return output


def unnamed_output(what: str, command: str) -> UsageError:
    """Return the error of an input from stdin without ``-o``.

    Args:
        what: The input, such as ``the grammar comes``.
        command: The command that was typed.
    """
    return UsageError(
        f"{what} from stdin and no output was named",
        hint=f"type the artifact's name: cdec {command} - -o NAME.arrow",
    )
