"""Entities of a set, taken from the rows of an input of any format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, TypeVar

from cdec.core.errors import CdecError, DataError, EncodingError, FieldError, JsonError, UsageError
from cdec.core.sets.entities import EntityBatch, TokenBatch
from cdec.data.entities.request import TEXT, BadLines, EntityRequest
from cdec.data.input.json_text import parse_json
from cdec.data.input.lines import LineBlock, decode_line, numbered_lines
from cdec.data.input.source import ENTITY_LIMITS, InputLimits, Source, SourceStats, source_name
from cdec.data.near import near_hint
from cdec.data.rows.formats import FORMATS, format_by_name
from cdec.data.rows.row import CsvRows, Row, Rows, TableRows
from cdec.data.rows.text import LineRows

Format = Literal["auto", "text", "json", "jsonl", "csv", "parquet", "arrow"]
BatchT = TypeVar("BatchT")

_BATCH = 1 << 14
_CSV_SAMPLE_LINES = 20
_HEADER_CELL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


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
        UsageError: ``field`` with a text source, ``no_header`` with no CSV, Parquet from a pipe.
        DataError, InputMissingError, LimitError: What the source holds, at its first step or later.
    """
    chosen = _format_of(source, format, field or id_field)
    if chosen == TEXT and (field or id_field):
        raise UsageError(
            f"{source_name(source)} is read as text lines, which have no field"
            f" {field or id_field!r}",
            hint="say `format` jsonl, csv, parquet or arrow",
        )
    if no_header and not (chosen in FORMATS and FORMATS[chosen].is_csv):
        raise UsageError(
            f"{source_name(source)} is read as {chosen}; `no_header` is about CSV and TSV",
            hint="leave it out, or say `format` csv",
        )
    request = EntityRequest(
        source,
        source_name(source),
        chosen,
        field or ("1" if no_header else None),
        id_field,
        no_header,
        bad_lines,
        limits,
        stats if stats is not None else SourceStats(),
    )
    return _finishing(_entities(request), request)


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
        DataError: A line that is no JSON array of token ids.
        InputMissingError, LimitError: As ``read_entities``.
    """
    request = EntityRequest(
        source,
        source_name(source),
        bad_lines=bad_lines,
        limits=limits,
        stats=stats if stats is not None else SourceStats(),
    )
    return _finishing(_token_rows(request), request)


def _format_of(source: Source, format: Format, field: str | None) -> str:
    """Return the format of an input, of ``FORMATS`` or ``text``."""
    by_name = format_by_name(source)
    if format == "csv" and by_name == "tsv":
        return by_name
    if format != "auto":
        return format
    if by_name in (None, "lines"):
        return "jsonl" if field else TEXT
    return by_name


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


def _entities(request: EntityRequest) -> Iterator[EntityBatch]:
    for rows in request.blocks():
        if isinstance(rows, CsvRows):
            yield _of_csv(rows, request)
        elif isinstance(rows, TableRows):
            from cdec.data.entities.table_cells import entities_in

            yield from entities_in(rows, request)
        elif isinstance(rows, LineRows) and request.format == TEXT:
            yield _of_text(rows.block, request)
        else:
            yield from _of_rows(rows, request)


def _of_rows(rows: Rows, request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield what any rows hold: the text field (and id field) of objects, or texts."""
    byte_offset = rows.block.byte_offset if isinstance(rows, LineRows) else 0
    each = iter(rows)
    while several := list(islice(each, _BATCH)):
        texts: list[str] = []
        ids: list[str] = []
        lines: list[int] = []
        for row in several:
            try:
                text, entity_id = _entity(row, request)
            except CdecError as error:
                request.refuse(error)
                continue
            texts.append(text)
            lines.append(row.line)
            if entity_id is not None:
                ids.append(entity_id)
        if texts:
            yield EntityBatch(texts, lines, ids if request.id_field else None, byte_offset)


def _entity(row: Row, request: EntityRequest) -> tuple[str, str | None]:
    if row.error is not None:
        raise row.error
    if row.text is not None and request.id_field is None:
        return row.text, None
    if row.fields is None:
        raise JsonError(
            f"{request.name}, {row.unit} {row.line} is no JSON object",
            hint='give one object a line, such as {"text": "Paris"}, or a text in quotes',
            line=row.line,
        )
    text = row.fields.get(request.field or TEXT)
    if not isinstance(text, str):
        raise _field_error(row, request, request.field or TEXT, "`field`", "a text")
    if request.id_field is None:
        return text, None
    entity_id = row.fields.get(request.id_field)
    if isinstance(entity_id, str):
        return text, entity_id
    if type(entity_id) is int:
        return text, str(entity_id)
    expected = "a text or an integer of 64 bits"
    raise _field_error(row, request, request.id_field, "`id_field`", expected)


