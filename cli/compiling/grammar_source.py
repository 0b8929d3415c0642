"""Where the text of a grammar lies: a file, stdin, or one of those that ship."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from cdec.cli.compiling.reading import plain_name, read_whole, stem_of
from cdec.compilers.grammars.options import Dialect
from cdec.core.errors import DataError, InputMissingError

_EBNF_ENDINGS = (".ebnf", ".gbnf")


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
        DataError: JSON.
    """
    path, folder, shipped = _located(name)
    dialect: Dialect = "ebnf" if path.name.endswith(_EBNF_ENDINGS) else "auto"
    if plain_name(name).endswith(_EBNF_ENDINGS):
        dialect = "ebnf"
    data = read_whole(name if name == "-" else path, max_bytes, "max_grammar_bytes")
    _refuse_json(name, data)
    return GrammarSource(
        "stdin" if name == "-" else name,
        dialect,
        data,
        stem_of(name),
        folder,
        shipped,
    )


def _refuse_json(name: str, data: bytes) -> None:
    """Refuse a JSON document, perhaps a JSON Schema, which is no grammar.

    Raises:
        DataError: It is one.
    """
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
