"""``cdec compile-set``: a list of entities becomes a set artifact."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import shlex
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.jobs import CompileOptions, Job, compile_one
from cdec.cli.compiling.sources import (
    MadeFrom,
    counts_of,
    hash_of,
    hash_of_source,
    object_of,
    output_path,
    plain_name,
)
from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import limits, option
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
from cdec.cli.options.shared import parse_size, refuse_unused, require_utf8
from cdec.cli.options.texts import TextFormatOptions
from cdec.cli.runs.files import read_denied, require_input
from cdec.compilers.sets.options import BadLines, LeadingSpace, Normalization, SetLimits
from cdec.core.files.remote import is_url, public_name
from cdec.core.progress import Progress, Stage
from cdec.data.input.source import ENTITY_LIMITS, InputLimits

if TYPE_CHECKING:
    from cdec.compilers.sets.options import SetReport
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.input.source import SourceStats

_TEXT_ONLY = frozenset(
    {"format", "field", "id_field", "no_header", "prefix", "suffix", "leading_space", "normalize"}
)
"""Options about texts, which token rows have no use for."""


@dataclass(frozen=True, kw_only=True)
class Options(TextFormatOptions, CompileOptions):
    """Options of ``cdec compile-set``; the documented defaults stand here."""

    source: str = option(
        MISSING, "Entities, one a line; `-` is stdin.", metavar="FILE", positional=True
    )
    id_field: str | None = option(
        None,
        "Field or column with the entity ids; line numbers if not given.",
        shared.INPUT,
        common=True,
    )
    token_ids: bool = option(False, "FILE holds one JSON array of token ids a line.", shared.INPUT)
    bad_lines: BadLines = option(
        "error",
        "What to do with lines that cannot be read or tokenised.",
        shared.INPUT,
        common=True,
    )
    keep_empty: bool = option(False, "A blank line makes the empty text a member.", shared.INPUT)
    deny: Path | None = option(
        None, "Texts to leave out, one a line.", shared.INPUT, metavar="FILE", common=True
    )
    prefix: str = option("", "Text forced before every member.", shared.TOKENS, common=True)
    suffix: str = option(
        "", "Text forced after every member; it ends the sample.", shared.TOKENS, common=True
    )
    leading_space: LeadingSpace = option(
        "auto", "Whether a member begins with a space when tokenised.", shared.TOKENS
    )
    normalize: Normalization = option("none", "Unicode normalisation first.", shared.TOKENS)
    input_limits: InputLimits = limits(ENTITY_LIMITS, shared.LIMITS)
    max_input_bytes: str | None = option(
        None, "Largest input after decompression, such as 64GB.", shared.LIMITS, metavar="SIZE"
    )
    set_limits: SetLimits = limits(SetLimits(), shared.LIMITS)
    memory_limit: str | None = option(
        None, "Sort on disk beyond this much memory, such as 2GB.", shared.LIMITS, metavar="SIZE"
    )


def execute(options: Options, run: Run) -> int:
    """Compile a list of entities into an artifact.

    The artifact holds every entity tokenised for one tokenizer, sorted, with a trie over it.
    The summary goes to stdout, warnings to stderr.

    \b
    Examples:
      cdec compile-set titles.txt
      cdec compile-set titles.txt --tokenizer gpt2 -o titles.arrow
      cdec compile-set items.jsonl --field name --id-field asin --bad-lines skip
      cut -f2 pages.tsv | cdec compile-set - -o pages.arrow --prefix " <" --suffix ">"
    """
    if options.token_ids:
        refuse_unused(_TEXT_ONLY, run.typed, "with --token-ids")
    source = options.source
    output = output_path(options.output, beside(source), source, "the entities come", "compile-set")
    memory_limit = parse_size(options.memory_limit, "--memory-limit")
    require_input(options.source)
    job = EntityJob(
        command=SETS,
        output=output,
        options=options,
        run=run,
        called="stdin" if source == "-" else source,
        deny=read_denied(options.deny),
        limits=_input_limits(options),
        memory_limit=memory_limit,
    )
    return compile_one(job)


def _input_limits(options: Options) -> InputLimits:
    largest = parse_size(options.max_input_bytes, "--max-input-bytes")
    if largest is None:
        return options.input_limits
    return dataclasses.replace(options.input_limits, max_input_bytes=largest)


def beside(source: str) -> Path | None:
    """Return where an artifact goes that was not named; None for stdin."""
    if source == "-":
        return None
    path = Path(plain_name(public_name(source)))
    # What lies elsewhere is compiled to here.
    path = Path(path.name) if is_url(source) else path
    return path.with_suffix(".arrow") if path.name else path / ".arrow"


@dataclass(frozen=True, kw_only=True)
class EntityJob(Job):
    """A file of entities, or of token rows, that are compiled as they are read.

    Attributes:
        called: Name of the source, as the artifact records it.
        deny: Texts to leave out.
        limits: Of reading.
        memory_limit: Bytes beyond which rows are sorted on disk; None for any.
    """

    options: Options
    called: str
    deny: list[str]
    limits: InputLimits
    memory_limit: int | None

    @property
    def made_from(self) -> MadeFrom:
        """The facts that decide the artifact; denied texts count, not the file that lists them."""
        options = self.options
        names = ("format", "field", "id_field", "token_ids", "bad_lines", "keep_empty")
        values = {name: getattr(options, name) for name in (*names, "leading_space", "normalize")}
        # Left out where it is not on, as by versions that did not have it.
        values |= {"no_header": True} if options.no_header else {}
        values["prefix"] = require_utf8(options.prefix, "--prefix")
        values["suffix"] = require_utf8(options.suffix, "--suffix")
        values["deny"] = hash_of(sorted(set(self.deny))) if self.deny else None
        return MadeFrom(self.command.kind, values)

    def source_hash(self) -> str:
        """Return SHA-256 of the source, which is read for it."""
        with self.run.console.stage(f"reading {self.options.source}"):
            return hash_of_source(self.options.source, self.limits)

    def compile(self, vocabulary: Callable[[], Vocabulary]) -> SetReport:
        """Read and compile; the report has the notices of both."""
        from cdec.compilers.sets.compile import compile_set, compile_token_set
        from cdec.data.input.source import SourceStats
        from cdec.data.rows.count import count_records

        options, run, made = self.options, self.run, self.made_from
        total = count_records(options.source)
        stats = SourceStats(digest=hashlib.sha256())
        source = begun(_source(options, self.limits, stats))
        loaded = vocabulary()
        with run.console.stage("tokenizing", total, "entities") as progress:
            shared: dict[str, Any] = {
                "deny": self.deny,
                "keep_empty": options.keep_empty,
                "bad_lines": options.bad_lines,
                "memory_limit": self.memory_limit,
                "limits": options.set_limits,
                "source": self.called,
                "made_from": lambda: made.recorded(stats.digest.hexdigest()),
                "force": options.force,
                "progress": counted(progress, total),
            }
            if options.token_ids:
                report = compile_token_set(source, loaded, self.output, **shared)
            else:
                shared |= {"leading_space": options.leading_space, "normalize": options.normalize}
                shared |= {name: made.options[name] for name in ("prefix", "suffix")}
                report = compile_set(source, loaded, self.output, **shared)
        return _with_reading(report, stats)


def _source(options: Options, limits: InputLimits, stats: SourceStats) -> Any:
    """Return the reader that the options ask for: batches of entities or of token rows."""
    from cdec.data.entities.source import read_entities, read_token_rows

    reading: dict[str, Any] = {"bad_lines": options.bad_lines, "limits": limits, "stats": stats}
    if options.token_ids:
        return read_token_rows(options.source, **reading)
    return read_entities(
        options.source,
        format=options.format,
        field=options.field,
        id_field=options.id_field,
        no_header=options.no_header,
        **reading,
    )


def begun(batches: Iterator[Any]) -> Iterator[Any]:
    """Read the first batch now: what is bad at once is refused before a tokenizer loads."""
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)


def counted(progress: Progress, total: int | None) -> Progress:
    """Return what to tell, which adds to the entities that are counted how many there are."""

    def tell(stage: Stage) -> None:
        progress(dataclasses.replace(stage, total=total) if stage.unit else stage)

    return tell


def _with_reading(report: SetReport, stats: SourceStats) -> SetReport:
    """Add what the reader skipped and warned of to the compiler's report."""
    return dataclasses.replace(
        report,
        skipped=report.skipped + stats.skipped,
        notices=[*stats.notices, *report.notices],
    )


