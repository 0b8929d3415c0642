"""Options of commands that write an artifact or look into one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.options import shared
from cdec.cli.options.texts import TextFormatOptions
from cdec.compilers.sets.report import BadLines, LeadingSpace, Normalization, SetLimits
from cdec.core.errors import UsageError
from cdec.data.input.source import ENTITY_LIMITS, InputLimits


@dataclass(frozen=True, kw_only=True)
class CompileOptions(CommonOptions):
    """Where an artifact goes, for which tokenizer it is, and what is said of it."""

    output: Annotated[
        Path | None,
        Declared(
            "Artifact to write; if not given the input's name, ending in .arrow, beside it.",
            shared.OUTPUT,
            metavar="FILE",
            common=True,
            typed_only=True,
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        Declared(
            "Tokenizer file, folder or hub name; the embedded model's if not given.",
            shared.MODEL,
            metavar="NAME_OR_PATH",
            common=True,
            names_model=shared.names_model,
        ),
    ] = None
    model: shared.ModelOption = None
    revision: shared.RevisionOption = None
    force: shared.ForceOption = False
    json: shared.JsonOption = False
    progress: shared.ProgressOption = None


def require_output(output: Path, source: str) -> Path:
    """Return where an artifact goes.

    Args:
        output: As typed, or by the input's name.
        source: The input, a path or ``-``.

    Raises:
        UsageError: The output is the input.
    """
    if not output.exists():
        return output
    if source != "-" and Path(source).exists() and output.samefile(source):
        raise UsageError(
            f"{output} is the input and would be the output", hint="name another file with -o"
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


@dataclass(frozen=True, kw_only=True)
class SetOptions(TextFormatOptions, CompileOptions):
    """Options of ``cdec compile-set``; the documented defaults stand here."""

    source: Annotated[
        str, Declared("Entities, one a line; `-` is stdin.", metavar="FILE", positional=True)
    ]
    id_field: Annotated[
        str | None,
        Declared(
            "Field or column with the entity ids; line numbers if not given.",
            shared.INPUT,
            common=True,
        ),
    ] = None
    token_ids: Annotated[
        bool,
        Declared("FILE holds one JSON array of token ids a line.", shared.INPUT),
    ] = False
    bad_lines: Annotated[
        BadLines,
        Declared(
            "What to do with lines that cannot be read or tokenised.", shared.INPUT, common=True
        ),
    ] = "error"
    keep_empty: Annotated[
        bool,
        Declared("A blank line makes the empty text a member.", shared.INPUT),
    ] = False
    deny: Annotated[
        Path | None,
        Declared("Texts to leave out, one a line.", shared.INPUT, metavar="FILE", common=True),
    ] = None
    prefix: Annotated[
        str,
        Declared("Text forced before every member.", shared.TOKENS, common=True),
    ] = ""
    suffix: Annotated[
        str,
        Declared("Text forced after every member; it ends the sample.", shared.TOKENS, common=True),
    ] = ""
    leading_space: Annotated[
        LeadingSpace,
        Declared("Whether a member begins with a space when tokenised.", shared.TOKENS),
    ] = "auto"
    normalize: Annotated[
        Normalization,
        Declared("Unicode normalisation first.", shared.TOKENS),
    ] = "none"
    input_limits: Annotated[InputLimits, Limits(shared.LIMITS)] = ENTITY_LIMITS
    max_input_bytes: Annotated[
        str | None,
        Declared("Largest input after decompression, such as 64GB.", shared.LIMITS, metavar="SIZE"),
    ] = None
    set_limits: Annotated[SetLimits, Limits(shared.LIMITS)] = field(default_factory=SetLimits)
    memory_limit: Annotated[
        str | None,
        Declared(
            "Sort on disk beyond this much memory, such as 2GB.", shared.LIMITS, metavar="SIZE"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InspectOptions(CommonOptions):
    """Options of ``cdec inspect``; the documented defaults stand here."""

    artifact: shared.ArtifactArgument = None
    all: Annotated[
        bool,
        Declared("Show hashes, fingerprints, sizes and columns.", shared.OUTPUT, common=True),
    ] = False
    verify: Annotated[
        bool,
        Declared(
            "Compile it again from what it holds, and compare all columns and metadata.",
            shared.OUTPUT,
            common=True,
        ),
    ] = False
    tree: Annotated[
        bool,
        Declared(
            "Show part of a set's trie, or one subterminal tree of a grammar.",
            shared.OUTPUT,
            common=True,
        ),
    ] = False
    depth: Annotated[
        int, Declared("Sets: levels of --tree.", shared.OUTPUT, at_least=1, at_most=math.inf)
    ] = 3
    width: Annotated[
        int,
        Declared(
            "Children a node of --tree; grammars: groups, and tokens a group.",
            shared.OUTPUT,
            at_least=1,
            at_most=math.inf,
        ),
    ] = 8
    state: Annotated[
        int,
        Declared(
            "Grammars: the scanner state whose tree --tree shows.", shared.OUTPUT, metavar="N"
        ),
    ] = 0
    json: shared.JsonOption = False
