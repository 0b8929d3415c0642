"""``cdec compile-schema``: JSON Schemas become artifacts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.jobs import (
    CompileOptions,
    TextJob,
    compile_many,
    compile_one,
    recorded_summary,
)
from cdec.cli.compiling.sources import object_of, output_path, read_whole, stem_of
from cdec.cli.frame.declaration import flag_of, limits, option
from cdec.cli.frame.kinds import (
    CompileCommand,
    Described,
    Rows,
    count,
    part,
    piped,
    shown_seconds,
    shown_soundness,
)
from cdec.cli.frame.tables import print_columns, shown_bytes
from cdec.cli.options import shared
from cdec.cli.options.record_sources import (
    SchemaReadingOptions,
    pinned_sets,
    pinned_sets_option,
    read_references,
    schema_options,
)
from cdec.compilers.schemas.options import MAX_RUN, MAX_WHITESPACE, SchemaLimits
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.compilers.schemas.options import SchemaReport
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.schemas.references import Reference

_COSTS = ("keyword", "uses", "alternatives", "seconds")
"""Header of ``_cost_rows``."""


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
    sets: list[str] = pinned_sets_option()
    stats: bool = option(False, "Print what each keyword cost.", shared.OUTPUT, common=True)
    schema_limits: SchemaLimits = limits(SchemaLimits(), shared.LIMITS)


def execute(options: Options, run: Run) -> int:
    """Compile JSON Schemas into artifacts.

    Texts that an artifact accepts are JSON and satisfy the schema: every keyword is enforced by the
    masks, or the schema is refused with the place of what cannot be. --lenient records such places
    instead, in the artifact and in every sample. Drafts 2020-12 to 04, told by $schema; references
    lead within the document, or to documents given by --ref and --ref-dir, never elsewhere. The
    summary goes to stdout, warnings to stderr.

    \b
    Examples:
      cdec compile-schema invoice.json
      cdec compile-schema invoice.json --tokenizer gpt2 -o invoice.arrow --whitespace compact
      cdec compile-schema schemas/*.json --out-dir artifacts
      cdec compile-schema tools.json --tools --stats
      cdec compile-schema order.json --ref https://example.org/item.json=item.json
    """
    if "max_whitespace" in run.typed and options.whitespace == "usual":
        # Who bounds runs of white space wants such runs.
        if "whitespace" in run.typed:
            raise UsageError(
                "--max-whitespace bounds the runs of --whitespace any, and this is usual",
                hint="leave one of them out",
            )
        options = replace(options, whitespace="any")
    references = read_references(options, options.schema_limits)
    if options.out_dir is not None:
        if options.output is not None:
            raise UsageError("-o names one file, --out-dir a folder", hint="give one of them")
        job_of = partial(_job, options, run, references)
        return compile_many(options.sources, "schema", options.out_dir, job_of, options, run)
    if len(options.sources) > 1:
        raise UsageError(
            f"{len(options.sources)} schemas were given and no folder for their artifacts",
            hint="name one with --out-dir DIR",
        )
    (source,) = options.sources
    beside = Path(source).parent / f"{stem_of(source)}.arrow" if stem_of(source) else None
    output = output_path(options.output, beside, source, "the schema comes", "compile-schema")
    job = _job(options, run, references, source, output)
    return compile_one(job, partial(_print_costs, run) if options.stats else None)


def _job(
    options: Options,
    run: Run,
    references: tuple[Reference, ...],
    source: str,
    output: Path,
) -> TextJob:
    """Read a schema, or a list of tools."""
    limits = options.schema_limits
    data = read_whole(source, limits.max_schema_bytes, "max_schema_bytes")
    if options.tools:
        from cdec.compilers.schemas.tools import schema_of_tools

        data = schema_of_tools(data, limits).encode()
    compiled_with = schema_options(
        options,
        references,
        limits=limits,
        strict=options.strict,
        max_whitespace=options.max_whitespace,
        set_digests=pinned_sets(options.sets),
        name="stdin" if source == "-" else source,
    ).for_text(data.decode("utf-8", "replace"))
    return TextJob(
        command=SCHEMAS,
        output=output,
        options=options,
        run=run,
        data=data,
        compiled_with=compiled_with,
    )


def schema_rows(report: SchemaReport) -> Rows:
    """Return the report as names and values of a table."""
    counts = report.counts
    return [
        ("artifact", str(report.path)),
        ("draft", report.draft),
        ("unenforced", _shown_unenforced(report.unenforced)),
        *_reference_rows(report.references),
        ("sound", shown_soundness(is_sound=report.is_sound, reason=report.sound_reason)),
        ("values", f"{counts['values']:,}"),
        ("objects", f"{counts['objects']:,} with {counts['slots']:,} kinds of property"),
        ("arrays", f"{counts['arrays']:,}"),
        ("automata", f"{counts['states']:,} states, {counts['edges']:,} edges"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", shown_seconds(report, 3)),
    ]


def _reference_rows(references: Sequence[Mapping[str, Any]]) -> Rows:
    """Return the documents that a schema refers to."""
    digests = ((one["uri"], one["digest"][:12]) for one in references)
    said = ", ".join(f"{uri} (SHA-256 {digest}...)" for uri, digest in digests)
    return [("refers to", said)] if references else []


def _print_costs(run: Run, report: SchemaReport) -> None:
    run.console.data("")
    print_columns(run.console, _COSTS, _cost_rows(report.costs))


def _cost_rows(costs: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return what each keyword cost, the dearest first."""
    dearest = sorted(costs.items(), key=lambda item: -item[1].get("seconds", 0.0))
    return [
        [
            keyword,
            f"{cost.get('uses', 0):,}",
            f"{cost.get('alternatives', 0):,}",
            f"{cost.get('seconds', 0.0):.4f}",
        ]
        for keyword, cost in dearest
    ]


def _shown_unenforced(unenforced: Sequence[Mapping[str, Any]]) -> str:
    """Return which keywords masks leave open as one phrase."""
    if not unenforced:
        return "nothing: masks hold every keyword"
    return ", ".join(str(item["path"]) for item in unenforced)


def _recorded(file: ArtifactFile) -> dict[str, Any]:
    described = {
        "draft": object_of(file, "cdec.options").get("draft", ""),
        "unenforced": json.loads(file.metadata["cdec.unenforced"]),
        "sound": file.metadata.get("cdec.sound") == "1",
        "sound_reason": file.metadata.get("cdec.sound_reason", ""),
        "references": _recorded_references(file),
        "costs": {},
    }
    return recorded_summary(file, described)


def _recorded_references(file: ArtifactFile) -> list[dict[str, str]]:
    from cdec.core.schemas.references import from_json

    found = from_json(file.metadata.get("cdec.references", "[]"))
    return [{"uri": one.uri, "file": one.file, "digest": one.digest} for one in found]


def _overview(described: Described) -> tuple[str, Rows]:
    from cdec.core.schemas.other_forms import described_escapes, described_whitespace

    counts, options = part(described, "counts"), part(described, "options")
    unenforced = described.get("unenforced")
    reason = "every allowed token leads to a value of the schema"
    if not described.get("sound"):
        reason = str(described.get("sound_reason", ""))
    return f"a JSON Schema of {count(counts, 'values')} kinds of value", [
        ("draft", str(options.get("draft", "?"))),
        ("properties", f"{options.get('property_order', '?')} order"),
        ("white space", described_whitespace(options)),
        ("escapes", described_escapes(options)),
        ("unenforced", _shown_unenforced(unenforced if isinstance(unenforced, list) else [])),
        *_reference_rows(described.get("references") or []),
        ("sound", shown_soundness(is_sound=bool(described.get("sound")), reason=reason)),
    ]


def _again(path: Path, described: Described) -> str:
    options = described["options"]
    words = ["cdec", "compile-schema", "-"]
    words += ["--lenient"] if options.get("lenient") else []
    for name, usual in (("property_order", "any"), ("whitespace", "usual"), ("formats", "enforce")):
        value = options.get(name, usual)
        words += [flag_of(name), value] if value != usual else []
    # Artifacts from before there was an option hold any.
    for name, usual in (("numbers", "finite"), ("escapes", "usual")):
        value = options.get(name, "any")
        words += [flag_of(name), value] if value != usual else []
    for one in described.get("references") or []:
        words += ["--ref", f"{one['uri']}={one['file'] or 'FILE'}"]
    is_usual = options.get("whitespace") == "usual"
    if not is_usual and options.get("max_whitespace", MAX_WHITESPACE) != MAX_WHITESPACE:
        words += ["--max-whitespace", str(options["max_whitespace"])]
    words += shared.set_words(list(described.get("set_digests") or {}))
    # The stored text, and not the file: that may be a list of tools, or another one by now.
    return piped(path, "schema", words)


SCHEMAS = CompileCommand(
    kind="schema",
    rows=schema_rows,
    recorded=_recorded,
    overview=_overview,
    again=_again,
    prompt="As JSON: ",
)
