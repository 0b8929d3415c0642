"""The options of ``cdec sample``, which ``cdec run`` shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import Declared
from cdec.cli.options import shared
from cdec.cli.options.constraint import ArtifactOptions, ConstraintOptions, FreeTextOptions
from cdec.cli.options.engine import EngineOptions
from cdec.cli.options.methods import ChoiceOptions, MethodOptions
from cdec.cli.options.model import DecodingOptions, ModelOptions
from cdec.cli.options.prompts import BatchFileOptions, PromptOptions
from cdec.cli.options.record_sources import RecordSourceOptions
from cdec.core.files.remote import Place


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(DecodingOptions, ChoiceOptions, PromptOptions, ConstraintOptions):
    """What is drawn: constraint, prompts, method."""

    max_n: Annotated[
        int | None,
        Declared(
            "Most samples a record may ask for; 10000 if not given.", shared.PROMPTS, at_least=1
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DrawnOptions(FreeTextOptions, MethodOptions, ModelOptions, DrawingOptions):
    """Method, model and output."""

    output: Annotated[
        Place | None,
        Declared(
            "Write samples to this file, as its name says: .jsonl, .csv, .tsv, .parquet, .gz, ...; "
            "stdout if not given.",
            shared.OUTPUT,
            metavar="FILE",
            common=True,
            typed_only=True,
        ),
    ] = None
    keep_input: shared.KeepInputOption = False
    force: shared.ForceOption = False
    resume: Annotated[
        bool,
        Declared(
            "Go on with an unfinished output file.", shared.OUTPUT, common=True, typed_only=True
        ),
    ] = False
    trace: Annotated[
        Path | None,
        Declared(
            "Write what happened at every token to this file, one JSON object a token; `cdec "
            "trace` shows it.",
            shared.OUTPUT,
            metavar="FILE.jsonl",
            typed_only=True,
        ),
    ] = None
    strict: shared.StrictOption = False
    max_bad: shared.MaxBadOption = shared.DEFAULT_MAX_BAD
    require_complete: Annotated[
        bool,
        Declared(
            "Exit with status 3 if a sample is not `complete` (cut by length, at a dead end, past "
            "its budget); all are written.",
            shared.OUTPUT,
        ),
    ] = False
    fields: shared.FieldsOption = None
    progress: shared.ProgressOption = None

    @property
    def output_file(self) -> Path | None:
        """The output, where it is no URL."""
        return self.output if isinstance(self.output, Path) else None


@dataclass(frozen=True, kw_only=True)
class RunOptions(RecordSourceOptions, EngineOptions, BatchFileOptions, DrawnOptions):
    """All that ``cdec run`` shares; options about the grammars of records come last."""


@dataclass(frozen=True, kw_only=True)
class SampleOptions(RunOptions, ArtifactOptions):
    """Options of ``cdec sample``; the documented defaults stand here and in the bases."""
