"""What a grammar artifact that is up to date says of itself, in the words of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.cli.compiling.made_from import counts_of, object_of

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile


def recorded_grammar(file: ArtifactFile) -> dict[str, object]:
    """Return the summary of a grammar artifact."""
    options = object_of(file, "cdec.options")
    return {
        **{name: options.get(name) for name in ("lexer", "lexer_reason", "start", "dialect")},
        "sound": file.metadata.get("cdec.sound") == "1",
        "sound_reason": file.metadata.get("cdec.sound_reason", ""),
        "blanks": options.get("blanks", ""),
        "max_whitespace": options.get("max_whitespace"),
        "precompute": options.get("precompute", 0),
        "indenter": options.get("indenter"),
        **counts_of(file),
    }
