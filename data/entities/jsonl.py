"""Reads entities from JSON: objects with a text field or quoted texts, or arrays of token ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from cdec.core.errors import CdecError, DataError, FieldError, JsonError
from cdec.core.sets.entities import EntityBatch, TokenBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.input.json_text import UNIT, JsonValues, Value, parse_json
from cdec.data.input.lines import LineBlock, LongLine, numbered_lines
from cdec.data.input.source import open_source, read_chunks
from cdec.data.near import near_hint

DEFAULT_FIELD = "text"
_BATCH = 1 << 14
_AS_TEXTS = "say with `format` text that its lines are texts"


def read_jsonl(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield the text field (and id field) of one JSON object a line, or the quoted text of a line.

    Ids that are integers become their decimal text.

    Raises:
        JsonError, FieldError, EncodingError: A bad line, unless ``bad_lines`` is ``skip``.
    """
    for block in request.blocks():
        parsed = _parsed_lines(block, request)
        yield from _batch(parsed, request, "line", block.byte_offset)


def read_json(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield what ``read_jsonl`` would, of the elements of an array; line numbers count these.

    Raises:
        JsonError: It is no JSON, or ends within a record.
        FieldError, EncodingError, LineTooLongError: A bad record, unless ``bad_lines`` is ``skip``.
    """
    with open_source(request.source) as stream:
        chunks = read_chunks(stream, request.name, limits=request.limits, stats=request.stats)
        values = iter(JsonValues(chunks, request.name, request.limits, _AS_TEXTS))
        while several := list(islice(values, _BATCH)):
            yield from _batch(_parsed_values(several, request), request, UNIT, 0)


def _batch(
    parsed: Iterator[tuple[int, object]], request: EntityRequest, unit: str, byte_offset: int
) -> Iterator[EntityBatch]:
    texts: list[str] = []
    ids: list[str] = []
    lines: list[int] = []
    for line, record in parsed:
        try:
            text, entity_id = _entity(record, request, line, unit)
        except CdecError as error:
            request.refuse(error)
            continue
        texts.append(text)
        lines.append(line)
        if entity_id is not None:
            ids.append(entity_id)
    if texts:
        yield EntityBatch(texts, lines, ids if request.id_field else None, byte_offset)


def _parsed_values(
    values: list[Value | LongLine], request: EntityRequest
) -> Iterator[tuple[int, object]]:
    for value in values:
        request.stats.lines += 1
        try:
            if isinstance(value, LongLine):
                raise value.error(request.name, request.limits)
            number, offset, data = value
            parsed = parse_json(data, request.name, number, offset, UNIT)
        except CdecError as error:
            request.refuse(error)
        else:
            yield number, parsed


def read_token_lines(request: EntityRequest) -> Iterator[TokenBatch]:
    """Yield one entity a line, given as a JSON array of token ids.

    Raises:
        JsonError, DataError, EncodingError: A bad line, unless ``bad_lines`` is ``skip``.
    """
    for block in request.blocks():
        rows: list[list[int]] = []
        lines: list[int] = []
        for line, value in _parsed_lines(block, request):
            # subtle: True is an int to isinstance, not to type().
            if isinstance(value, list) and all(type(id) is int and id >= 0 for id in value):
                rows.append(value)
                lines.append(line)
                continue
            request.refuse(
                DataError(
                    f"{request.name}, line {line} is no JSON array of token ids",
                    hint="give one array of integers from 0 a line, such as [5, 17, 9]",
                    line=line,
                )
            )
        if rows:
            yield TokenBatch(rows, lines)


def _parsed_lines(block: LineBlock, request: EntityRequest) -> Iterator[tuple[int, object]]:
    for line, offset, data in numbered_lines(block):
        request.stats.lines += 1
        if not data.strip():
            request.stats.blank += 1
            continue
        try:
            value = parse_json(data, request.name, line, offset)
        except CdecError as error:
            request.refuse(error)
        else:
            yield line, value


def _entity(record: object, request: EntityRequest, line: int, unit: str) -> tuple[str, str | None]:
    place = f"{request.name}, {unit} {line}"
    if isinstance(record, str) and request.id_field is None:
        return record, None
    if not isinstance(record, dict):
        raise JsonError(
            f"{place} is no JSON object",
            hint='give one object a line, such as {"text": "Paris"}, or a text in quotes',
            line=line,
        )
    name = request.field or DEFAULT_FIELD
    text = _present(record, name, place, line, "`field`")
    if not isinstance(text, str):
        raise _field_error(place, line, name, f"is {_kind(text)}, a text was expected")
    if request.id_field is None:
        return text, None
    entity_id = _present(record, request.id_field, place, line, "`id_field`")
    if isinstance(entity_id, str):
        return text, entity_id
    if isinstance(entity_id, int) and not isinstance(entity_id, bool):
        return text, str(entity_id)
    found = f"is {_kind(entity_id)}, a text or an integer of 64 bits was expected"
    raise _field_error(place, line, request.id_field, found)


def _present(record: dict[str, object], name: str, place: str, line: int, option: str) -> object:
    if name not in record:
        fields = ", ".join(map(repr, record)) or "none"
        raise FieldError(
            f"{place} has no field {name!r}; its fields are {fields}",
            hint=near_hint(name, record, f"name the field with {option}"),
            line=line,
            field=name,
        )
    return record[name]


def _field_error(place: str, line: int, name: str, found: str) -> FieldError:
    return FieldError(
        f"{place}: field {name!r} {found}",
        hint="correct the line, or leave such lines out with `bad_lines` skip",
        line=line,
        field=name,
    )


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "an integer", float: "a float", dict: "an object"}
    return kinds.get(type(value), "an array")