def _field_error(
    row: Row, request: EntityRequest, name: str, option: str, expected: str
) -> FieldError:
    """Return the error of a field that is not there, or of another type."""
    place, fields = f"{request.name}, {row.unit} {row.line}", row.fields or {}
    problem = f": field {name!r} is {_kind(fields.get(name))}, {expected} was expected"
    hint = "correct the line, or leave such lines out with `bad_lines` skip"
    if name not in fields:
        listed = ", ".join(map(repr, fields)) or "none"
        problem = f" has no field {name!r}; its fields are {listed}"
        hint = near_hint(name, fields, f"name the field with {option}")
    return FieldError(place + problem, hint=hint, line=row.line, field=name)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "an integer", float: "a float", dict: "an object"}
    return kinds.get(type(value), "an array")


def _of_csv(rows: CsvRows, request: EntityRequest) -> EntityBatch:
    places = [rows.header.index(name) for name in request.columns(rows.header, None)]
    texts = [cells[places[0]] for cells in rows.cells]
    ids = None if request.id_field is None else [cells[places[-1]] for cells in rows.cells]
    request.stats.blank += texts.count("")
    return EntityBatch(texts, rows.lines, ids)


def _of_text(block: LineBlock, request: EntityRequest) -> EntityBatch:
    """Return whole lines as they are: a newline ends an entity, a CR before it is taken away.

    They are decoded and split at once; only a block with invalid UTF-8 is read line by line, to
    name the place.

    Raises:
        EncodingError: Invalid UTF-8 and ``bad_lines`` is not ``skip``.
    """
    try:
        text = block.data.decode()
    except UnicodeDecodeError:
        batch = _decodable_lines(block, request)
    else:
        batch = _whole_block(text, block, request)
    if block.line == 1:
        _notice_csv(batch.texts, request)
    request.stats.lines += len(batch.texts)
    request.stats.blank += batch.texts.count("")
    return batch


def _whole_block(text: str, block: LineBlock, request: EntityRequest) -> EntityBatch:
    if "\r\n" in text or text.endswith("\r"):
        text = text.replace("\r\n", "\n").removesuffix("\r")
        request.stats.notice_once(
            "W_CRLF", f"{request.name} has Windows line ends; the CR is no part of an entity"
        )
    texts = text.split("\n")  # subtle: not splitlines, which cuts at U+2028, VT, FF, NEL too
    if block.data.endswith(b"\n"):
        texts.pop()
    return EntityBatch(texts, range(block.line, block.line + len(texts)), None, block.byte_offset)


def _decodable_lines(block: LineBlock, request: EntityRequest) -> EntityBatch:
    texts: list[str] = []
    lines: list[int] = []
    for number, offset, data in numbered_lines(block):
        try:
            text = decode_line(data, request.name, number, offset)
        except EncodingError as error:
            request.stats.lines += 1
            request.refuse(error)
        else:
            texts.append(text)
            lines.append(number)
    return EntityBatch(texts, lines, None, block.byte_offset)


def _notice_csv(texts: Sequence[str], request: EntityRequest) -> None:
    """Warn where the first lines are a header and rows: each line becomes an entity all the same.

    A header's cells look like names of variables, and all rows have as many separators: titles with
    commas do not.
    """
    sample = [text for text in texts[:_CSV_SAMPLE_LINES] if text]
    for separator in ",\t;":
        counts = {text.count(separator) for text in sample}
        if len(sample) < 2 or len(counts) != 1 or counts == {0}:
            continue
        if all(_HEADER_CELL.fullmatch(cell) for cell in sample[0].split(separator)):
            request.stats.notice_once(
                "W_LOOKS_LIKE_CSV",
                f"{request.name} looks like a table with the columns"
                f" {', '.join(sample[0].split(separator))}; each line is one entity as it is;"
                " `format` csv `field` COLUMN would read one column",
            )
            return


def _token_rows(request: EntityRequest) -> Iterator[TokenBatch]:
    for block in request.blocks():
        if not isinstance(block, LineRows):
            for row in block:
                if row.error is not None:
                    request.refuse(row.error)
            continue
        rows: list[list[int]] = []
        lines: list[int] = []
        for line, offset, data in numbered_lines(block.block):
            request.stats.lines += 1
            if not data.strip():
                request.stats.blank += 1
                continue
            try:
                rows.append(_token_ids(data, line, offset, request.name))
            except CdecError as error:
                request.refuse(error)
            else:
                lines.append(line)
        if rows:
            yield TokenBatch(rows, lines)


def _token_ids(data: bytes, line: int, offset: int, name: str) -> list[int]:
    value = parse_json(data, name, line, offset)
    # subtle: True is an int to isinstance, not to type().
    if isinstance(value, list) and all(type(id) is int and id >= 0 for id in value):
        return value
    raise DataError(
        f"{name}, line {line} is no JSON array of token ids",
        hint="give one array of integers from 0 a line, such as [5, 17, 9]",
        line=line,
    )
