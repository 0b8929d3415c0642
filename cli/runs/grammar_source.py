"""Where a grammar's text comes from: a file, stdin or the grammars that ship with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.compiling import require_output, unnamed_output
from cdec.core.errors import InputMissingError, LimitError

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import Dialect

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
