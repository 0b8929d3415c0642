"""Options of commands that write an artifact or look into one."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass
from pathlib import Path

from cdec.cli.frame.declaration import CommonOptions, limits, option
from cdec.cli.options import shared
from cdec.cli.options.texts import TextFormatOptions
from cdec.compilers.sets.options import BadLines, LeadingSpace, Normalization, SetLimits
from cdec.core.files.remote import Place
from cdec.data.input.source import ENTITY_LIMITS, InputLimits


@dataclass(frozen=True, kw_only=True)
class CompileOptions(CommonOptions):
    """Where an artifact goes, for which tokenizer it is, and what is said of it."""

    output: Path | None = option(
        None,
        "Artifact to write; if not given the input's name, ending in .arrow, beside it.",
        shared.OUTPUT,
        metavar="FILE",
        common=True,
        typed_only=True,
    )
    tokenizer: str | None = option(
        None,
        "Tokenizer file, folder or hub name; the embedded model's if not given.",
        shared.MODEL,
        metavar="NAME_OR_PATH",
        common=True,
        names_model=shared.names_model,
    )
    model: str | None = shared.model_option()
    revision: str | None = shared.revision_option()
    force: bool = shared.force_option()
    json: bool = shared.json_option()
    progress: bool | None = shared.progress_option()


@dataclass(frozen=True, kw_only=True)
class SetOptions(TextFormatOptions, CompileOptions):
    """Options of ``cdec compile-set``; the documented defaults stand here."""

    source: str = option(
        MISSING, "Entities, one a line; `-` is stdin.", metavar="FILE", positional=True
    )
    id_field: str | None = option(
        None,
        "Field or column with the entity ids; line numbers if not given.",
        shared.INPUT,
        common=True,
    )
    token_ids: bool = option(False, "FILE holds one JSON array of token ids a line.", shared.INPUT)
    bad_lines: BadLines = option(
        "error",
        "What to do with lines that cannot be read or tokenised.",
        shared.INPUT,
        common=True,
    )
    keep_empty: bool = option(False, "A blank line makes the empty text a member.", shared.INPUT)
    deny: Path | None = option(
        None, "Texts to leave out, one a line.", shared.INPUT, metavar="FILE", common=True
    )
    prefix: str = option("", "Text forced before every member.", shared.TOKENS, common=True)
    suffix: str = option(
        "", "Text forced after every member; it ends the sample.", shared.TOKENS, common=True
    )
    leading_space: LeadingSpace = option(
        "auto", "Whether a member begins with a space when tokenised.", shared.TOKENS
    )
    normalize: Normalization = option("none", "Unicode normalisation first.", shared.TOKENS)
    input_limits: InputLimits = limits(ENTITY_LIMITS, shared.LIMITS)
    max_input_bytes: str | None = option(
        None, "Largest input after decompression, such as 64GB.", shared.LIMITS, metavar="SIZE"
    )
    set_limits: SetLimits = limits(SetLimits(), shared.LIMITS)
    memory_limit: str | None = option(
        None, "Sort on disk beyond this much memory, such as 2GB.", shared.LIMITS, metavar="SIZE"
    )


@dataclass(frozen=True, kw_only=True)
class InspectOptions(CommonOptions):
    """Options of ``cdec inspect``; the documented defaults stand here."""

    artifact: Place | None = shared.artifact_argument()
    all: bool = option(
        False, "Show hashes, fingerprints, sizes and columns.", shared.OUTPUT, common=True
    )
    verify: bool = option(
        False,
        "Compile it again from what it holds, and compare all columns and metadata.",
        shared.OUTPUT,
        common=True,
    )
    tree: bool = option(
        False,
        "Show part of a set's trie, or one subterminal tree of a grammar.",
        shared.OUTPUT,
        common=True,
    )
    depth: int = option(3, "Sets: levels of --tree.", shared.OUTPUT, at_least=1, at_most=math.inf)
    width: int = option(
        8,
        "Children a node of --tree; grammars: groups, and tokens a group.",
        shared.OUTPUT,
        at_least=1,
        at_most=math.inf,
    )
    state: int = option(
        0, "Grammars: the scanner state whose tree --tree shows.", shared.OUTPUT, metavar="N"
    )
    json: bool = shared.json_option()
