"""verify_grammar: a grammar artifact, held against its stored source compiled again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdec.compilers.child.again import compiled_again
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.parser_choice import ASKED_FOR
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.compilers.comparison import Comparison
    from cdec.core.artifacts.read import ArtifactFile


def verify_grammar(file: ArtifactFile, progress: Progress = silent) -> Comparison:
    """Compile the stored source again, with the recorded options, in a limited process.

    Args:
        file: A grammar artifact.
        progress: As for ``ChildCompiler.compile``.

    Returns:
        As ``compiled_again``.

    Raises:
        CdecError: The source does not compile.
    """
    options = json.loads(file.metadata["cdec.options"])
    asked = options["lexer"] if options["lexer_reason"] == ASKED_FOR else None
    again = GrammarOptions(
        start=options["start"],
        lexer=asked,
        format=options["dialect"],
        max_whitespace=options["max_whitespace"],
        precompute=options.get("precompute", 0),
        indenter=options.get("indenter"),
        conjoined=tuple(options.get("conjoined", ())),
        deny_regex=tuple(options.get("deny_regex", ())),
        name=file.metadata.get("cdec.source", ""),
    )
    return compiled_again(file, file.metadata["cdec.grammar"], again, progress)
