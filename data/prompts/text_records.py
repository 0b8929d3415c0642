"""Reads records of texts, one a line: the line itself, or a JSON object with ``text``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cdec.core.errors import CdecError, FieldError
from cdec.core.record_fields import RECORD_FIELDS
from cdec.data.ids import RecordId
from cdec.data.input.json_text import parse_json
from cdec.data.input.lines import LineBlocks, LongLine, decode_line, numbered_lines
from cdec.data.input.source import (
    PROMPT_LIMITS,
    InputLimits,
    Source,
    SourceStats,
    open_source,
    read_chunks,
    source_name,
)
from cdec.data.prompts.fields import RecordFields
from cdec.data.prompts.record import BadRecord

RecordT = TypeVar("RecordT")
_SAMPLE_FIELDS = frozenset(field.name for field in RECORD_FIELDS)


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One checked record.

    Attributes:
        id: Its own id; None where it has none.
        line: 1-based line in the input.
        text: The text.
        prompt: What stands before the text; None leaves it to the run.
    """

    id: RecordId | None
    line: int
    text: str
    prompt: str | None = None


def read_texts(
    source: Source,
    *,
    field: str = "text",
    limits: InputLimits = PROMPT_LIMITS,
    stats: SourceStats | None = None,
) -> Iterator[TextRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` is a JSON object with the text in ``field``, and perhaps ``id``
    and ``prompt``; any other line is the text itself. Blank lines are skipped.

    Args:
        source: Path, ``"-"`` for stdin, or a binary stream.
        field: Name of the text's field.
        limits: A longer line becomes a ``BadRecord``; a longer input is an error.
        stats: Counts and notices; pass one to see them.

    Raises:
        InputMissingError: The source cannot be read.
        EncodingError: It is UTF-16 or UTF-32 (a line that is not UTF-8 is a ``BadRecord``).
        LimitError: It is too long, or a decompression bomb.
    """
    return read_lines(source, partial(_record, field=field), limits=limits, stats=stats)


def read_lines(
    source: Source,
    parse: Callable[[bytes, str, int, int], RecordT],
    *,
    limits: InputLimits,
    stats: SourceStats | None,
) -> Iterator[RecordT | BadRecord]:
    """Yield what ``parse`` makes of the lines of an input that are not blank, as they arrive.

    Args:
        source: Path, ``"-"`` for stdin, or a binary stream.
        parse: Takes a line's bytes, the input's name, the number of the line from 1 and the place
            of its first byte from 0.
        limits: A longer line becomes a ``BadRecord``; a longer input is an error.
        stats: Counts and notices; pass one to see them.

    Raises:
        As ``read_texts``.
    """
    stats = stats if stats is not None else SourceStats()
    name = source_name(source)
    with open_source(source) as stream:
        chunks = read_chunks(stream, name, limits=limits, stats=stats)
        for event in LineBlocks(chunks, name, limits, keep_going=True):
            if isinstance(event, LongLine):
                stats.lines += 1
                yield BadRecord(f"line {event.line}", event.line, event.error(name, limits))
                continue
            for line, offset, data in numbered_lines(event):
                stats.lines += 1
                if data.strip():
                    yield parse(data, name, line, offset)
                else:
                    stats.blank += 1
    if stats.lines == stats.blank:
        stats.notice_once("W_NO_INPUT", f"{name} holds no records")


def _record(
    data: bytes, name: str, line: int, offset: int, *, field: str
) -> TextRecord | BadRecord:
    record_id: RecordId | None = None
    try:
        if not data.lstrip().startswith(b"{"):
            return TextRecord(None, line, decode_line(data, name, line, offset))
        fields = parse_json(data, name, line, offset)
        if not isinstance(fields, dict):
            raise FieldError(f"{name}, line {line} is no JSON object", field=field, line=line)
        RecordFields(fields, name, line).refuse_slips({field, "id", "prompt"}, but=_SAMPLE_FIELDS)
        given = fields.get("id")
        if isinstance(given, str) or type(given) is int:
            record_id = given
        elif given is not None:
            raise _wrong(name, line, "id", given, "a text or an integer")
        prompt = fields.get("prompt")
        if prompt is not None and not isinstance(prompt, str):
            raise _wrong(name, line, "prompt", prompt, "a text")
        if not isinstance(fields.get(field), str):
            raise _wrong(name, line, field, fields.get(field), "a text")
        return TextRecord(record_id, line, fields[field], prompt)
    except CdecError as error:
        return BadRecord(f"line {line}" if record_id is None else record_id, line, error)


def _wrong(name: str, line: int, field: str, found: object, expected: str) -> FieldError:
    shown = "missing" if found is None else f"of type {type(found).__name__}"
    return FieldError(
        f"{name}, line {line}: {field!r} is {shown}, expected {expected}",
        hint="name the text's field with `field`",
        field=field,
        line=line,
    )
