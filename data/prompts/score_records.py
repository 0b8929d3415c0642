"""Reads records to be scored: texts or token ids, with prompts; samples are such records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from cdec.core.errors import CdecError, FieldError
from cdec.core.record_fields import RECORD_FIELDS
from cdec.data.ids import RecordId
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, SourceStats
from cdec.data.near import near_hint
from cdec.data.prompts.entries import Format
from cdec.data.prompts.entry import Entry
from cdec.data.prompts.fields import RecordFields, shown
from cdec.data.prompts.record import BadRecord
from cdec.data.prompts.text_records import read_each

_READ = ("id", "index", "token_ids", "prompt", "messages")
_SAMPLE_FIELDS = frozenset(field.name for field in RECORD_FIELDS)
"""Samples are such records: their fields are no slips."""


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """One checked record; None for what it does not have.

    Attributes:
        id: Its own id, which several records may share.
        line: 1-based line in the input.
        index: Number of a sample within its record.
        text: The text.
        token_ids: Its tokens. One of the two is there.
        prompt: What stands before the text.
        messages: The same as chat messages.
        prefill: What the text begins with because it was written before.
    """

    id: RecordId | None
    line: int
    index: int | None = None
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    prompt: str | None = None
    messages: tuple[dict[str, str], ...] | None = None
    prefill: str | None = None


def read_scored(
    source: Source,
    *,
    field: str = "text",
    format: Format = "auto",
    no_header: bool = False,
    limits: InputLimits = PROMPT_LIMITS,
    stats: SourceStats | None = None,
) -> Iterator[ScoreRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` (or an element of a JSON array) is an object with the text in
    ``field``, or ``token_ids``, or both, and perhaps ``id``, ``index``, and ``prompt`` or
    ``messages``; so is a row of a table; any other line is the text itself. Blank lines are
    skipped, other fields are not looked at.

    Args:
        source: As ``cdec.data.read_prompts``.
        field: Name of the text's field.
        format: As there, like ``no_header``.
        limits: As in ``read_texts``.
        stats: As in ``read_texts``.

    Raises:
        As ``cdec.data.prompts.text_records.read_texts``.
    """
    return read_each(
        source,
        partial(_record, field=field),
        format=format,
        no_header=no_header,
        limits=limits,
        stats=stats,
    )


def _record(entry: Entry, name: str, *, field: str) -> ScoreRecord | BadRecord:
    record_id: RecordId | None = None
    try:
        if entry.fields is None:
            return ScoreRecord(None, entry.line, text=entry.text)
        # null says the same as nothing.
        fields = {key: value for key, value in entry.fields.items() if value is not None}
        record = RecordFields(fields, name, entry.line, unit=entry.unit)
        record_id = record.optional("id", record.identifier)
        return _checked(record, record_id, field)
    except CdecError as error:
        bad_id = f"{entry.unit} {entry.line}" if record_id is None else record_id
        return BadRecord(bad_id, entry.line, error)


def _checked(record: RecordFields, record_id: RecordId | None, field: str) -> ScoreRecord:
    # A field that was asked for by name is missing where it is not there, and no slip.
    known = {*_READ} | ({field} if field == "text" else set())
    record.refuse_slips(known, but={field, *_SAMPLE_FIELDS})
    if field not in record.fields and "token_ids" not in record.fields:
        raise _nothing(record, field)
    if record.fields.get("free_tokens"):
        raise record.error(
            "free_tokens",
            "says that the text stands behind free text, which is not scored with it",
            "give its free part at the end of the prompt, and leave the fields of free text out",
        )
    scored = ScoreRecord(
        id=record_id,
        line=record.line,
        index=_index(record),
        text=record.optional(field, record.text),
        token_ids=_token_ids(record),
        prompt=record.optional("prompt", record.text),
        messages=record.optional("messages", record.messages),
        prefill=record.optional("prefill", record.text) or None,
    )
    if scored.prompt is not None and scored.messages is not None:
        raise record.error("messages", "stands beside 'prompt'", "give one of the two")
    return scored


def _nothing(record: RecordFields, field: str) -> FieldError:
    if "error" in record.fields:
        return record.error(
            field, "is missing: this is the error object of a failed record", "leave it out"
        )
    return record.error(
        field,
        "is missing, and so is 'token_ids'; the record has "
        f"{', '.join(map(repr, record.fields)) or 'no fields'}",
        near_hint(field, record.fields, "give one of them, or name the text's field with `field`"),
    )


def _index(record: RecordFields) -> int | None:
    index = record.fields.get("index")
    if index is None or (type(index) is int and index >= 0):
        return index
    raise record.error(
        "index", f"is {shown(index)}, an integer of at least 0 was expected", "leave it out"
    )


def _token_ids(record: RecordFields) -> tuple[int, ...] | None:
    ids = record.fields.get("token_ids")
    if ids is None:
        return None
    if isinstance(ids, list) and all(type(token) is int for token in ids):
        return tuple(ids)
    raise record.error(
        "token_ids", f"is {shown(ids)}, a list of integers was expected", "give the ids alone"
    )
