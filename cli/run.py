"""``cdec run``: an artifact runs as ``cdec sample -a ARTIFACT``."""

from __future__ import annotations

from dataclasses import dataclass

from cdec.cli import sample
from cdec.cli.frame.command import Run
from cdec.cli.options import shared
from cdec.cli.options.sampling import SampleOptions
from cdec.core.errors import UsageError
from cdec.core.files.remote import Place


@dataclass(frozen=True, kw_only=True)
class Options(SampleOptions):
    """Options of ``cdec run``: those of ``cdec sample``, the artifact by its place."""

    artifact: Place | None = shared.artifact_argument()


def execute(options: Options, run: Run) -> int:
    """Short for cdec sample -a ARTIFACT.

    \b
    Examples:
      cdec run < prompts.txt
      cdec run titles.arrow --prompt "Question: Which city is it?"
      cdec run titles.arrow -i prompts.jsonl -o samples.jsonl
    """
    if str(options.artifact or "").endswith(".toml"):
        raise UsageError(
            f"{options.artifact} is a recipe, and this version runs artifacts only",
            hint="type the run: cdec sample -a ARTIFACT -i PROMPTS -o SAMPLES",
        )
    return sample.execute(options, run)
