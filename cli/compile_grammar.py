"""``cdec compile-grammar``: a grammar becomes a grammar artifact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import Declared
from cdec.cli.frame.grammar_summary import grammar_rows
from cdec.cli.frame.tables import print_json, print_table
from cdec.cli.frame.typed import notice_objects
from cdec.cli.options import shared
from cdec.cli.options.compiling import CompileOptions
from cdec.cli.options.grammar_limits import GrammarLimitOptions
from cdec.cli.options.shared import require_utf8
from cdec.cli.runs.compiling import GrammarSource, output_path, read_source
from cdec.cli.runs.models import load_vocabulary
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import Dialect
from cdec.core.errors import InputMissingError

if TYPE_CHECKING:
    from cdec.compilers import GrammarOptions, GrammarReport


@dataclass(frozen=True, kw_only=True)
class SourceOptions(CompileOptions):
    """What ``cdec compile-grammar`` reads and writes; the documented defaults stand here."""

    source: Annotated[
        str,
        Declared(
            "A grammar; `-` is stdin; or the name of a shipped one: json.",
            metavar="FILE",
            positional=True,
        ),
    ]
    format: Annotated[
        Dialect,
        Declared(
            "Dialect; auto goes by the file's ending, and is lark where that says nothing.",
            shared.INPUT,
        ),
    ] = "auto"
    start: Annotated[
        str | None,
        Declared("Start rule; `start` (ebnf: `root`) if not given.", shared.INPUT, metavar="NAME"),
    ] = None
    lexer: Annotated[
        Lexer | None,
        Declared(
            "How text is cut into terminals; contextual where the grammar is LALR(1), else "
            "dynamic.",
            shared.INPUT,
        ),
    ] = None
    allow_imports: Annotated[
        Path | None,
        Declared("Let %import read grammars in this folder.", shared.INPUT, metavar="DIR"),
    ] = None


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
    output = output_path(source, options.output, force=options.force)
    report = _compile(options, run, source, output, _grammar_options(options, source))
    run.console.warn(report.notices)
    if options.json:
        print_json(run.console, report.to_json() | {"notices": notice_objects(report.notices)})
    elif not options.quiet:
        print_table(run.console, grammar_rows(report))
    return 0


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
        dialect=source.dialect if options.format == "auto" else options.format,
        limits=options.grammar_limits,
        import_folder=None if folder is None else folder.absolute(),
        name=source.name,
    )


def _compile(
    options: Options,
    run: Run,
    source: GrammarSource,
    output: Path,
    grammar_options: GrammarOptions,
) -> GrammarReport:
    """Compile in the limited child, which starts while the tokenizer is read."""
    from cdec.compilers import ChildCompiler

    with ChildCompiler() as child:
        vocabulary, name = load_vocabulary(options.tokenizer, options.model, options.revision)
        run.console.note(f"tokenizer: {name}")
        with run.console.progress("phases") as progress:
            done = 0

            def tell(phase: str) -> None:
                nonlocal done
                progress.update(phase, done, None)
                done += 1

            return child.compile(
                source.data,
                vocabulary,
                output,
                grammar_options,
                force=options.force,
                progress=tell,
            )
