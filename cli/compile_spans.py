"""``cdec compile-spans``: the documents of a corpus become an artifact of their pieces."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass
from typing import TYPE_CHECKING, Any

from cdec.cli.compile_set import begun, beside, counted
from cdec.cli.compiling.jobs import CompileOptions, Job, compile_one, recorded_summary
from cdec.cli.compiling.sources import (
    MadeFrom,
    hash_of_source,
    object_of,
    output_path,
)
from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import flag_of, limits, option
from cdec.cli.frame.kinds import (
    CompileCommand,
    Described,
    Rows,
    count,
    part,
    shown_seconds,
    source_name,
)
from cdec.cli.frame.tables import shown_bytes
from cdec.cli.options import shared
from cdec.cli.options.quoting import PieceOptions
from cdec.cli.options.texts import TextFormatOptions
from cdec.cli.runs.files import require_input
from cdec.compilers.sets.options import BadLines
from cdec.data.input.source import PROMPT_LIMITS, InputLimits

if TYPE_CHECKING:
    from cdec.compilers.sets.corpus import CorpusReport
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary

_PIECES = ("whole", "shortest", "longest")


@dataclass(frozen=True, kw_only=True)
class Options(PieceOptions, TextFormatOptions, CompileOptions):
    """Options of ``cdec compile-spans``; the documented defaults stand here."""

    source: str = option(
        MISSING,
        "Documents: JSONL, tables, or text, one a line; `-` is stdin.",
        metavar="FILE",
        positional=True,
    )
    id_field: str | None = option(
        None,
        "Field or column with the documents' ids; line numbers if not given.",
        shared.INPUT,
        common=True,
    )
    bad_lines: BadLines = option(
        "error", "What to do with lines that cannot be read.", shared.INPUT, common=True
    )
    input_limits: InputLimits = limits(PROMPT_LIMITS, shared.LIMITS)


def execute(options: Options, run: Run) -> int:
    """Compile documents into an artifact of their pieces.

    Texts are then pieces of one document each, verbatim, in any tokens, and samples say in which
    documents they stand, where, and how often.
    The summary goes to stdout, warnings to stderr.

    \b
    Examples:
      cdec compile-spans corpus.jsonl --id-field id
      cdec compile-spans pages.parquet --field body --span-whole sentences
      cdec compile-spans notes.txt --span-whole words --span-longest 12 --tokenizer gpt2
    """
    source = options.source
    output = output_path(
        options.output, beside(source), source, "the documents come", "compile-spans"
    )
    require_input(source)
    called = "stdin" if source == "-" else source
    return compile_one(
        CorpusJob(command=SPANS, output=output, options=options, run=run, called=called)
    )


@dataclass(frozen=True, kw_only=True)
class CorpusJob(Job):
    """A file of documents, compiled as it is read.

    Attributes:
        called: Name of the source, as the artifact records it.
    """

    options: Options
    called: str

    @property
    def made_from(self) -> MadeFrom:
        names = ("format", "field", "id_field", "no_header", "bad_lines")
        values = {name: getattr(self.options, name) for name in names}
        values |= {f"span_{name}": value for name, value in asdict(self.options.pieces).items()}
        return MadeFrom(self.command.kind, values)

    def source_hash(self) -> str:
        with self.run.console.stage(f"reading {self.options.source}"):
            return hash_of_source(self.options.source, self.options.input_limits)

    def compile(self, vocabulary: Callable[[], Vocabulary]) -> CorpusReport:
        """Read and compile; the report has the notices of both."""
        from cdec.compilers.sets.corpus import compile_spans
        from cdec.data.entities.source import read_entities
        from cdec.data.input.source import SourceStats
        from cdec.data.rows.count import count_records

        options, made = self.options, self.made_from
        total = count_records(options.source)
        stats = SourceStats(digest=hashlib.sha256())
        names = ("format", "field", "id_field", "no_header", "bad_lines")
        reading: dict[str, Any] = {name: getattr(options, name) for name in names}
        documents = begun(
            read_entities(options.source, limits=options.input_limits, stats=stats, **reading)
        )
        loaded = vocabulary()
        with self.run.console.stage("reading", total, "documents") as progress:
            report = compile_spans(
                documents,
                loaded,
                self.output,
                **asdict(options.pieces),
                bad_lines=options.bad_lines,
                source=self.called,
                made_from=lambda: made.recorded(stats.digest.hexdigest()),
                force=options.force,
                progress=counted(progress, total),
            )
        report.notices[:0] = stats.notices
        report.counts["skipped"] += stats.skipped
        return report


def _rows(report: CorpusReport) -> Rows:
    counts = report.counts
    return [
        ("artifact", str(report.path)),
        ("documents", f"{counts['documents']:,}"),
        ("text", shown_bytes(counts["bytes_of_text"])),
        ("left out", f"{counts['blank']:,} blank, {counts['skipped']:,} bad"),
        ("places", f"{counts['rows']:,} where a piece may begin"),
        ("masks", f"{counts['masks']:,} made beforehand"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", shown_seconds(report)),
    ]


def _recorded(file: ArtifactFile) -> dict[str, Any]:
    return recorded_summary(file, {"options": object_of(file, "cdec.options")})


def _pieces(described: Described) -> dict[str, Any]:
    options = part(described, "options")
    return {name: options[name] for name in _PIECES if options.get(name) is not None}


def _overview(described: Described) -> tuple[str, Rows]:
    counts, pieces = part(described, "counts"), _pieces(described)
    said = [f"{name} {value}" for name, value in pieces.items()] or ["any characters"]
    return f"pieces of {count(counts, 'documents')} documents", [
        ("pieces", ", ".join(said)),
        ("text", f"{count(counts, 'bytes_of_text')} bytes, {count(counts, 'rows')} places"),
    ]


def _again(_path: object, described: Described) -> str:
    words = ["cdec", "compile-spans", source_name(described) or "FILE"]
    for name, value in _pieces(described).items():
        words += [flag_of(f"span_{name}"), str(value)]
    return shlex.join(words)


SPANS = CompileCommand(
    kind="spans",
    rows=_rows,
    recorded=_recorded,
    overview=_overview,
    again=_again,
)
