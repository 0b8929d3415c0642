"""``cdec compile-set``: a list of entities becomes a set artifact."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.frame.command import Run
from cdec.cli.frame.set_summary import set_rows, set_summary
from cdec.cli.frame.tables import print_json, print_table
from cdec.cli.options.compiling import SetOptions as Options
from cdec.cli.options.compiling import require_output, unnamed_output
from cdec.cli.options.shared import parse_size, refuse_unused, require_utf8

if TYPE_CHECKING:
    from cdec.data.input.source import InputLimits


_TEXT_ONLY = frozenset(
    {"format", "field", "id_field", "prefix", "suffix", "leading_space", "normalize"}
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
    from cdec.cli.runs.compiling import compile_set_file

    if options.token_ids:
        refuse_unused(_TEXT_ONLY, run.typed, "with --token-ids")
    report = compile_set_file(
        options,
        run,
        output=output_path(options.source, options.output, force=options.force),
        prefix=require_utf8(options.prefix, "--prefix"),
        suffix=require_utf8(options.suffix, "--suffix"),
        limits=_input_limits(options),
        memory_limit=parse_size(options.memory_limit, "--memory-limit"),
    )
    run.console.warn(report.notices)
    if options.json:
        print_json(run.console, set_summary(report))
    elif not options.quiet:
        print_table(run.console, set_rows(report))
    return 0


def _input_limits(options: Options) -> InputLimits:
    largest = parse_size(options.max_input_bytes, "--max-input-bytes")
    if largest is None:
        return options.input_limits
    return dataclasses.replace(options.input_limits, max_input_bytes=largest)


def output_path(source: str, output: Path | None, *, force: bool) -> Path:
    """Return where the artifact goes, before anything is read.

    Raises:
        UsageError: Stdin without ``-o``, or the output is the input.
        OutputExistsError: The file is there and ``force`` is off.
    """
    if output is None:
        if source == "-":
            raise unnamed_output("the entities come", "compile-set")
        path = Path(source.removesuffix(".gz").removesuffix(".xz"))
        output = path.with_suffix(".arrow") if path.name else path / ".arrow"
    return require_output(output, source, force=force)
