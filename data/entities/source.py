"""Reads the entities of a set, with the reader of their format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from cdec.core.errors import UsageError
from cdec.core.sets.entities import EntityBatch, TokenBatch
from cdec.data.entities.request import BadLines, EntityRequest
from cdec.data.input.decompress import SUFFIXES
from cdec.data.input.source import ENTITY_LIMITS, InputLimits, Source, SourceStats, source_name
from cdec.data.tables.dataset import is_dataset

Format = Literal["auto", "text", "json", "jsonl", "csv", "parquet", "arrow"]

_EXTENSIONS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

BatchT = TypeVar("BatchT")


def read_entities(
    source: Source,
    *,
    format: Format = "auto",
    field: str | None = None,
    id_field: str | None = None,
    no_header: bool = False,
    bad_lines: BadLines = "error",
    limits: InputLimits = ENTITY_LIMITS,
    stats: SourceStats | None = None,
) -> Iterator[EntityBatch]:
    """Yield a source's entities in batches, streaming.

    Blank lines of a text come out as empty texts: whether they are members is the compiler's
    decision. Those of other formats hold no record and are only counted. Compressions are
    recognised by content (not for Parquet).

    Args:
        source: Path or URL, ``"-"`` for stdin, a binary stream, or the folder of a saved dataset.
        format: ``auto`` goes by the extension, that of a compression after it left out of account;
            if the extension says nothing, text, or JSONL where ``field`` is given.
        field: Field or column with the texts, a column by its number too; ``text`` if not given.
        id_field: Field or column with the entity ids; without it the batches have no ids.
        no_header: Whether the first row of a CSV is one of texts, whose columns are called 1, 2,
            ...; the first is read if ``field`` is not given.
        bad_lines: ``skip`` counts lines that cannot be read in ``stats.skipped``.
        limits: Longest line and input.
        stats: Counts and notices; pass one to see them.

    Returns:
        An iterator of batches; nothing is opened before its first step. Text lines come at some
        millions a second, in memory of a few MiB.

    Raises:
        UsageError: ``field`` with a text source, ``no_header`` with what is no CSV, a Parquet file
            that is no file.
        InputMissingError, EncodingError, LineTooLongError, JsonError, FieldError, LimitError,
        DataError: What the source holds, at its first step or later.
    """
    chosen = _format_of(source, format, field or id_field)
    if chosen == "text" and (field or id_field):
        raise UsageError(
            f"{source_name(source)} is read as text lines, which have no field"
            f" {field or id_field!r}",
            hint="say `format` jsonl, csv, parquet or arrow",
        )
    if no_header and chosen != "csv":
        raise UsageError(
            f"{source_name(source)} is read as {chosen}; `no_header` is about CSV and TSV",
            hint="leave it out, or say `format` csv",
        )
    request = EntityRequest(
        source=source,
        name=source_name(source),
        field=field or ("1" if no_header else None),
        id_field=id_field,
        bad_lines=bad_lines,
        limits=limits,
        stats=stats if stats is not None else SourceStats(),
        no_header=no_header,
        is_csv=chosen == "csv",
        tabs=isinstance(source, str | Path) and _extension(source) == ".tsv",
    )
    return _finishing(_reader(chosen)(request), request)


def read_token_rows(
    source: Source,
    *,
    bad_lines: BadLines = "error",
    limits: InputLimits = ENTITY_LIMITS,
    stats: SourceStats | None = None,
) -> Iterator[TokenBatch]:
    """Yield entities given as token ids: one JSON array of ids a line.

    Args:
        source: Path, ``"-"`` for stdin, or a binary stream.
        bad_lines: ``skip`` counts lines that cannot be read in ``stats.skipped``.
        limits: Longest line and input.
        stats: Counts and notices; pass one to see them.

    Raises:
        JsonError: A line that is no JSON.
        DataError: JSON that is no array of token ids.
        InputMissingError, EncodingError, LineTooLongError, LimitError: As ``read_entities``.
    """
    from cdec.data.entities.jsonl import read_token_lines

    request = EntityRequest(
        source=source,
        name=source_name(source),
        field=None,
        id_field=None,
        bad_lines=bad_lines,
        limits=limits,
        stats=stats if stats is not None else SourceStats(),
    )
    return _finishing(read_token_lines(request), request)


def _reader(format: Format) -> Callable[[EntityRequest], Iterator[EntityBatch]]:
    """Import one format's reader: pyarrow must not cost those who read text."""
    if format == "jsonl":
        from cdec.data.entities.jsonl import read_jsonl

        return read_jsonl
    if format == "json":
        from cdec.data.entities.jsonl import read_json

        return read_json
    if format == "csv":
        from cdec.data.entities.csv import read_csv

        return read_csv
    if format == "arrow":
        from cdec.data.entities.arrow import read_arrow

        return read_arrow
    if format == "parquet":
        from cdec.data.entities.parquet import read_parquet

        return read_parquet
    from cdec.data.entities.text import read_text_lines

    return read_text_lines


def _format_of(source: Source, format: Format, field: str | None) -> Format:
    if format != "auto":
        return format
    if isinstance(source, str | Path) and is_dataset(source):
        return "arrow"
    by_extension = _EXTENSIONS.get(_extension(source)) if isinstance(source, str | Path) else None
    return by_extension or ("jsonl" if field else "text")


def _extension(path: str | Path) -> str:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _finishing(batches: Iterator[BatchT], request: EntityRequest) -> Iterator[BatchT]:
    """Pass batches on, and report what was skipped once the source has ended."""
    yield from batches
    skipped = request.stats.skipped
    if skipped:
        request.stats.notice_once(
            "W_BAD_LINES",
            f"{request.name}: {skipped} bad line{'s' if skipped > 1 else ''} skipped",
            skipped=skipped,
        )
