"""Options that several commands share, as annotated types; defaults stand in the dataclasses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cdec.core.errors import UsageError

MODEL = "Model"
CONSTRAINT = "Constraint"
PROMPTS = "Prompts"
METHOD = "Method"
TWO_MODELS = "Two models"
REWARDS = "Lookahead with a reward"
OUTPUT = "Output"
LIMITS = "Limits"
INPUT = "Input"
TOKENS = "Tokens"

ArtifactArgument = Annotated[
    Path, typer.Argument(metavar="ARTIFACT", help="An artifact that a compile command wrote.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME_OR_PATH",
        help="Hugging Face model; the embedded one if not given.",
        rich_help_panel=MODEL,
    ),
]
RevisionOption = Annotated[
    str | None,
    typer.Option("--revision", help="Commit, tag or branch of the model.", rich_help_panel=MODEL),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here.", rich_help_panel=OUTPUT),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Replace an existing output file.", rich_help_panel=OUTPUT),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print the summary as one JSON object.", rich_help_panel=OUTPUT),
]
ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show progress on stderr; by default only on a terminal.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Stop at the first bad record.", rich_help_panel=OUTPUT),
]
FieldsOption = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="A,B,...",
        help="Keep these fields of each result.",
        rich_help_panel=OUTPUT,
    ),
]
LookaheadOption = Annotated[
    int | None,
    typer.Option(
        "--lookahead",
        metavar="K",
        help="Grammars: tokens may begin at most K terminals beyond their first; any number if not "
        "given (0 forbids what the model would have written within the grammar).",
        rich_help_panel=CONSTRAINT,
    ),
]
TemplateOption = Annotated[
    Path | None,
    typer.Option(
        "--template",
        metavar="FILE",
        help="Prompt text with {field} places, filled from each prompt record.",
        rich_help_panel=PROMPTS,
    ),
]

LARGEST_COUNT = 2**31 - 1
_ANY_SIZE = frozenset({"--seed", "--max-line-bytes"})
"""Whole numbers that are only hashed or compared."""

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def parse_size(text: str | None, option: str) -> int | None:
    """Return the bytes that ``2GB``, ``512MiB`` or ``1000000`` name; None for None.

    Args:
        text: A number and a unit: k, M, G, T are powers of 1000, with an ``i`` powers of 1024.
        option: The option's name, for the message.

    Raises:
        UsageError: It is no size, or zero.
    """
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    size = 0
    if match is not None:
        number, unit, binary = match.groups()
        base = 1024 if binary else 1000
        size = int(float(number) * base ** ("kmgt".index(unit.lower()) + 1 if unit else 0))
    if size < 1:
        raise UsageError(
            f"{option} is {text!r}, which is no size", hint=f"write for example {option} 2GB"
        )
    return size


def require_utf8(text: str, option: str) -> str:
    """Return an argument's text, read as UTF-8 whatever the locale.

    Raises:
        UsageError: Its bytes are not UTF-8.
    """
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError as error:
        raise UsageError(
            f"{option} is not valid UTF-8 (byte {getattr(error, 'start', 0)})",
            hint="give the text in a file or on stdin",
        ) from error


def refuse_terminal(what: str, hint: str) -> None:
    """Refuse to wait in silence for ``what`` where stdin is a terminal.

    Raises:
        UsageError: It is one.
    """
    if sys.stdin.isatty():
        raise UsageError(f"{what} are awaited on stdin, which is a terminal", hint=hint)


def refuse_unused(fields: Iterable[str], typed: frozenset[str], where: str) -> None:
    """Refuse options that were typed and would change nothing.

    Args:
        fields: Names of the options' fields that mean nothing here.
        typed: Fields that stood on the command line.
        where: Why they mean nothing, such as ``with --token-ids``.

    Raises:
        UsageError: One of them was typed.
    """
    unused = sorted(typed.intersection(fields))
    if unused:
        flags = ", ".join("--" + name.replace("_", "-") for name in unused)
        raise UsageError(f"{flags} means nothing {where}", hint="leave it out")


def require_count(value: float | None, least: float, option: str) -> None:
    """Check the range of a number that samplers compute with; ``LARGEST_COUNT`` is the largest.

    Raises:
        UsageError: It is too small or too large.
    """
    require_at_least(value, least, option)
    if isinstance(value, int) and value > LARGEST_COUNT and option not in _ANY_SIZE:
        raise UsageError(
            f"{option} is {value}, expected at most {LARGEST_COUNT}",
            hint=f"give {option} a smaller number, or leave it out",
        )


def require_at_least(value: float | None, least: float, option: str) -> None:
    """Check an option's range.

    Raises:
        UsageError: It is smaller.
    """
    if value is not None and not value >= least:
        raise UsageError(
            f"{option} is {value}, expected at least {least:g}",
            hint=f"give {option} a number of {least:g} or more, or leave it out",
        )
