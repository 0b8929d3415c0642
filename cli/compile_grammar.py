"""``cdec compile-grammar``: a grammar becomes a grammar artifact."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.compiling.jobs import CompileOptions, TextJob, compile_one, recorded_summary
from cdec.cli.compiling.sources import (
    hash_of,
    object_of,
    output_path,
    plain_name,
    read_whole,
    stem_of,
)
from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import option
from cdec.cli.frame.kinds import (
    CompileCommand,
    Described,
    Rows,
    count,
    part,
    piped,
    shown_seconds,
    shown_soundness,
    source_name,
)
from cdec.cli.frame.tables import shown_bytes
from cdec.cli.options import shared
from cdec.cli.options.record_sources import (
    GrammarLimitOptions,
    parse_whitespace,
    pinned_sets,
    pinned_sets_option,
)
from cdec.cli.options.shared import require_utf8
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import PRECOMPUTE, Dialect, GrammarOptions
from cdec.core.errors import DataError, InputMissingError

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport
    from cdec.core.artifacts.read import ArtifactFile

_EBNF_ENDINGS = (".ebnf", ".gbnf")


@dataclass(frozen=True, kw_only=True)
class SourceOptions(CompileOptions):
    """Options of ``cdec compile-grammar``; the documented defaults stand here."""

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
    sets: list[str] = pinned_sets_option()
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
    source = read_grammar(options.source, options.grammar_limits.max_grammar_bytes)
    if source.shipped is not None:
        missing = "" if source.name == source.shipped else f"; there is no file {source.name} here"
        run.console.note(f"grammar: the shipped {source.shipped}{missing}")
    grammar_options = _grammar_options(options, source)
    beside = source.folder / f"{source.stem}.arrow" if source.stem else None
    job = TextJob(
        command=GRAMMARS,
        options=options,
        run=run,
        data=source.data,
        output=output_path(
            options.output, beside, source.name, "the grammar comes", "compile-grammar"
        ),
        compiled_with=grammar_options,
        decided_by=_deciding(grammar_options),
    )
    return compile_one(job)


def _grammar_options(options: Options, source: GrammarText) -> GrammarOptions:
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
        set_digests=pinned_sets(options.sets),
    )


def _deciding(options: GrammarOptions) -> dict[str, object]:
    """Return what decides the artifact, the grammars of a folder to import from by their text."""
    values = options.deciding()
    if options.allow_imports is not None:
        files = sorted(options.allow_imports.rglob("*.lark"))
        texts = ((str(file), file.read_bytes()) for file in files if file.is_file())
        values["allow_imports"] = hash_of(itertools.chain.from_iterable(texts))
    return values


@dataclass(frozen=True, slots=True)
class GrammarText:
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


def read_grammar(name: str, max_bytes: int) -> GrammarText:
    """Read a grammar; a file on disk wins over a shipped grammar of the same name.

    Args:
        name: A path, ``-`` for stdin, or the name of a shipped grammar such as ``json``.
        max_bytes: Limit on the text, after decompression.
    """
    path, folder, shipped = _located(name)
    dialect: Dialect = "ebnf" if path.name.endswith(_EBNF_ENDINGS) else "auto"
    if plain_name(name).endswith(_EBNF_ENDINGS):
        dialect = "ebnf"
    data = read_whole(name if name == "-" else path, max_bytes, "max_grammar_bytes")
    _refuse_json(name, data)
    shown = "stdin" if name == "-" else name
    return GrammarText(shown, dialect, data, stem_of(name), folder, shipped)


def _refuse_json(name: str, data: bytes) -> None:
    """Refuse a JSON document, perhaps a JSON Schema, which is no grammar."""
    import orjson

    if data.lstrip()[:1] not in (b"{", b"["):
        return
    try:
        orjson.loads(data)
    except ValueError:
        return
    raise DataError(
        f"{'stdin' if name == '-' else name} is a JSON document, expected a grammar (Lark or GBNF)",
        hint=f"cdec compile-schema {name} compiles a JSON Schema; cdec compile-grammar json allows "
        "any JSON",
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
    near = get_close_matches(name, grammar_names(), n=1)
    meant = f"did you mean the shipped grammar {near[0]}? " if near else ""
    raise InputMissingError(
        f"no such file: {name}; and no grammar of this name is shipped",
        hint=f"{meant}Check the name, give - for stdin, or name a shipped grammar: {shipped}",
        path=name,
    )


def grammar_rows(report: GrammarReport) -> Rows:
    """Return the report as names and values of a table."""
    counts = report.counts
    return [
        ("artifact", str(report.path)),
        ("start rule", report.start),
        ("lexer", f"{report.lexer} ({report.lexer_reason})"),
        ("sound", shown_soundness(is_sound=report.is_sound, reason=report.sound_reason)),
        ("terminals", f"{counts['terminals']:,}, {counts['ignored']:,} of them ignored"),
        *([("ignored blanks", _shown_whitespace(report.max_whitespace))] if report.blanks else []),
        *([("indentation", report.indenter)] if report.indenter else []),
        ("rules", f"{counts['rules']:,} of {counts['nonterminals']:,} nonterminals"),
        ("parser states", f"{counts['lr_states']:,}"),
        ("scanner states", f"{counts['scanner_states']:,} in {counts['contexts']:,} contexts"),
        ("trees", f"{counts['trees']:,} with {counts['path_nodes']:,} nodes"),
        ("token groups", f"{counts['groups']:,}"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", shown_seconds(report)),
    ]


def _shown_whitespace(most: int | None) -> str:
    """Return the bound on ignored blanks as one phrase."""
    if most is None:
        return "any number"
    return f"at most {most} in a row (max_whitespace)" if most else "none (max_whitespace)"


def recorded_grammar(file: ArtifactFile) -> dict[str, Any]:
    """Return the summary of an artifact that is there, in the words of a report."""
    options = object_of(file, "cdec.options")
    described = {
        **{name: options.get(name) for name in ("lexer", "lexer_reason", "start", "dialect")},
        "sound": file.metadata.get("cdec.sound") == "1",
        "sound_reason": file.metadata.get("cdec.sound_reason", ""),
        "blanks": options.get("blanks", ""),
        "max_whitespace": options.get("max_whitespace"),
        "precompute": options.get("precompute", 0),
        "indenter": options.get("indenter"),
    }
    return recorded_summary(file, described)


def _overview(described: Described) -> tuple[str, Rows]:
    counts, options = part(described, "counts"), part(described, "options")
    is_sound, reason = bool(described.get("sound")), str(described.get("sound_reason", ""))
    return f"a grammar of {count(counts, 'rules')} rules", [
        ("terminals", f"{count(counts, 'terminals')}, {count(counts, 'ignored')} ignored"),
        ("start rule", str(options.get("start", "?"))),
        ("lexer", f"{options.get('lexer', '?')}: {options.get('lexer_reason', '')}"),
        ("sound", shown_soundness(is_sound=is_sound, reason=reason)),
    ]


def _again(path: Path, described: Described) -> str:
    from cdec.data.assets import grammar_names

    options, name = described["options"], source_name(described)
    is_there = name is not None and (name in grammar_names() or Path(name).is_file())
    words = ["cdec", "compile-grammar", str(name) if is_there else "-"]
    words += ["--format", options["dialect"]] if not is_there else []
    words += ["--start", options["start"], "--lexer", options["lexer"]]
    words += shared.set_words(list(described.get("set_digests") or {}))
    return shlex.join(words) if is_there else piped(path, "grammar", words)


GRAMMARS = CompileCommand(
    kind="grammar",
    rows=grammar_rows,
    recorded=recorded_grammar,
    overview=_overview,
    again=_again,
)
