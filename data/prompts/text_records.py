"""Reads records of texts, one a line or row: the line itself, or an object with ``text``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cdec.core.errors import CdecError, FieldError
from cdec.core.record_fields import RECORD_FIELDS
from cdec.data.ids import RecordId
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, SourceStats
from cdec.data.near import near_hint
from cdec.data.prompts.entries import Format, open_entries
from cdec.data.prompts.entry import Entry
from cdec.data.prompts.fields import RecordFields
from cdec.data.prompts.record import BadRecord

RecordT = TypeVar("RecordT")
_NAMED = "name the text's field with `field`"
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
    format: Format = "auto",
    no_header: bool = False,
    limits: InputLimits = PROMPT_LIMITS,
    stats: SourceStats | None = None,
) -> Iterator[TextRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` (or an element of a JSON array) is an object with the text in
    ``field``, and perhaps ``id`` and ``prompt``; so is a row of a table; any other line is the text
    itself. Blank lines are skipped.

    Args:
        source: As ``cdec.data.read_prompts``.
        field: Name of the text's field.
        format: As there, like ``no_header``.
        limits: A longer line becomes a ``BadRecord``; a longer input is an error.
        stats: Counts and notices; pass one to see them.

    Raises:
        InputMissingError: The source cannot be read.
        EncodingError: It is UTF-16 or UTF-32 (a line that is not UTF-8 is a ``BadRecord``).
        LimitError: It is too long, or a decompression bomb.
    """
    return read_each(
        source,
        partial(_record, field=field),
        format=format,
        no_header=no_header,
        limits=limits,
        stats=stats,
    )


def read_each(
    source: Source,
    parse: Callable[[Entry, str], RecordT],
    *,
    format: Format,
    no_header: bool,
    limits: InputLimits,
    stats: SourceStats | None,
) -> Iterator[RecordT | BadRecord]:
    """Yield what ``parse`` makes of the entries of an input, as they arrive.

    Args:
        source: As ``read_texts``.
        parse: Takes an entry that has no error, and the input's name.
        format: As there, like ``no_header``.
        limits: A longer line or row becomes a ``BadRecord``; a longer input is an error.
        stats: Counts and notices; pass one to see them.

    Raises:
        As ``read_texts``.
    """
    stats = stats if stats is not None else SourceStats()
    with open_entries(source, format, limits, no_header=no_header) as entries:
        name = entries.name
        for entry in entries.read(stats):
            if entry.error is None:
                yield parse(entry, name)
            else:
                yield BadRecord(f"{entry.unit} {entry.line}", entry.line, entry.error)
    if stats.lines == stats.blank:
        stats.notice_once("W_NO_INPUT", f"{name} holds no records")


def _record(entry: Entry, name: str, *, field: str) -> TextRecord | BadRecord:
    record_id: RecordId | None = None
    line, fields = entry.line, entry.fields
    try:
        if fields is None:
            return TextRecord(None, line, entry.text or "")
        record = RecordFields(fields, name, line, unit=entry.unit)
        # A field that was asked for by name is missing where it is not there, and no slip.
        known = {"id", "prompt"} | ({field} if field == "text" else set())
        record.refuse_slips(known, but={field, *_SAMPLE_FIELDS})
        given = fields.get("id")
        if isinstance(given, str) or type(given) is int:
            record_id = given
        elif given is not None:
            raise _wrong(record, "id", given, "a text or an integer")
        prompt = fields.get("prompt")
        if prompt is not None and not isinstance(prompt, str):
            raise _wrong(record, "prompt", prompt, "a text")
        text = fields.get(field)
        if not isinstance(text, str):
            raise _wrong(record, field, text, "a text", near_hint(field, fields, _NAMED))
        return TextRecord(record_id, line, text, prompt)
    except CdecError as error:
        bad_id = f"{entry.unit} {line}" if record_id is None else record_id
        return BadRecord(bad_id, line, error)


def _wrong(
    record: RecordFields, field: str, found: object, expected: str, hint: str = _NAMED
) -> FieldError:
    shown = "missing" if found is None else f"of type {type(found).__name__}"
    return FieldError(
        f"{record.name}, {record.unit} {record.line}: {field!r} is {shown}, expected {expected}",
        hint=hint,
        field=field,
        line=record.line,
    )
