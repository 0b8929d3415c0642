"""Reads prompt records: each line or row becomes a checked record, or its error in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from cdec.core.errors import CdecError, FieldError
from cdec.core.schemas.own_keywords import span_fields_in
from cdec.data.ids import IdRegistry, RecordId, Shard
from cdec.data.input.json_text import field_with_changed_integer
from cdec.data.input.source import (
    PROMPT_LIMITS,
    InputLimits,
    Source,
    SourceStats,
    source_name,
)
from cdec.data.prompts.fields import RecordFields, free_fields
from cdec.data.prompts.names import OtherFields
from cdec.data.prompts.record import (
    DATA_FIELDS,
    OWN_FIELDS,
    BadRecord,
    FieldColumns,
    Format,
    PromptRecord,
    without_prefill,
)
from cdec.data.prompts.templates import PromptTemplate
from cdec.data.rows.formats import can_repeat, open_input
from cdec.data.rows.row import Row, row_of
from cdec.data.rows.table_process import TableProcess

__all__ = [
    "DEFAULT_MAX_N",
    "BadRecord",
    "PromptRecord",
    "prompts_from_records",
    "prompts_from_texts",
    "read_prompts",
]

DEFAULT_MAX_N = 10_000


def read_prompts(
    source: Source | Sequence[Source],
    *,
    format: Format = "auto",
    no_header: bool = False,
    template: PromptTemplate | None = None,
    max_n: int = DEFAULT_MAX_N,
    limits: InputLimits = PROMPT_LIMITS,
    stats: SourceStats | None = None,
    others: OtherFields | None = None,
    shard: Shard | None = None,
) -> Iterator[PromptRecord | BadRecord]:
    """Yield the records of an input in its order, as their lines arrive.

    A line that begins with ``{`` is a JSON object, any other the text of a prompt; blank lines are
    skipped. An element of a JSON array is an object, or a text in quotes. A row of a table is an
    object of the cells that are not null. Compressions, Parquet and Arrow are recognised by
    content, JSON, CSV and TSV by the name. A regular file is read twice, first
    for its ids. Several sources are read one after the other, as one input.

    Args:
        source: Path or URL (``s3://...``), ``"-"`` for stdin, a binary stream, or the folder of a
            saved dataset; or several of these, such as the ``source`` of ``input_files``.
        format: How it is read.
        no_header: Whether a CSV has no header: its columns are called 1, 2, ..., and where there is
            one alone, it is the prompt.
        template: Makes the prompt from a record's fields; a text line is its field ``prompt``.
        max_n: Most draws one record may ask for.
        limits: A longer line or row becomes a ``BadRecord``; a longer input is an error.
        stats: Counts and notices; pass one to see them.
        others: What becomes of fields that are not read here; if not given they are passed on.
        shard: Yield its records alone, bad ones included; ids are the same as without it.

    Returns:
        An iterator; nothing is opened before its first step. Cost: tens of thousands of records a
        second, about 100 bytes of memory a record for its id.

    Raises:
        InputMissingError: The source cannot be read.
        ExtraMissingError: A URL whose package is not installed.
        EncodingError: It is UTF-16 or UTF-32 (a line that is not UTF-8 is a ``BadRecord``).
        LimitError: It is too long, or a decompression bomb.
        DataError: It is damaged, ends early, or is Parquet that comes from a pipe.
        DuplicateIdError: Two records name one id: before the first record for a regular file, at
            the second one's line for a pipe.
    """
    stats = stats if stats is not None else SourceStats()
    others = others if others is not None else OtherFields()
    several = isinstance(source, Sequence) and not isinstance(source, str)
    sources = cast(Sequence[Source], source) if several else [cast(Source, source)]
    ids = IdRegistry()
    with TableProcess() as tables:
        how: dict[str, Any] = {"format": format, "limits": limits, "tables": tables}
        if not no_header:
            _check_ids(filter(can_repeat, sources), how)
        for each in sources:
            with open_input(each, no_header=no_header, **how) as opened:
                ids.begin(opened.name)
                reader = _Reader(opened.name, template, max_n, others, shard, ids)
                for row in opened.rows(stats, FieldColumns(opened.name)):
                    record = reader.record(row)
                    if record is not None:
                        yield record
    if others.warning is not None:
        stats.notice_once("W_UNREAD_FIELDS", others.warning)
    if stats.lines == stats.blank:
        what = f"{source_name(sources[0])} holds" if len(sources) == 1 else "the input's files hold"
        stats.notice_once("W_NO_INPUT", f"{what} no records")


def prompts_from_texts(
    texts: Iterable[str],
    *,
    template: PromptTemplate | None = None,
    name: str = "prompts",
    others: OtherFields | None = None,
) -> Iterator[PromptRecord | BadRecord]:
    """Yield one record a text, which is never read as JSON.

    Args:
        texts: Prompts; newlines in them are part of the prompt.
        template: Makes the prompt from the field ``prompt``.
        name: For messages.
        others: Whether results carry the text.
    """
    reader = _Reader(name, template, DEFAULT_MAX_N, others or OtherFields(), None)
    for number, text in enumerate(texts, 1):
        yield reader.text_record(reader.ids.generated(text, number), text, number)


def prompts_from_records(
    records: Iterable[Mapping[str, object]],
    *,
    template: PromptTemplate | None = None,
    max_n: int = DEFAULT_MAX_N,
    others: OtherFields | None = None,
    ids: IdRegistry | None = None,
    name: str = "records",
) -> Iterator[PromptRecord | BadRecord]:
    """Yield what the lines of a file of these records would become, ids included.

    Args:
        records: JSON-ready objects.
        template: As in ``read_prompts``, like ``max_n`` and ``others``.
        max_n: As there.
        others: As there.
        ids: The ids met so far, where the records go on after others; None for none.
        name: For messages, which count records as lines.

    Raises:
        DuplicateIdError: Two records name one id, at the second one.
    """
    others = others if others is not None else OtherFields()
    reader = _Reader(name, template, max_n, others, None, ids)
    for number, record in enumerate(records, 1):
        found = reader.record(row_of(record, number, name))
        if found is not None:
            yield found


class _Reader:
    """Turns entries into records; holds what they share."""

    def __init__(
        self,
        name: str,
        template: PromptTemplate | None,
        max_n: int,
        others: OtherFields,
        shard: Shard | None,
        ids: IdRegistry | None = None,
    ) -> None:
        self.others = others
        self.name = name
        self.template = template
        self.max_n = max_n
        self.shard = shard
        self.ids = IdRegistry() if ids is None else ids
        self._read = {*(template.fields if template else ()), *(others.read or ())}

    def record(self, row: Row) -> PromptRecord | BadRecord | None:
        """Return the record of an row; None where another shard has it."""
        checked, error = None, row.error
        given: RecordId | None = None
        if row.fields is not None:
            checked = RecordFields(row.fields, self.name, row.line, unit=row.unit)
            try:
                given = checked.optional("id", checked.identifier)
            except FieldError as found:
                error = found
        record_id = self._id(row, given, is_bad=error is not None)
        if self.shard is not None and not self.shard.has(record_id):
            return None
        if error is not None:
            brought = self._passed_through(row.fields)
            return BadRecord(record_id, row.line, error, input=brought)
        if checked is None:
            return self.text_record(record_id, row.text or "", row.line)
        try:
            return self._checked(checked, record_id, row.data)
        except CdecError as found:
            brought = self._passed_through(row.fields)
            return BadRecord(record_id, row.line, found, input=brought)

    def _id(self, row: Row, given: RecordId | None, *, is_bad: bool) -> RecordId:
        if given is None:
            # A bad line is known again by its bytes, as it has no fields to go by.
            raw = is_bad and row.data is not None
            return self.ids.generated(row.data if raw else row.content, row.line)
        self.ids.explicit(given, self.name, row.line, unit=row.unit)
        return given

    def text_record(self, record_id: RecordId, text: str, line: int) -> PromptRecord | BadRecord:
        try:
            prompt = text if self.template is None else self.template.fill({"prompt": text}, line)
        except FieldError as error:
            return BadRecord(record_id, line, error)
        kept: dict[str, object] | None = {"prompt": text} if self.others.keeps_all else None
        return PromptRecord(record_id, line, prompt, input=kept)

    def _checked(
        self, record: RecordFields, record_id: RecordId, data: bytes | None
    ) -> PromptRecord:
        """Check all fields; ``data`` is the line they were read from, where there is one."""
        read = () if self.template is None else self.template.fields
        record.refuse_foreign_fields(self._read)
        changed = None if data is None else field_with_changed_integer(record.fields, data)
        if changed is not None:
            raise record.error(
                changed, "holds an integer beyond 64 bits", "write it as a text, in quotes"
            )
        read = (*read, *span_fields_in(record.fields.get("schema")))
        record.sort_out(OWN_FIELDS, self.others, read)
        record.refuse_two_constraints()
        prompt, messages = self._prompt(record)
        messages, answer = without_prefill(messages)
        prefill = record.optional("prefill", record.text) or None
        if answer is not None and prefill is not None:
            raise record.error(
                "prefill", "stands beside an answer that messages begin", "give one of the two"
            )
        chosen = record.optional("candidates", record.candidates_or_sets)
        candidates, narrowed = (None, ()) if chosen is None else chosen
        return PromptRecord(
            id=record_id,
            line=record.line,
            prompt=prompt,
            messages=messages,
            **_chat_fields(record, self._read),
            n=record.draws(self.max_n),
            seed=record.optional("seed", record.seed),
            temperature=record.optional("temperature", record.temperature),
            max_tokens=record.optional("max_tokens", record.count),
            stop=() if "stop" in self._read else record.optional("stop", record.stops) or (),
            constraint=record.optional("constraint", record.non_empty_text),
            candidates=candidates,
            narrowed=narrowed,
            grammar=record.optional("grammar", record.non_empty_text),
            regex=record.optional("regex", record.non_empty_text),
            schema=record.optional("schema", record.schema),
            prefill=prefill or answer,
            **free_fields(record),
            input=self._passed_through(record.fields),
        )

    def _prompt(self, record: RecordFields) -> tuple[str | None, tuple[dict[str, Any], ...] | None]:
        if self.template is not None:
            if "messages" in record.fields:
                raise record.error(
                    "messages", "cannot go into a template", "give texts, or leave `template` out"
                )
            return self.template.fill(record.fields, record.line, record.unit), None
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

    def _passed_through(self, fields: dict[str, object] | None) -> dict[str, object] | None:
        # A template may leave the record's prompt unused: then it must not get lost.
        own = OWN_FIELDS if self.template is None else OWN_FIELDS - {"prompt"}
        own -= self._read & DATA_FIELDS
        own = frozenset({"id"}) if self.others.keeps_all else own
        return {name: value for name, value in (fields or {}).items() if name not in own} or None


def _chat_fields(record: RecordFields, read: Collection[str]) -> dict[str, Any]:
    """Return what the chat template is told beside messages; fields that others read are data."""
    checks: dict[str, Any] = {
        "tools": record.tools,
        "chat_template_kwargs": record.template_arguments,
        "tool_choice": record.tool_choice,
        "parallel_tool_calls": record.flag,
    }
    return {
        name: record.optional(name, check) for name, check in checks.items() if name not in read
    }


def _check_ids(sources: Iterable[Source], how: Mapping[str, Any]) -> None:
    """Read inputs for their ids alone.

    Raises:
        DuplicateIdError: Two records name one id.
    """
    ids = IdRegistry()
    for source in sources:
        with open_input(source, **how) as opened:
            ids.begin(opened.name)
            for row in opened.rows(SourceStats(), FieldColumns(opened.name, only="id")):
                if row.fields is None:
                    continue
                checked = RecordFields(row.fields, opened.name, row.line, unit=row.unit)
                try:
                    record_id = checked.optional("id", checked.identifier)
                except CdecError:
                    continue  # becomes a BadRecord when its turn comes
                if record_id is not None:
                    ids.explicit(record_id, opened.name, row.line, unit=row.unit)
            opened.rewind()
