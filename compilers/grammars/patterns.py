"""compile_regex, regex_constraint: a regular expression as an artifact, or as a constraint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.compilers.grammars.compile import build_grammar, compile_with
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import (
    PRECOMPUTE,
    UNNAMED,
    Pattern,
    pattern_text,
    regex_options,
)
from cdec.core.artifacts.opened import bind_arrays
from cdec.core.artifacts.read import UNNAMED as NO_FILE
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.tokens.vocabulary import Vocabulary


def compile_regex(
    pattern: Pattern,
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    conjoined: Sequence[Pattern] = (),
    deny_regex: Sequence[Pattern] = (),
    limits: GrammarLimits | None = None,
    name: str = UNNAMED,
    precompute: int = PRECOMPUTE,
    force: bool = False,
    progress: Progress = silent,
) -> GrammarReport:
    r"""Compile a regular expression into an artifact, of kind ``grammar``.

        compile_regex(r"\d{4}-\d{2}-\d{2}", vocabulary, "date.arrow")

    Its texts are those of ``re.fullmatch``: the whole text is matched, so anchors at the ends say
    nothing, and lazy quantifiers read as greedy ones. Texts are Unicode, and so are ``\w \d \s``
    and ``\b``, unless the pattern says ``(?a)``.

    Args:
        pattern: In the syntax of Python's ``re``, without look-around and back-references; flags
            stand inside (``(?i)``), or are those of a compiled pattern.
        vocabulary: The tokens; a tokenizer is not needed.
        path: The artifact.
        conjoined: Others that texts match as well, each as a whole.
        deny_regex: Others that texts do not match as a whole; ``(?s).*x.*`` denies what holds an x.
        limits: What compiling may cost; ``compile_seconds`` and ``compile_megabytes`` hold in a
            ``ChildCompiler`` only.
        name: Name of the source, recorded and shown, never opened.
        precompute: Steps of the automaton of masks that are made now.
        force: Replace an existing file.
        progress: Told when a phase begins.

    Returns:
        What was done. Cost: some 50 milliseconds for a date and 131,072 tokens.

    Raises:
        RegexSyntaxError: ``re`` refuses it.
        RegexUnsupportedError: It is not regular, or looks around.
        EmptyLanguageError: No text matches.
        EncodingError: It is no Unicode text.
        UntokenizableError: The vocabulary can spell none of its texts.
        LimitError: A limit is passed; ``limit`` names it.
        OutputExistsError, OutputError: The artifact cannot be written.
    """
    options = regex_options(conjoined, deny_regex, limits=limits, name=name, precompute=precompute)
    source = pattern_text(pattern)
    return compile_with(source, vocabulary, path, options, force=force, progress=progress)


def regex_constraint(
    pattern: Pattern,
    vocabulary: Vocabulary,
    *,
    conjoined: Sequence[Pattern] = (),
    deny_regex: Sequence[Pattern] = (),
    limits: GrammarLimits | None = None,
) -> StoredConstraint:
    r"""Make a constraint of a regular expression, in memory: what ``compile_regex`` would write.

        model = load_model("gpt2")
        date = regex_constraint(r"\d{4}-\d{2}-\d{2}", model.vocabulary)

    Args:
        pattern, conjoined, deny_regex: As in ``compile_regex``.
        vocabulary: Of the model that will draw.
        limits: What compiling may cost.

    Returns:
        The constraint of that vocabulary. Cost: as ``compile_regex``; keep it for all prompts.

    Raises:
        CdecError: As ``compile_regex``, but for the file.
    """
    options = regex_options(conjoined, deny_regex, limits=limits, precompute=0)
    arrays, metadata, _ = build_grammar(pattern_text(pattern), vocabulary, options, NO_FILE)
    return bind_arrays("grammar", arrays, metadata, vocabulary)
