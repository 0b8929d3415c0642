"""The options of ``cdec check`` and ``cdec inspect``, which read an artifact and load no model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options import shared
from cdec.cli.options.texts import TextFormatOptions


@dataclass(frozen=True, kw_only=True)
class CheckOptions(TextFormatOptions):
    """Options of ``cdec check``; the documented defaults stand here."""

    artifact: shared.ArtifactArgument = None
    input: Annotated[
        str,
        Declared("Texts, one a line; `-` is stdin.", shared.INPUT, metavar="FILE", common=True),
    ] = "-"
    whole: Annotated[
        bool,
        Declared(
            "The input is one text; one newline at its end is not part of it.",
            shared.INPUT,
            common=True,
        ),
    ] = False
    token_ids: Annotated[
        bool,
        Declared("The input is one JSON array of token ids a line.", shared.INPUT),
    ] = False
    allowed: Annotated[
        int,
        Declared(
            "How many of the continuations that were allowed to show.",
            shared.OUTPUT,
            at_least=0,
            at_most=math.inf,
        ),
    ] = 10
    copy: shared.CopyOption = False
    lookahead: shared.LookaheadOption = None
    explain: Annotated[
        bool,
        Declared("Grammars: step through one text, token by token.", shared.OUTPUT, common=True),
    ] = False
    tokenizer: Annotated[
        str | None,
        Declared(
            "Cuts the text of --explain; the longest tokens from the left if not given.",
            shared.MODEL,
            metavar="NAME_OR_PATH",
        ),
    ] = None
    json: Annotated[
        bool,
        Declared("Print --explain as JSON lines.", shared.OUTPUT),
    ] = False
    fail: Annotated[
        bool,
        Declared("End with exit status 1 where a text is invalid.", shared.OUTPUT, common=True),
    ] = False
    progress: shared.ProgressOption = None


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
