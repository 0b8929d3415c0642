"""The command that goes on from a compiled artifact."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.cli.options.compiling import CompileOptions


def next_command(artifact: Path, options: CompileOptions, prompt: str) -> str:
    """Return what to type next, with the model that the artifact was compiled for.

    Args:
        artifact: The artifact.
        options: Of the command that wrote it. A tokenizer that is a file is no model.
        prompt: An example of one.
    """
    model = options.model
    if model is None and options.tokenizer is not None and not Path(options.tokenizer).is_file():
        model = options.tokenizer
    if model is None and options.tokenizer is not None:
        model = "MODEL"
    words = ["cdec", "sample", "-a", str(artifact)]
    words += [] if model is None else ["-m", model]
    words += [] if options.revision is None else ["--revision", options.revision]
    return shlex.join([*words, "--prompt", prompt])
