"""Reads prompt records: each line becomes a checked record, or its error in its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from cdec.core.errors import CdecError, FieldError
from cdec.data.ids import IdRegistry, RecordId
from cdec.data.input.json_text import field_with_changed_integer, parse_json
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
from cdec.data.prompts.names import OtherFields
from cdec.data.prompts.record import OWN_FIELDS, BadRecord, PromptRecord, without_prefill
from cdec.data.prompts.templates import PromptTemplate

__all__ = ["DEFAULT_MAX_N", "BadRecord", "PromptRecord", "prompts_from_texts", "read_prompts"]

DEFAULT_MAX_N = 10_000


def read_prompts(
    source: Source,
    *,
    template: PromptTemplate | None = None,
    max_n: int = DEFAULT_MAX_N,
    limits: InputLimits = PROMPT_LIMITS,
    stats: SourceStats | None = None,
    others: OtherFields | None = None,
) -> Iterator[PromptRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` is a JSON object, any other the text of a prompt; blank lines are
    skipped. A regular file is read twice, first for its ids.

    Args:
        source: Path, ``"-"`` for stdin, or a binary stream.
        template: Makes the prompt from a record's fields; a text line is its field ``prompt``.
        max_n: Most draws one record may ask for.
        limits: A longer line becomes a ``BadRecord``; a longer input is an error.
        stats: Counts and notices; pass one to see them.
        others: What becomes of fields that are not read here; if not given they are passed on.

    Returns:
        An iterator; nothing is opened before its first step. Cost: tens of thousands of records a
        second, about 100 bytes of memory a record for its id.

    Raises:
        InputMissingError: The source cannot be read.
        EncodingError: It is UTF-16 or UTF-32 (a line that is not UTF-8 is a ``BadRecord``).
        LimitError: It is too long, or a decompression bomb.
        DuplicateIdError: Two records name one id: before the first record for a regular file, at
            the second one's line for a pipe.
    """
    stats = stats if stats is not None else SourceStats()
    name = source_name(source)
    with open_source(source) as stream:
        if _is_regular(stream):
            _check_ids(stream, name, limits)
        others = others if others is not None else OtherFields()
        reader = _Reader(name, template, max_n, limits, stats, others)
        yield from reader.records(stream)
    if others.warning is not None:
        stats.notice_once("W_UNREAD_FIELDS", others.warning)
    if stats.lines == stats.blank:
        stats.notice_once("W_NO_INPUT", f"{name} holds no records")


def prompts_from_texts(
    texts: Iterable[str], *, template: PromptTemplate | None = None, name: str = "prompts"
) -> Iterator[PromptRecord | BadRecord]:
    """Yield one record a text, which is never read as JSON.

    Args:
        texts: Prompts; newlines in them are part of the prompt.
        template: Makes the prompt from the field ``prompt``.
        name: For messages.
    """
    reader = _Reader(name, template, DEFAULT_MAX_N, PROMPT_LIMITS, SourceStats(), OtherFields())
    for number, text in enumerate(texts, 1):
        yield reader.text_record(text, number)


