"""Records of texts, to be read or scored: the text or its token ids, perhaps with a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

from cdec.core.errors import CdecError, FieldError
from cdec.core.record_fields import RECORD_FIELDS
from cdec.data.ids import RecordId
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, SourceStats
from cdec.data.near import near_hint
from cdec.data.prompts.fields import RecordFields, shown
from cdec.data.prompts.record import BadRecord, FieldColumns, Format
from cdec.data.rows.formats import open_input
from cdec.data.rows.row import Row
from cdec.data.rows.table_process import TableProcess

RecordT = TypeVar("RecordT")
_NAMED = "name the text's field with `field`"
_SAMPLE_FIELDS = frozenset(field.name for field in RECORD_FIELDS)
"""Samples are such records: their fields are no slips."""


class TextOptions(TypedDict, total=False):
    """Options of reading texts, as ``read_prompts`` says."""

    format: Format
    no_header: bool
    limits: InputLimits
    stats: SourceStats | None


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
    source: Source, *, field: str = "text", **options: Unpack[TextOptions]
) -> Iterator[TextRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` (or an element of a JSON array) is an object with the text in
    ``field``, and perhaps ``id`` and ``prompt``; so is a row of a table; any other line is the text
    itself. Blank lines are skipped.

    Args:
        source: As ``cdec.data.read_prompts``, like the ``options``.
        field: Name of the text's field.
        options: Of reading.

    Raises:
        InputMissingError: The source cannot be read.
        EncodingError: It is UTF-16 or UTF-32 (a line that is not UTF-8 is a ``BadRecord``).
        LimitError: It is too long, or a decompression bomb.
    """
    return _read_each(source, partial(_text_record, field=field), **options)


def _read_each(
    source: Source,
    parse: Callable[[Row, str], RecordT | BadRecord],
    *,
    stats: SourceStats | None = None,
    **options: Any,
) -> Iterator[RecordT | BadRecord]:
    """Yield what ``parse`` makes of the rows of an input, as they arrive."""
    stats = stats if stats is not None else SourceStats()
    how = {"format": "auto", "limits": PROMPT_LIMITS, **options}
    with TableProcess() as tables, open_input(source, tables=tables, **how) as opened:
        name = opened.name
        for row in opened.rows(stats, FieldColumns(name)):
            if row.error is None:
                yield parse(row, name)
            else:
                yield BadRecord(f"{row.unit} {row.line}", row.line, row.error)
    if stats.lines == stats.blank:
        stats.notice_once("W_NO_INPUT", f"{name} holds no records")


def _text_record(row: Row, name: str, *, field: str) -> TextRecord | BadRecord:
    record_id: RecordId | None = None
    line, fields = row.line, row.fields
    try:
        if fields is None:
            return TextRecord(None, line, row.text or "")
        record = RecordFields(fields, name, line, unit=row.unit)
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
        bad_id = f"{row.unit} {line}" if record_id is None else record_id
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


_READ = ("id", "index", "token_ids", "prompt", "messages")


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
        tools, chat_template_kwargs: What their template is told beside them.
        prefill: What the text begins with because it was written before.
        input: Its fields, and those of its prompt that it passed through.
    """

    id: RecordId | None
    line: int
    index: int | None = None
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    prompt: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    prefill: str | None = None
    input: dict[str, Any] | None = None


def read_scored(
    source: Source,
    *,
    field: str = "text",
    calls_tools: bool = False,
    **options: Unpack[TextOptions],
) -> Iterator[ScoreRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` (or an element of a JSON array) is an object with the text in
    ``field``, or ``token_ids``, or both, and perhaps ``id``, ``index``, and ``prompt`` or
    ``messages`` (and what their template is told); so is a row of a table; any other line is the
    text itself. Blank lines are skipped, other fields are not looked at.

    Args:
        source: As ``read_texts``, like ``field`` and ``options``.
        calls_tools: Whether what stands before a text is the beginning of a call, which belongs to
            its tokens; other free text is refused.

    Raises:
        CdecError: As ``read_texts``.
    """
    parse = partial(_score_record, field=field, calls_tools=calls_tools)
    return _read_each(source, parse, **options)


def _score_record(row: Row, name: str, *, field: str, calls_tools: bool) -> ScoreRecord | BadRecord:
    record_id: RecordId | None = None
    try:
        if row.fields is None:
            return ScoreRecord(None, row.line, text=row.text)
        # null says the same as nothing.
        fields = {key: value for key, value in row.fields.items() if value is not None}
        record = RecordFields(fields, name, row.line, unit=row.unit)
        record_id = record.optional("id", record.identifier)
        return _checked(record, record_id, field, calls_tools)
    except CdecError as error:
        bad_id = f"{row.unit} {row.line}" if record_id is None else record_id
        return BadRecord(bad_id, row.line, error)


def _checked(
    record: RecordFields, record_id: RecordId | None, field: str, calls_tools: bool
) -> ScoreRecord:
    # A field that was asked for by name is missing where it is not there, and no slip.
    known = {*_READ} | ({field} if field == "text" else set())
    record.refuse_slips(known, but={field, *_SAMPLE_FIELDS})
    if field not in record.fields and "token_ids" not in record.fields:
        raise _nothing(record, field)
    if record.fields.get("free_tokens") and not (calls_tools and not _is_free(record)):
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
        tools=record.optional("tools", record.tools),
        chat_template_kwargs=record.optional("chat_template_kwargs", record.template_arguments),
        prefill=record.optional("prefill", record.text) or None,
        input=with_passed(record.fields),
    )
    if scored.prompt is not None and scored.messages is not None:
        raise record.error("messages", "stands beside 'prompt'", "give one of the two")
    return scored


def _is_free(record: RecordFields) -> bool:
    """Say whether a model wrote what stands before a text as it liked, thinking say."""
    free, marker = record.fields.get("free_text", ""), record.fields.get("marker", "")
    is_begun = str(marker).endswith(str(free))  # free text shows no special tokens
    return not is_begun or "thinking" in record.fields or "regions" in record.fields


def with_passed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a sample, with those of its prompt record that it passed through."""
    passed = fields.get("input")
    return {**(passed if isinstance(passed, dict) else {}), **fields}


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
