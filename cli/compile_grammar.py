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
from cdec.cli.options.compiling import CompileOptions, require_output, unnamed_output
from cdec.cli.options.grammar_limits import GrammarLimitOptions
from cdec.cli.options.next_command import next_command
from cdec.cli.options.shared import require_utf8
from cdec.cli.runs.models import load_vocabulary
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import Dialect
from cdec.core.errors import InputMissingError, LimitError

if TYPE_CHECKING:
    from cdec.compilers import GrammarOptions, GrammarReport

_EBNF_ENDINGS = (".ebnf", ".gbnf")
_COMPRESSED = (".gz", ".xz")


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
            common=True,
        ),
    ] = "auto"
    start: Annotated[
        str | None,
        Declared(
            "Start rule; `start` (ebnf: `root`) if not given.",
            shared.INPUT,
            metavar="NAME",
            common=True,
        ),
    ] = None
    lexer: Annotated[
        Lexer | None,
        Declared(
            "How text is cut into terminals; contextual where the grammar is LALR(1), else "
            "dynamic.",
            shared.INPUT,
            common=True,
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
    if source.shipped is not None:
        missing = "" if source.name == source.shipped else f"; there is no file {source.name} here"
        run.console.note(f"grammar: the shipped {source.shipped}{missing}")
    output = output_path(source, options.output, force=options.force)
    report = _compile(options, run, source, output, _grammar_options(options, source))
    run.console.warn(report.notices)
    if options.json:
        print_json(run.console, report.to_json() | {"notices": notice_objects(report.notices)})
    elif not options.quiet:
        print_table(run.console, grammar_rows(report))
        run.console.note(f"next: {next_command(output, options, 'For example: ')}")
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
        format=source.dialect if options.format == "auto" else options.format,
        limits=options.grammar_limits,
        allow_imports=None if folder is None else folder.absolute(),
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


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """A grammar's text and what its name says of it.

    Attributes:
        name: As typed, for messages.
        dialect: By the ending of the file; ``auto`` where it says nothing.
        data: The text, undecoded.
        stem: File name without endings; empty for stdin.
        folder: Where an artifact goes that was not named.
        shipped: Name of the shipped grammar that it is; None for a file of one's own.
    """

    name: str
    dialect: Dialect
    data: bytes
    stem: str
    folder: Path
    shipped: str | None = None


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
    path, folder, shipped = _located(name)
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
        shipped,
    )


def _located(name: str) -> tuple[Path, Path, str | None]:
    """Return the file to read, the folder for the artifact, and the shipped grammar it is."""
    path = Path(name)
    if name == "-" or path.is_file():
        return path, path.parent, None
    from cdec.data.assets import grammar_names, grammar_path

    # A shipped grammar may be called by its own name or by its file's, never by that of another
    # folder; a folder that happens to be called so is no grammar.
    stem = name.removesuffix(".lark").removesuffix(".ebnf")
    if stem in grammar_names() and name in (stem, grammar_path(stem).name):
        return grammar_path(stem), Path(), stem
    if path.exists():
        return path, path.parent, None
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
