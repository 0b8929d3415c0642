"""grammar_constraint: the text of a grammar as a constraint, without a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.definition import GrammarLimits, Lexer
from cdec.compilers.grammars.options import MAX_WHITESPACE, Dialect, GrammarOptions
from cdec.core.artifacts.kinds import bind_arrays
from cdec.core.artifacts.read import UNNAMED

if TYPE_CHECKING:
    from cdec.core.artifacts.stored import StoredConstraint
    from cdec.core.tokens.vocabulary import Vocabulary


def grammar_constraint(
    source: str | bytes,
    vocabulary: Vocabulary,
    *,
    start: str | None = None,
    lexer: Lexer | None = None,
    format: Dialect = "auto",
    limits: GrammarLimits | None = None,
    allow_imports: Path | None = None,
    max_whitespace: int | None = MAX_WHITESPACE,
    indenter: str | None = None,
) -> StoredConstraint:
    """Make a constraint of a grammar, in memory: what ``compile_grammar`` would write, opened.

        model = load_model("gpt2")
        answer = grammar_constraint('start: "yes" | "no"', model.vocabulary)

    Args:
        source: The grammar's text.
        vocabulary: Of the model that will draw.
        start, lexer, format, limits, allow_imports, max_whitespace, indenter: As in
            ``compile_grammar``.

    Returns:
        The constraint of that vocabulary. Cost: as ``compile_grammar``; keep it for all prompts.

    Raises:
        CdecError: As ``compile_grammar``, but for the file.
    """
    options = GrammarOptions(
        start=start,
        lexer=lexer,
        format=format,
        limits=limits or GrammarLimits(),
        allow_imports=allow_imports,
        max_whitespace=max_whitespace,
        indenter=indenter,
        precompute=0,
    )
    arrays, metadata, _ = build_grammar(source, vocabulary, options, UNNAMED)
    return bind_arrays("grammar", arrays, metadata, vocabulary)
