"""Options that several commands share, the sections of help, and checks of what is typed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Literal

from cdec.cli.frame.declaration import option
from cdec.core.errors import UsageError
from cdec.core.tokens.locations import is_shipped

MODEL = "Model"
CONSTRAINT = "Constraint"
PROMPTS = "Prompts"
METHOD = "Method"
DRAFTS = "Drafts"
REWARDS = "Rewards"
OUTPUT = "Output"
LIMITS = "Limits"
INPUT = "Input"
TOKENS = "Tokens"

THE_CONSTRAINT = "the constraint"
"""Stands for what an artifact is named for, or a source in its place."""

DEFAULT_IDLE_MS = 50
DEFAULT_MAX_BAD = 10_000
InputFormat = Literal["auto", "lines", "json", "jsonl", "csv", "tsv"]

artifact_argument = partial(
    option,
    None,
    "An artifact, by path or URL; that of cdec.toml, or the only one in this folder, if not given.",
    metavar="ARTIFACT",
    positional=True,
    has_key=True,
    one_of=THE_CONSTRAINT,
)
copy_option = partial(
    option,
    False,
    "Read artifacts into memory; they are mapped from 4 MiB on, and a mapped file that another "
    "program cuts ends the run.",
    CONSTRAINT,
)


def names_model(value: str) -> bool:
    """Say whether a value names a model or tokenizer that does not ship with the package."""
    return not is_shipped(value)


model_option = partial(
    option,
    None,
    "Hugging Face model; the embedded one if not given.",
    MODEL,
    metavar="NAME_OR_PATH",
    common=True,
    names_model=names_model,
)
revision_option = partial(option, None, "Commit, tag or branch of the model.", MODEL, decides=True)
force_option = partial(
    option, False, "Replace an existing output file.", OUTPUT, common=True, typed_only=True
)
json_option = partial(option, False, "Print the summary as one JSON object.", OUTPUT, common=True)
json_line_option = partial(
    option, False, "Print the summary, on stderr, as one JSON object.", OUTPUT
)
progress_option = partial(
    option,
    None,
    "Progress on stderr: a bar on a terminal, elsewhere a line every 30 s; frequent lines if "
    "asked for, none with --no-progress.",
    OUTPUT,
)
idle_option = partial(
    option,
    DEFAULT_IDLE_MS,
    "Milliseconds without a further record after which what a pipe brought is worked on, full "
    "batch or not; changes no result, and nothing for files.",
    PROMPTS,
    metavar="MS",
    at_least=1,
)
keep_input_option = partial(
    option,
    False,
    "CSV and TSV: begin each row with the columns of the input; one that has a result's name "
    "is called input.NAME.",
    OUTPUT,
    decides=True,
)
no_header_option = partial(
    option,
    False,
    "CSV and TSV have no header: their columns are called 1, 2, ... in their order.",
    INPUT,
)
input_format_option = partial(
    option,
    "auto",
    "How the input is read: auto tells Parquet and Arrow by content, JSON and CSV by the name, "
    "and reads all else as lines.",
    PROMPTS,
)
fields_option = partial(
    option,
    None,
    "Keep these fields of each result.",
    OUTPUT,
    metavar="A,B,...",
    decides=True,
    common=True,
)
lookahead_option = partial(
    option,
    None,
    "Grammars: tokens may begin at most K terminals beyond their first; any number if not "
    "given (0 forbids what the model would have written within the grammar).",
    CONSTRAINT,
    metavar="K",
    at_least=0,
    decides=True,
)
template_option = partial(
    option,
    None,
    "Prompt text with {field} places, filled from each prompt record.",
    PROMPTS,
    metavar="FILE",
    common=True,
)


@dataclass(frozen=True, kw_only=True)
class FailureOptions:
    """Treatment of a run whose records are bad."""

    strict: bool = option(False, "Stop at the first bad record.", OUTPUT)
    max_bad: int = option(
        DEFAULT_MAX_BAD,
        "Bad records that a run takes: with one more it ends, and what is written stays.",
        LIMITS,
        at_least=0,
    )


sets_option = partial(
    option,
    [],
    "Set that a schema or grammar holds within it by this name: an artifact of `cdec compile-set`, "
    "of whatever tokenizer; repeatable.",
    CONSTRAINT,
    metavar="NAME=ARTIFACT",
)


def set_words(sets: Sequence[object]) -> list[str]:
    """Return the options that give the sets within an artifact, as its metadata list them."""
    names = [name for name in sets if isinstance(name, str)]
    return [word for name in names for word in ("--set", f"{name}=ARTIFACT")]


def holds_documents(sets: Sequence[object]) -> bool:
    """Say whether some of the sets within an artifact are pieces of records' documents."""
    return any(not isinstance(name, str) for name in sets)


def parse_pairs(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """Return name → value for every ``NAME=VALUE`` of a repeatable option.

    Raises:
        UsageError: No ``=``, an empty part, or a name given twice.
    """
    named: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        expected, example = _PAIRS.get(flag, ("ARTIFACT", "cities=cities.arrow"))
        if not (name and equals and value):
            raise UsageError(
                f"{flag} is {pair!r}, expected NAME={expected}",
                hint=f"write for example {flag} {example}",
            )
        if name in named:
            raise UsageError(f"{flag} names {name!r} twice", hint="give each its own name")
        named[name] = value
    return named


_PAIRS = {"--span": ("FIELD", "QUOTE=context")}
"""What a pair of an option gives, and one for example, where it is no artifact."""


def refuse_among(output: Path, inputs: Iterable[str], what: str, flag: str) -> None:
    """Refuse a file to write that is one of those that are read, whatever its name.

    Args:
        output: As typed.
        inputs: Paths and URLs; ``-`` is stdin.
        what: The output, for the message: ``trace``.
        flag: That names it.
    """
    for path in inputs:
        if output.exists() and path != "-" and Path(path).exists() and output.samefile(path):
            raise UsageError(
                f"{output} would be the {what} and is an input",
                hint=f"name another file with {flag}",
            )


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
    """Refuse to wait in silence for ``what`` where stdin is a terminal."""
    if sys.stdin.isatty():
        raise UsageError(f"{what} are awaited on stdin, which is a terminal", hint=hint)


def refuse_unused(fields: Iterable[str], typed: frozenset[str], where: str) -> None:
    """Refuse options that were typed and would change nothing.

    Args:
        fields: Names of the options' fields that mean nothing here.
        typed: Fields that stood on the command line.
        where: Why they mean nothing, such as ``with --token-ids``.
    """
    unused = sorted(typed.intersection(fields))
    if unused:
        flags = ", ".join("--" + name.replace("_", "-") for name in unused)
        raise UsageError(f"{flags} means nothing {where}", hint="leave it out")


def parse_fields(text: str | None, known: Sequence[str], what: str) -> Sequence[str] | None:
    """Return the names in ``--fields``; None keeps every field.

    Raises:
        UsageError: An unknown name, or none.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise UsageError(
                f"--fields has {name!r}, which no {what} has",
                hint=f"did you mean {close[0]!r}?" if close else ", ".join(known),
            )
    if not names:
        raise UsageError(f"--fields is {text!r}", hint="name the fields to keep")
    return names
