"""``cdec compile-schema``: JSON Schemas become artifacts."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.in_child import Job, compile_one
from cdec.cli.compiling.made_from import counts_of, object_of
from cdec.cli.compiling.many import Asked, compile_many, outputs_in
from cdec.cli.compiling.reading import read_whole, stem_of
from cdec.cli.frame.summaries import COSTS, cost_rows, schema_rows
from cdec.cli.frame.tables import print_columns
from cdec.cli.options import shared
from cdec.cli.options.compiling import CompileOptions, require_output, unnamed_output
from cdec.cli.options.record_sources import SchemaReadingOptions
from cdec.compilers.schemas.options import MAX_RUN, MAX_WHITESPACE, SchemaLimits, SchemaOptions
from cdec.core.errors import UsageError
from cdec.core.options import limits, option

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.compilers.schemas.report import SchemaReport
    from cdec.core.artifacts.read import ArtifactFile


@dataclass(frozen=True, kw_only=True)
class Options(SchemaReadingOptions, CompileOptions):
    """Options of ``cdec compile-schema``; the documented defaults stand here."""

    sources: list[str] = option(
        MISSING,
        "JSON Schemas; `-` is stdin. Several of them need --out-dir.",
        metavar="FILE...",
        positional=True,
    )
    out_dir: Path | None = option(
        None,
        "Folder for the artifacts, one for each FILE; made if it is not there.",
        shared.OUTPUT,
        metavar="DIR",
        common=True,
        typed_only=True,
    )
    tools: bool = option(
        False,
        "FILE is a list of functions as chat models are given them; texts are calls: "
        '{"name": ..., "arguments": ...}.',
        shared.INPUT,
        common=True,
    )
    strict: bool = option(
        False,
        "Refuse keywords that the schema's draft does not know (but for x-...), instead of "
        "taking them for comments.",
        shared.CONSTRAINT,
        common=True,
    )
    max_whitespace: int = option(
        MAX_WHITESPACE,
        "Longest run of white space, --whitespace any: N on a line, N line breaks, 4N of "
        "indentation.",
        shared.CONSTRAINT,
        metavar="N",
        at_least=0,
        at_most=MAX_RUN,
    )
    stats: bool = option(False, "Print what each keyword cost.", shared.OUTPUT, common=True)
    schema_limits: SchemaLimits = limits(SchemaLimits(), shared.LIMITS)


def execute(options: Options, run: Run) -> int:
    """Compile JSON Schemas into artifacts.

    Texts that an artifact accepts are JSON and satisfy the schema: every keyword is enforced by the
    masks, or the schema is refused with the place of what cannot be. --lenient records such places
    instead, in the artifact and in every sample. Drafts 2020-12 to 04, told by $schema; references
    lead within the document. The summary goes to stdout, warnings to stderr.

    \b
    Examples:
      cdec compile-schema invoice.json
      cdec compile-schema invoice.json --tokenizer gpt2 -o invoice.arrow --whitespace compact
      cdec compile-schema schemas/*.json --out-dir artifacts
      cdec compile-schema tools.json --tools --stats
    """
    if "max_whitespace" in run.typed and options.whitespace == "usual":
        # Who bounds runs of white space wants such runs.
        if "whitespace" in run.typed:
            raise UsageError(
                "--max-whitespace bounds the runs of --whitespace any, and this is usual",
                hint="leave one of them out",
            )
        options = replace(options, whitespace="any")
    if options.out_dir is not None:
        if options.output is not None:
            raise UsageError("-o names one file, --out-dir a folder", hint="give one of them")
        asked = [
            Asked(source, output, partial(_job, source, output, options))
            for source, output in outputs_in(options.out_dir, options.sources).items()
        ]
        return compile_many(asked, "schema", options.out_dir, options, run)
    if len(options.sources) > 1:
        raise UsageError(
            f"{len(options.sources)} schemas were given and no folder for their artifacts",
            hint="name one with --out-dir DIR",
        )
    (source,) = options.sources
    job = _job(source, output_path(source, options.output), options)
    return compile_one(job, options, run, partial(_print_costs, run) if options.stats else None)


def output_path(source: str, output: Path | None) -> Path:
    """Return where the artifact goes.

    Raises:
        UsageError: Stdin without ``-o``, or the output is the input.
    """
    if output is None:
        if not stem_of(source):
            raise unnamed_output("the schema comes", "compile-schema")
        output = Path(source).parent / f"{stem_of(source)}.arrow"
    return require_output(output, source)


def _job(source: str, output: Path, options: Options) -> Job[SchemaReport]:
    """Read a schema, or a list of tools.

    Raises:
        CdecError: It cannot be read.
    """
    limits = options.schema_limits
    data = read_whole(source, limits.max_schema_bytes, "max_schema_bytes")
    if options.tools:
        from cdec.compilers.schemas.tools import schema_of_tools

        data = schema_of_tools(data, limits).encode()
    compiled_with = SchemaOptions(
        lenient=options.lenient,
        strict=options.strict,
        property_order=options.property_order,
        whitespace=options.whitespace,
        max_whitespace=options.max_whitespace,
        escapes=options.escapes,
        formats=options.formats,
        numbers=options.numbers,
        limits=limits,
        name="stdin" if source == "-" else source,
    )
    return Job(
        kind="schema",
        data=data,
        output=output,
        compiled_with=compiled_with,
        recorded=_recorded,
        rows=schema_rows,
        prompt="As JSON: ",
    )


def _recorded(file: ArtifactFile) -> dict[str, Any]:
    """Return the summary of an artifact that is there, in the words of a report."""
    return {
        "draft": object_of(file, "cdec.options").get("draft", ""),
        "unenforced": json.loads(file.metadata["cdec.unenforced"]),
        "sound": file.metadata.get("cdec.sound") == "1",
        "sound_reason": file.metadata.get("cdec.sound_reason", ""),
        "costs": {},
        **counts_of(file),
    }


def _print_costs(run: Run, report: SchemaReport) -> None:
    run.console.data("")
    print_columns(run.console, COSTS, cost_rows(report.costs))
