"""``cdec compile-grammar``: a grammar becomes a grammar artifact."""

from __future__ import annotations

import itertools
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.compiling.grammar_record import recorded_grammar
from cdec.cli.compiling.grammar_source import GrammarSource, read_source
from cdec.cli.compiling.in_child import Job, compile_one
from cdec.cli.compiling.made_from import hash_of
from cdec.cli.frame.command import Run
from cdec.cli.frame.summaries import grammar_rows
from cdec.cli.options import shared
from cdec.cli.options.compiling import CompileOptions, require_output, unnamed_output
from cdec.cli.options.record_sources import GrammarLimitOptions, parse_whitespace
from cdec.cli.options.shared import require_utf8
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import PRECOMPUTE, Dialect
from cdec.core.errors import InputMissingError
from cdec.core.options import option

if TYPE_CHECKING:
    from cdec.compilers import GrammarOptions


@dataclass(frozen=True, kw_only=True)
class SourceOptions(CompileOptions):
    """What ``cdec compile-grammar`` reads and writes; the documented defaults stand here."""

    source: str = option(
        MISSING,
        "A grammar; `-` is stdin; or the name of a shipped one: json.",
        metavar="FILE",
        positional=True,
    )
    format: Dialect = option(
        "auto",
        "Dialect; auto goes by the file's ending, and is lark where that says nothing.",
        shared.INPUT,
        common=True,
    )
    start: str | None = option(
        None,
        "Start rule; `start` (ebnf: `root`) if not given.",
        shared.INPUT,
        metavar="NAME",
        common=True,
    )
    lexer: Lexer | None = option(
        None,
        "How text is cut into terminals; contextual where LALR(1) tables lose no text, else "
        "dynamic.",
        shared.INPUT,
        common=True,
    )
    allow_imports: Path | None = option(
        None, "Let %import read grammars in this folder.", shared.INPUT, metavar="DIR"
    )
    indenter: str | None = option(
        None,
        "What makes terminals of indentation: `python`, Lark's PythonIndenter, or what differs "
        "from it: `NL_type=_NL,tab_len=4`.",
        shared.INPUT,
        metavar="NAME",
    )
    precompute: int = option(
        PRECOMPUTE,
        "Steps of masks that are computed now; the others are while decoding.",
        shared.LIMITS,
        at_least=0,
    )


@dataclass(frozen=True, kw_only=True)
class Options(GrammarLimitOptions, SourceOptions):
    """Options of ``cdec compile-grammar``: sources first, then limits."""


def execute(options: Options, run: Run) -> int:
    """Compile a grammar into an artifact.

    The grammar is Lark's EBNF, or `::=` EBNF as GBNF files have it. The artifact holds scanner,
    parse tables and subterminal trees for one tokenizer. The summary goes to stdout, warnings to
    stderr. Grammars that ship: json, jsonl, csv, arithmetic, c, xml, sql, sexpr and more; a file of
    the same name wins.

    \b
    Examples:
      cdec compile-grammar json
      cdec compile-grammar query.lark --tokenizer gpt2 -o query.arrow --start select
      cdec compile-grammar chess.gbnf --model ./my-model
      cat g.ebnf | cdec compile-grammar - --format ebnf -o g.arrow
    """
    source = read_source(options.source, options.grammar_limits.max_grammar_bytes)
    if source.shipped is not None:
        missing = "" if source.name == source.shipped else f"; there is no file {source.name} here"
        run.console.note(f"grammar: the shipped {source.shipped}{missing}")
    grammar_options = _grammar_options(options, source)
    job = Job(
        kind="grammar",
        data=source.data,
        output=output_path(source, options.output),
        compiled_with=grammar_options,
        decided_by=_deciding(grammar_options),
        recorded=recorded_grammar,
        rows=grammar_rows,
    )
    return compile_one(job, options, run)


def _grammar_options(options: Options, source: GrammarSource) -> GrammarOptions:
    from cdec.compilers import GrammarOptions

    folder = options.allow_imports
    if folder is not None and not folder.is_dir():
        raise InputMissingError(
            f"--allow-imports names {folder}, which is no folder", hint="name an existing folder"
        )
    return GrammarOptions(
        start=None if options.start is None else require_utf8(options.start, "--start"),
        lexer=options.lexer,
        format=source.dialect if options.format == "auto" else options.format,
        limits=options.grammar_limits,
        allow_imports=None if folder is None else folder.absolute(),
        name=source.name,
        max_whitespace=parse_whitespace(options),
        precompute=options.precompute,
        indenter=options.indenter,
    )


def _deciding(options: GrammarOptions) -> dict[str, object]:
    """Return what decides the artifact, the grammars of a folder to import from by their text."""
    values = options.deciding()
    if options.allow_imports is not None:
        files = sorted(options.allow_imports.rglob("*.lark"))
        texts = ((str(file), file.read_bytes()) for file in files if file.is_file())
        values["allow_imports"] = hash_of(itertools.chain.from_iterable(texts))
    return values


def output_path(source: GrammarSource, output: Path | None) -> Path:
    """Return where the artifact goes.

    Raises:
        UsageError: Stdin without ``-o``, or the output is the input.
    """
    if output is None:
        if not source.stem:
            raise unnamed_output("the grammar comes", "compile-grammar")
        output = source.folder / f"{source.stem}.arrow"
    return require_output(output, source.name)
