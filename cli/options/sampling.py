"""The options of ``cdec sample``, which ``cdec run`` shares: groups, and what is its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.options import shared
from cdec.cli.options.calling import ToolOptions
from cdec.cli.options.constraint import (
    ConstraintOptions,
    FreeTextOptions,
    artifact_option,
)
from cdec.cli.options.engine import EngineOptions
from cdec.cli.options.methods import ChoiceOptions, MethodOptions
from cdec.cli.options.model import DecodingOptions, ModelOptions, WarpingOptions
from cdec.cli.options.one_line import OneLineOptions
from cdec.cli.options.prompts import BatchFileOptions, PromptOptions
from cdec.cli.options.quoting import SpanOfOptions
from cdec.cli.options.record_sources import RecordSourceOptions
from cdec.core.files.remote import Place


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Destinations of samples, and of what happened at their tokens."""

    output: Place | None = option(
        None,
        "Write samples to this file, as its name says: .jsonl, .csv, .tsv, .parquet, .gz, ...; "
        "stdout if not given.",
        shared.OUTPUT,
        metavar="FILE",
        common=True,
        typed_only=True,
    )
    keep_input: bool = shared.keep_input_option()
    force: bool = shared.force_option()
    resume: bool = option(
        False, "Go on with an unfinished output file.", shared.OUTPUT, common=True, typed_only=True
    )
    trace: Path | None = option(
        None,
        "Write what happened at every token to this file, one JSON object a token; `cdec "
        "trace` shows it.",
        shared.OUTPUT,
        metavar="FILE.jsonl",
        typed_only=True,
    )

    stream: bool = option(
        False,
        "Show texts as they grow, as `delta` lines where stdout is no terminal; masked, greedy, "
        "speculative.",
        shared.OUTPUT,
        common=True,
    )

    @property
    def output_file(self) -> Path | None:
        """The output, where it is no URL."""
        return self.output if isinstance(self.output, Path) else None


@dataclass(frozen=True, kw_only=True)
class SampleOptions(CommonOptions):
    """Options of ``cdec sample``, in the order of its help."""

    artifact: Place | None = artifact_option()
    one_line: OneLineOptions = group(OneLineOptions)
    held: ConstraintOptions = group(ConstraintOptions)
    prompts: PromptOptions = group(PromptOptions)
    choice: ChoiceOptions = group(ChoiceOptions)
    warping: WarpingOptions = group(WarpingOptions)
    decoding: DecodingOptions = group(DecodingOptions)
    max_n: int | None = option(
        None, "Most samples a record may ask for; 10000 if not given.", shared.PROMPTS, at_least=1
    )
    loading: ModelOptions = group(ModelOptions)
    methods: MethodOptions = group(MethodOptions)
    free: FreeTextOptions = group(FreeTextOptions)
    calling: ToolOptions = group(ToolOptions)
    quoting: SpanOfOptions = group(SpanOfOptions)
    writing: OutputOptions = group(OutputOptions)
    failures: shared.FailureOptions = group(shared.FailureOptions)
    require_complete: bool = option(
        False,
        "Exit with status 3 if a sample is not `complete` (cut by length, at a dead end, past "
        "its budget); all are written.",
        shared.OUTPUT,
    )
    fields: str | None = shared.fields_option()
    json: bool = shared.json_line_option()
    progress: bool | None = shared.progress_option()
    batch: BatchFileOptions = group(BatchFileOptions)
    dealing: EngineOptions = group(EngineOptions)
    sources: RecordSourceOptions = group(RecordSourceOptions, common=False)
