"""verify_grammar: a grammar artifact, held against its stored source compiled again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.compilers.child.compiler import ChildCompiler
from cdec.compilers.comparison import Comparison
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.parser_choice import ASKED_FOR
from cdec.core.artifacts.digest import DIGEST_KEY
from cdec.core.artifacts.kinds import KINDS, bind_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.artifacts.write import MADE_FROM_KEY
from cdec.core.errors import CdecError
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile

_UNTOLD = (DIGEST_KEY, MADE_FROM_KEY, "cdec.version")
"""Entries that do not follow from the source: of the file, of what it lay in, of who wrote it."""


def verify_grammar(file: ArtifactFile, progress: Progress = silent) -> Comparison:
    """Compile the stored source again, with the recorded options, in a limited process.

    Args:
        file: A grammar artifact.
        progress: As for ``ChildCompiler.compile``.

    Returns:
        What is the same: all columns, and all of the metadata but for the digest, the version of
        cdec and what the source file was.

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
    vocabulary = bind_artifact(file).vocabulary
    comparison = Comparison(file)
    with tempfile.TemporaryDirectory(prefix="cdec-") as folder, ChildCompiler() as child:
        path = Path(folder) / "again.arrow"
        try:
            child.compile(file.metadata["cdec.grammar"], vocabulary, path, again, progress=progress)
        except CdecError as error:
            error.message = f"{file.path}: its source cannot be compiled again: {error.message}"
            error.args = (error.message,)
            raise
        compiled = verify_bytes(path.read_bytes(), KINDS)
    comparison.columns(compiled.arrays)
    found = {**dict.fromkeys(file.metadata, ""), **compiled.metadata}
    comparison.entries({name: found[name] for name in found if name not in _UNTOLD})
    return comparison
