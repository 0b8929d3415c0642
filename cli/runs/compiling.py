"""What compile commands read: entities, or a grammar from a file, stdin or those shipped."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.options.compiling import require_output, unnamed_output
from cdec.cli.runs.inputs import read_denied, require_input
from cdec.cli.runs.models import load_vocabulary
from cdec.core.errors import InputMissingError, LimitError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.progress import Progress
    from cdec.cli.options.compiling import SetOptions
    from cdec.compilers import SetProgress, SetReport
    from cdec.compilers.grammars.options import Dialect
    from cdec.data.input.source import InputLimits, SourceStats

_EBNF_ENDINGS = (".ebnf", ".gbnf")
_COMPRESSED = (".gz", ".xz")


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """A grammar's text and what its name says of it.

    Attributes:
        name: As typed, for messages.
        dialect: By the ending of the file; ``auto`` where it says nothing.
        data: The text, undecoded.
        stem: File name without endings; empty for stdin.
        folder: Where an artifact goes that was not named.
    """

    name: str
    dialect: Dialect
    data: bytes
    stem: str
    folder: Path


def read_source(name: str, max_bytes: int) -> GrammarSource:
    """Read a grammar; a file on disk wins over a shipped grammar of the same name.

    Args:
        name: A path, ``-`` for stdin, or the name of a shipped grammar such as ``json``.
        max_bytes: Limit on the text, after decompression.

    Raises:
        InputMissingError: Neither a file nor a shipped grammar.
        LimitError: Longer than the limit.
        EncodingError: UTF-16 or UTF-32.
    """
    path, folder = _located(name)
    plain = name
    for ending in _COMPRESSED:
        plain = plain.removesuffix(ending)
    dialect: Dialect = "ebnf" if path.name.endswith(_EBNF_ENDINGS) else "auto"
    if plain.endswith(_EBNF_ENDINGS):
        dialect = "ebnf"
    data = _read(name if name == "-" else path, max_bytes)
    return GrammarSource(
        "stdin" if name == "-" else name,
        dialect,
        data,
        "" if name == "-" else Path(plain).stem,
        folder,
    )


def _located(name: str) -> tuple[Path, Path]:
    """Return the file to read and the folder for the artifact."""
    path = Path(name)
    if name == "-" or path.exists():
        return path, path.parent
    from cdec.data.assets import grammar_names, grammar_path

    if name in grammar_names():
        return grammar_path(name), Path()
    shipped = ", ".join(grammar_names())
    raise InputMissingError(
        f"no such file: {name}; and no grammar of this name is shipped",
        hint=f"check the name, give - for stdin, or name a shipped grammar: {shipped}",
        path=name,
    )


def _read(source: str | Path, max_bytes: int) -> bytes:
    from cdec.data.input.source import (
        ENTITY_LIMITS,
        SourceStats,
        open_source,
        read_chunks,
        source_name,
    )

    data = bytearray()
    name = source_name(source)
    with open_source(source) as stream:
        for chunk in read_chunks(stream, name, limits=ENTITY_LIMITS, stats=SourceStats()):
            data += chunk
            if len(data) > max_bytes:
                raise LimitError(
                    f"{name} has more than {max_bytes} bytes",
                    hint="raise --max-grammar-bytes, or make the grammar smaller",
                    limit="max_grammar_bytes",
                )
    return bytes(data)


def output_path(source: GrammarSource, output: Path | None, *, force: bool) -> Path:
    """Return where the artifact goes.

    Raises:
        UsageError: Stdin without ``-o``, or the output is the input.
        OutputExistsError: The file is there and ``force`` is off.
    """
    if output is None:
        if not source.stem:
            raise unnamed_output("the grammar comes", "compile-grammar")
        output = source.folder / f"{source.stem}.arrow"
    return require_output(output, source.name, force=force)


def compile_set_file(
    options: SetOptions,
    run: Run,
    *,
    output: Path,
    prefix: str,
    suffix: str,
    limits: InputLimits,
    memory_limit: int | None,
) -> SetReport:
    """Read entities (or token rows), compile them, and return the report with all notices."""
    from cdec.compilers import compile_set, compile_token_set
    from cdec.data.input.source import SourceStats

    require_input(options.source)
    deny = read_denied(options.deny)
    stats = SourceStats()
    source = _begun(_source(options, limits, stats))
    vocabulary, name = load_vocabulary(options.tokenizer, options.model, options.revision)
    run.console.note(f"tokenizer: {name}")
    with run.console.progress("entities") as progress:
        shared: dict[str, Any] = {
            "deny": deny,
            "keep_empty": options.keep_empty,
            "bad_lines": options.bad_lines,
            "memory_limit": memory_limit,
            "limits": options.set_limits,
            "source": "stdin" if options.source == "-" else options.source,
            "force": options.force,
            "progress": _progress(progress),
        }
        if options.token_ids:
            report = compile_token_set(source, vocabulary, output, **shared)
        else:
            shared |= {"leading_space": options.leading_space, "normalize": options.normalize}
            shared |= {"prefix": prefix, "suffix": suffix}
            report = compile_set(source, vocabulary, output, **shared)
    return _with_reading(report, stats)


def _source(options: SetOptions, limits: InputLimits, stats: SourceStats) -> Any:
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
        **reading,
    )


def _begun(batches: Iterator[Any]) -> Iterator[Any]:
    """Read the first batch now: what is bad at once is refused before a tokenizer loads."""
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)


def _progress(progress: Progress) -> Any:
    def update(state: SetProgress) -> None:
        progress.update(state.phase, state.done, state.total)

    return update


def _with_reading(report: SetReport, stats: SourceStats) -> SetReport:
    """Add what the reader skipped and warned of to the compiler's report."""
    return dataclasses.replace(
        report,
        skipped=report.skipped + stats.skipped,
        notices=[*stats.notices, *report.notices],
    )