def _rows(report: SetReport) -> Rows:
    return [
        ("artifact", str(report.path)),
        ("entities", f"{report.entities:,}"),
        ("duplicates", f"{report.duplicates:,}"),
        ("skipped lines", f"{report.skipped:,}"),
        ("blank lines", f"{report.blank:,}"),
        ("denied", f"{report.denied:,}"),
        ("tokens", f"{report.tokens:,}, the longest entity {report.longest}"),
        ("trie nodes", f"{report.nodes:,}"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", shown_seconds(report)),
    ]


def _recorded(file: ArtifactFile) -> dict[str, Any]:
    from cdec.compilers.sets.options import SetReport

    report = SetReport(file.local, options=object_of(file, "cdec.options"))
    report.bytes = file.local.stat().st_size
    for name, found in counts_of(file).items():
        if name in report.counts:
            setattr(report, name, found)
    return report.to_json()


def _overview(described: Described) -> tuple[str, Rows]:
    counts, options = part(described, "counts"), part(described, "options")
    forced = [f"{name} {options[name]!r}" for name in ("prefix", "suffix") if options.get(name)]
    left_out = ("duplicates", "skipped", "blank", "denied")
    left = [f"{count(counts, name)} {name}" for name in left_out if counts.get(name)]
    rows = [
        ("tokenised", "; ".join([f"leading space {options.get('leading_space', '?')}", *forced])),
        ("members", f"{count(counts, 'rows')} rows, at most {count(counts, 'longest')} tokens"),
    ]
    rows += [("left out", ", ".join(left))] if left else []
    rows += [("sound", "yes: every allowed token leads to a member")]
    return f"a set of {count(counts, 'entities')} texts", rows


def _again(_path: Path, described: Described) -> str:
    options = described["options"]
    words = ["cdec", "compile-set", source_name(described) or "FILE"]
    for name in ("prefix", "suffix"):
        words += [f"--{name}", options[name]] if options.get(name) else []
    asked = options.get("leading_space_requested", "auto")
    words += ["--leading-space", asked] if asked != "auto" else []
    words += ["--normalize", options["normalize"]] if options.get("normalize") != "none" else []
    return shlex.join([*words, *(["--keep-empty"] if options.get("keep_empty") else [])])


SETS = CompileCommand(
    kind="set",
    rows=_rows,
    recorded=_recorded,
    overview=_overview,
    again=_again,
    prompt="For example:",
)
