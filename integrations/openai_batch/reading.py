"""Reads batch files: each line becomes a checked request, or its error in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdec.core.errors import CdecError, JsonError
from cdec.data.ids import IdRegistry, Shard
from cdec.data.input.json_text import field_with_changed_integer
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, SourceStats, source_name
from cdec.data.prompts.fields import RecordFields, shown
from cdec.data.prompts.record import BadRecord, FieldColumns, PromptRecord
from cdec.data.rows.formats import open_input
from cdec.data.rows.row import Row, row_of
from cdec.data.rows.table_process import TableProcess
from cdec.integrations.openai_batch.body import (
    CHAT,
    TEXT,
    Asking,
    constrained,
    drawn,
    log_probabilities,
    named_model,
    prompts_of,
    refuse_what_is_not_honoured,
    tools_of,
)

_FIELDS = ("custom_id", "method", "url", "body")


@dataclass(frozen=True, slots=True)
class BatchRequest(PromptRecord):
    """One checked request, whose id is its ``custom_id``.

    Attributes:
        url: ``CHAT`` or ``TEXT``.
        model: What it calls the model; None where it does not say.
        prompts: Of a request for texts, at least one; the first of them is ``prompt``.
        alternatives: How many are listed with each token; None where no token is listed.
    """

    url: str = CHAT
    model: str | None = None
    prompts: tuple[str, ...] = ()
    alternatives: int | None = None

    @property
    def of_each_prompt(self) -> tuple[PromptRecord, ...]:
        """The record of each of its prompts."""
        return tuple(replace(self, prompt=prompt) for prompt in self.prompts) or (self,)


@dataclass(frozen=True, slots=True)
class BadRequest(BadRecord):
    """A request that cannot be answered.

    Attributes:
        custom_id: Its own; None where it has none that can be read. Its ``id`` is a hash of its
            content where an earlier line has that name, or nobody.
    """

    custom_id: str | None = None


def read_requests(
    sources: Sequence[Source],
    asking: Asking,
    *,
    limits: InputLimits = PROMPT_LIMITS,
    stats: SourceStats | None = None,
    shard: Shard | None = None,
) -> Iterator[BatchRequest | BadRequest]:
    """Yield the requests of a batch file in its order, as its lines arrive.

    Args:
        sources: As for ``read_prompts``; one JSON object a line, compressed or not.
        asking: What they may ask.
        limits: A longer line becomes a ``BadRequest``; a longer input is an error.
        stats: Counts and notices; pass one to see them.
        shard: Yield its requests alone.

    Raises:
        CdecError: The input cannot be read, as ``read_prompts`` says.
    """
    stats = stats if stats is not None else SourceStats()
    ids = IdRegistry()
    how = {"format": "lines", "limits": limits, "tables": TableProcess()}
    for source in sources:
        with open_input(source, **how) as opened:
            ids.begin(opened.name)
            reader = _Reader(opened.name, asking, ids)
            for row in opened.rows(stats, FieldColumns(opened.name)):
                found = reader.request(row)
                if shard is None or shard.has(found.id):
                    yield found
    if stats.lines == stats.blank:
        names = ", ".join(map(source_name, sources))
        stats.notice_once("W_NO_INPUT", f"{names} holds no requests")


def requests_from_objects(
    objects: Iterable[Mapping[str, object]], asking: Asking, *, name: str = "requests"
) -> Iterator[BatchRequest | BadRequest]:
    """Yield what the lines of a batch file of these objects would become."""
    reader = _Reader(name, asking, IdRegistry())
    for number, each in enumerate(objects, 1):
        yield reader.request(row_of(each, number, name))


class _Reader:
    """Turns rows into requests; remembers the names that were met."""

    def __init__(self, name: str, asking: Asking, ids: IdRegistry) -> None:
        self._name = name
        self._asking = asking
        self._ids = ids

    def request(self, row: Row) -> BatchRequest | BadRequest:
        """Return the request of a row."""
        custom_id: str | None = None
        try:
            if row.error is not None:
                raise row.error
            line = RecordFields(self._object(row), self._name, row.line)
            custom_id = self._custom_id(line)
            self._ids.explicit(custom_id, self._name, row.line)
        except CdecError as error:
            # subtle: a second line of one name is told apart by what it says.
            content = row.content if row.data is None else row.data
            return BadRequest(self._ids.generated(content, row.line), row.line, error, custom_id)
        try:
            return self._checked(line, custom_id, row.data)
        except CdecError as error:
            return BadRequest(custom_id, row.line, error, custom_id)

    def _object(self, row: Row) -> dict[str, object]:
        if row.fields is None:
            raise JsonError(
                f"{self._name}, line {row.line} is no JSON object",
                hint=f"a line of a batch file is an object of {', '.join(_FIELDS)}",
                line=row.line,
            )
        return row.fields

    def _custom_id(self, line: RecordFields) -> str:
        if "custom_id" not in line.fields:
            raise line.error("custom_id", "is missing", "give each request a name of its own")
        return line.non_empty_text("custom_id", line.fields["custom_id"])

    def _checked(self, line: RecordFields, custom_id: str, data: bytes | None) -> BatchRequest:
        url = _url(line)
        changed = None if data is None else field_with_changed_integer(line.fields, data)
        if changed is not None:
            raise line.error(changed, "holds an integer beyond 64 bits", "correct it")
        fields = line.fields.get("body")
        if not isinstance(fields, dict):
            raise line.error("body", f"is {shown(fields)}, an object was expected", "see `url`")
        body = RecordFields(dict(fields), self._name, line.line)
        refuse_what_is_not_honoured(body, url)
        prompts = prompts_of(body, url)
        return BatchRequest(
            id=custom_id,
            line=line.line,
            prompt=next(iter(prompts["prompts"]), None),
            **prompts,
            **drawn(body, len(prompts["prompts"]), self._asking),
            **constrained(body, self._asking),
            **tools_of(body, self._asking),
            stop=body.optional("stop", body.stops) or (),
            url=url,
            model=named_model(body, self._asking),
            alternatives=log_probabilities(body, url),
        )


def _url(line: RecordFields) -> str:
    """Return which kind of request a line is, after all that stands around its body.

    Raises:
        FieldError: It is none of them, or something else.
    """
    for name in line.fields:
        if name not in _FIELDS:
            raise line.error(name, "is not read", f"a request has {', '.join(_FIELDS)}")
    url, method = line.fields.get("url"), line.fields.get("method")
    if method != "POST":
        raise line.error("method", f"is {shown(method)}, 'POST' was expected", 'give "POST"')
    if url not in (CHAT, TEXT):
        raise line.error(
            "url", f"is {shown(url)}; {CHAT} and {TEXT} are answered", "give one of the two"
        )
    return str(url)