class _Reader:
    """Turns lines into records; holds what they share."""

    def __init__(
        self,
        name: str,
        template: PromptTemplate | None,
        max_n: int,
        limits: InputLimits,
        stats: SourceStats,
        others: OtherFields,
    ) -> None:
        self.others = others
        self.name = name
        self.template = template
        self.max_n = max_n
        self.limits = limits
        self.stats = stats
        self.ids = IdRegistry()

    def records(self, stream: BinaryIO) -> Iterator[PromptRecord | BadRecord]:
        for event in _lines(stream, self.name, self.limits, self.stats):
            self.stats.lines += 1
            if isinstance(event, LongLine):
                record_id = self.ids.generated(event.digest, event.line)
                yield BadRecord(record_id, event.line, event.error(self.name, self.limits))
                continue
            line, offset, data = event
            if data.strip():
                yield self._record(data, line, offset)
            else:
                self.stats.blank += 1

    def _record(self, data: bytes, line: int, offset: int) -> PromptRecord | BadRecord:
        try:
            if not _is_json(data):
                return self.text_record(decode_line(data, self.name, line, offset), line)
            fields = _parse_record(data, self.name, line, offset)
        except CdecError as error:
            return BadRecord(self.ids.generated(data, line), line, error)
        checked = RecordFields(fields, self.name, line)
        try:
            given_id = checked.optional("id", checked.identifier)
        except FieldError as error:
            return BadRecord(self.ids.generated(data, line), line, error)
        if given_id is None:
            record_id: RecordId = self.ids.generated(fields, line)
        else:
            self.ids.explicit(given_id, self.name, line)
            record_id = given_id
        try:
            return self._checked(checked, record_id, data)
        except CdecError as error:
            return BadRecord(record_id, line, error)

    def text_record(self, text: str, line: int) -> PromptRecord | BadRecord:
        record_id = self.ids.generated(text, line)
        try:
            prompt = text if self.template is None else self.template.fill({"prompt": text}, line)
        except FieldError as error:
            return BadRecord(record_id, line, error)
        return PromptRecord(record_id, line, prompt)

    def _checked(self, record: RecordFields, record_id: RecordId, data: bytes) -> PromptRecord:
        """Check all fields; ``data`` is the line they were read from."""
        read = () if self.template is None else self.template.fields
        record.refuse_foreign_fields({*read, *(self.others.read or ())})
        changed = field_with_changed_integer(record.fields, data)
        if changed is not None:
            raise record.error(
                changed, "holds an integer beyond 64 bits", "write it as a text, in quotes"
            )
        record.sort_out(OWN_FIELDS, self.others, read)
        record.refuse_two_constraints()
        prompt, messages = self._prompt(record)
        messages, answer = without_prefill(messages)
        prefill = record.optional("prefill", record.text) or None
        if answer is not None and prefill is not None:
            raise record.error(
                "prefill", "stands beside an answer that messages begin", "give one of the two"
            )
        return PromptRecord(
            id=record_id,
            line=record.line,
            prompt=prompt,
            messages=messages,
            n=record.draws(self.max_n),
            seed=record.optional("seed", record.seed),
            temperature=record.optional("temperature", record.temperature),
            max_tokens=record.optional("max_tokens", record.count),
            constraint=record.optional("constraint", record.non_empty_text),
            candidates=record.optional("candidates", record.candidates),
            grammar=record.optional("grammar", record.non_empty_text),
            regex=record.optional("regex", record.non_empty_text),
            schema=record.optional("schema", record.schema),
            prefill=prefill or answer,
            input=self._passed_through(record.fields),
        )

    def _prompt(self, record: RecordFields) -> tuple[str | None, tuple[dict[str, str], ...] | None]:
        if self.template is not None:
            if "messages" in record.fields:
                raise record.error(
                    "messages", "cannot go into a template", "give texts, or leave `template` out"
                )
            return self.template.fill(record.fields, record.line), None
        prompt = record.optional("prompt", record.text)
        messages = record.optional("messages", record.messages)
        if prompt is not None and messages is not None:
            raise record.error("messages", "stands beside 'prompt'", "give one of the two")
        if prompt is None and messages is None:
            raise record.error(
                "prompt",
                f"is missing; the record has {', '.join(map(repr, record.fields)) or 'no fields'}",
                "give prompt or messages, or fill a prompt from other fields with `template`",
            )
        return prompt, messages

    def _passed_through(self, fields: dict[str, object]) -> dict[str, object] | None:
        # A template may leave the record's prompt unused: then it must not get lost.
        own = OWN_FIELDS if self.template is None else OWN_FIELDS - {"prompt"}
        return {name: value for name, value in fields.items() if name not in own} or None


def _lines(
    stream: BinaryIO, name: str, limits: InputLimits, stats: SourceStats
) -> Iterator[tuple[int, int, bytes] | LongLine]:
    chunks = read_chunks(stream, name, limits=limits, stats=stats)
    for event in LineBlocks(chunks, name, limits, keep_going=True):
        if isinstance(event, LongLine):
            yield event
        else:
            yield from numbered_lines(event)


def _is_json(data: bytes) -> bool:
    return data.lstrip().startswith(b"{")


def _parse_record(data: bytes, name: str, line: int, offset: int) -> dict[str, object]:
    # What begins with a brace and parses is an object.
    return cast(dict[str, object], parse_json(data, name, line, offset))


def _is_regular(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False


def _check_ids(stream: BinaryIO, name: str, limits: InputLimits) -> None:
    """Read a regular file for its ids alone, and go back to where it stood.

    Raises:
        DuplicateIdError: Two records name one id.
    """
    start = stream.tell()
    ids = IdRegistry()
    for event in _lines(stream, name, limits, SourceStats()):
        if isinstance(event, LongLine) or not _is_json(event[2]):
            continue
        line, offset, data = event
        try:
            checked = RecordFields(_parse_record(data, name, line, offset), name, line)
            record_id = checked.optional("id", checked.identifier)
        except CdecError:
            continue  # becomes a BadRecord when its turn comes
        if record_id is not None:
            ids.explicit(record_id, name, line)
    stream.seek(start)
