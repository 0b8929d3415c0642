"""Reads batch files: each line becomes a checked request, or its error in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdec.core.errors import CdecError, JsonError
from cdec.data.ids import IdRegistry, Shard
from cdec.data.input.json_text import field_with_changed_integer
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, SourceStats, source_name
from cdec.data.prompts.entries import open_entries
from cdec.data.prompts.entry import Entry, entry_of
from cdec.data.prompts.fields import RecordFields, shown
from cdec.data.prompts.record import BadRecord, PromptRecord
from cdec.integrations.openai_batch.body import (
    Asking,
    constrained,
    drawn,
    log_probabilities,
    named_model,
    prompts_of,
)
from cdec.integrations.openai_batch.body_fields import CHAT, TEXT, refuse_what_is_not_honoured

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
    for source in sources:
        with open_entries(source, "lines", limits) as entries:
            ids.begin(entries.name)
            reader = _Reader(entries.name, asking, ids)
            for entry in entries.read(stats):
                found = reader.request(entry)
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
        yield reader.request(entry_of(each, number, name))


class _Reader:
    """Turns entries into requests; remembers the names that were met."""

    def __init__(self, name: str, asking: Asking, ids: IdRegistry) -> None:
        self._name = name
        self._asking = asking
        self._ids = ids

    def request(self, entry: Entry) -> BatchRequest | BadRequest:
        """Return the request of an entry."""
        custom_id: str | None = None
        try:
            if entry.error is not None:
                raise entry.error
            line = RecordFields(self._object(entry), self._name, entry.line)
            custom_id = self._custom_id(line)
            self._ids.explicit(custom_id, self._name, entry.line)
        except CdecError as error:
            # subtle: a second line of one name is told apart by what it says.
            content = entry.content if entry.data is None else entry.data
            return BadRequest(
                self._ids.generated(content, entry.line), entry.line, error, custom_id
            )
        try:
            return self._checked(line, custom_id, entry.data)
        except CdecError as error:
            return BadRequest(custom_id, entry.line, error, custom_id)

    def _object(self, entry: Entry) -> dict[str, object]:
        if entry.fields is None:
            raise JsonError(
                f"{self._name}, line {entry.line} is no JSON object",
                hint=f"a line of a batch file is an object of {', '.join(_FIELDS)}",
                line=entry.line,
            )
        return entry.fields

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
