"""``cdec compile-set``: a list of entities becomes a set artifact."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.made_from import MadeFrom, counts_of, hash_of, hash_of_source, object_of
from cdec.cli.compiling.next_command import next_command
from cdec.cli.compiling.reading import plain_name
from cdec.cli.frame.command import Run
from cdec.cli.frame.interruption import keeping
from cdec.cli.frame.summaries import set_rows, set_summary
from cdec.cli.frame.tables import print_json, print_table
from cdec.cli.options.compiling import SetOptions as Options
from cdec.cli.options.compiling import require_output, unnamed_output
from cdec.cli.options.shared import parse_size, refuse_unused, require_utf8
from cdec.cli.runs.files import read_denied, require_input
from cdec.cli.runs.tokenizer import load_vocabulary, loading
from cdec.core.files.remote import is_url, public_name
from cdec.core.progress import Progress, Stage

if TYPE_CHECKING:
    from cdec.compilers.sets.report import SetReport
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.input.source import InputLimits, SourceStats


_TEXT_ONLY = frozenset(
    {"format", "field", "id_field", "no_header", "prefix", "suffix", "leading_space", "normalize"}
)
"""Options about texts, which token rows have no use for."""


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
    output = output_path(options.source, options.output)
    limits = _input_limits(options)
    memory_limit = parse_size(options.memory_limit, "--memory-limit")
    require_input(options.source)
    deny = read_denied(options.deny)
    made = _made_from(options, deny)
    if output.is_file() and not options.force:
        source_hash = partial(hash_of_source, options.source, limits)
        with run.console.stage(f"reading {options.source}"):
            file = made.require_same(output, partial(_vocabulary, options, run), source_hash)
        run.console.note(f"{output} is up to date")
        if options.json:
            print_json(run.console, set_summary(_recorded(file)) | {"up_to_date": True})
        else:
            run.console.note(f"next: {next_command(output, options, 'For example:')}")
        return 0
    with keeping(run, output):
        report = _compile(options, run, output, made, deny, limits, memory_limit)
    run.console.warn(report.notices)
    if options.json:
        print_json(run.console, set_summary(report) | {"up_to_date": False})
    elif not options.quiet:
        print_table(run.console, set_rows(report))
        run.console.note(f"next: {next_command(report.path, options, 'For example:')}")
    return 0


def _input_limits(options: Options) -> InputLimits:
    largest = parse_size(options.max_input_bytes, "--max-input-bytes")
    if largest is None:
        return options.input_limits
    return dataclasses.replace(options.input_limits, max_input_bytes=largest)


def output_path(source: str, output: Path | None) -> Path:
    """Return where the artifact goes, before anything is read.

    Raises:
        UsageError: Stdin without ``-o``, or the output is the input.
    """
    if output is None:
        if source == "-":
            raise unnamed_output("the entities come", "compile-set")
        path = Path(plain_name(public_name(source)))
        # What lies elsewhere is compiled to here.
        path = Path(path.name) if is_url(source) else path
        output = path.with_suffix(".arrow") if path.name else path / ".arrow"
    return require_output(output, source)


def _made_from(options: Options, deny: list[str]) -> MadeFrom:
    """Return what decides the artifact; denied texts count, not the file that lists them."""
    names = ("format", "field", "id_field", "token_ids", "bad_lines", "keep_empty")
    values = {name: getattr(options, name) for name in (*names, "leading_space", "normalize")}
    # Left out where it is not on, as by versions that did not have it.
    values |= {"no_header": True} if options.no_header else {}
    values["prefix"] = require_utf8(options.prefix, "--prefix")
    values["suffix"] = require_utf8(options.suffix, "--suffix")
    values["deny"] = hash_of(sorted(set(deny))) if deny else None
    return MadeFrom("set", values)


def _recorded(file: ArtifactFile) -> SetReport:
    """Return the report of an artifact that is there."""
    from cdec.compilers.sets.report import SetReport

    report = SetReport(file.local, options=object_of(file, "cdec.options"))
    report.bytes = file.local.stat().st_size
    for name, count in counts_of(file).items():
        if name in report.counts:
            setattr(report, name, count)
    return report


def _vocabulary(options: Options, run: Run) -> Vocabulary:
    with run.console.stage(loading(options.tokenizer or options.model)):
        vocabulary, name = load_vocabulary(options.tokenizer, options.model, options.revision)
    run.console.note(f"tokenizer: {name}")
    return vocabulary


def _compile(
    options: Options,
    run: Run,
    output: Path,
    made: MadeFrom,
    deny: list[str],
    limits: InputLimits,
    memory_limit: int | None,
) -> SetReport:
    """Read entities (or token rows), compile them, and return the report with all notices."""
    from cdec.compilers.sets.compile import compile_set, compile_token_set
    from cdec.data.input.count import count_records
    from cdec.data.input.source import SourceStats

    total = count_records(options.source)
    stats = SourceStats(digest=hashlib.sha256())
    source = _begun(_source(options, limits, stats))
    vocabulary = _vocabulary(options, run)
    with run.console.stage("tokenizing", total, "entities") as progress:
        shared: dict[str, Any] = {
            "deny": deny,
            "keep_empty": options.keep_empty,
            "bad_lines": options.bad_lines,
            "memory_limit": memory_limit,
            "limits": options.set_limits,
            "source": "stdin" if options.source == "-" else options.source,
            "made_from": lambda: made.recorded(stats.digest.hexdigest()),
            "force": options.force,
            "progress": _counted(progress, total),
        }
        if options.token_ids:
            report = compile_token_set(source, vocabulary, output, **shared)
        else:
            shared |= {"leading_space": options.leading_space, "normalize": options.normalize}
            shared |= {name: made.options[name] for name in ("prefix", "suffix")}
            report = compile_set(source, vocabulary, output, **shared)
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


def _begun(batches: Iterator[Any]) -> Iterator[Any]:
    """Read the first batch now: what is bad at once is refused before a tokenizer loads."""
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)


def _counted(progress: Progress, total: int | None) -> Progress:
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
