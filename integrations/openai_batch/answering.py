"""Answers to requests: their draws, done together, and the lines that answer or refuse them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, ChatTemplateMissingError, FieldError, UsageError
from cdec.core.sample import FINISH_COMPLETE
from cdec.core.tokens.locations import EMBEDDED
from cdec.data.ids import id_key
from cdec.integrations.openai_batch.body import CHAT, MOST_LOGPROBS, Asking
from cdec.integrations.openai_batch.reading import BadRequest, BatchRequest, requests_from_objects
from cdec.integrations.records.drawing import SampleTasks
from cdec.integrations.records.sampling import RecordSampler
from cdec.integrations.records.stops import Cut, cut, require_stops
from cdec.integrations.records.tasks import Task, Work, own_error
from cdec.integrations.serving.settings import FIELD, AskedLimits, ServingSettings
from cdec.samplers.facts import ABOUT
from cdec.samplers.registry import METHODS

if TYPE_CHECKING:
    from cdec.core.errors import CdecError
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.integrations.records.tasks import Task
    from cdec.integrations.records.tools import HeldCalls
    from cdec.samplers.base import Observer
    from cdec.samplers.request import Request


_SAID_ELSEWHERE = frozenset({"schema_version", "id", "index", "text", "input"})
"""Fields of a sample that its choice has under other names."""
_NO_MASS = -9999.0
"""The log probability of a token that the model gives none, in this form."""
_FAULTS = frozenset({"E_INTERNAL", "E_IO"})
"""Codes of errors that are not the request's."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws for a request.

    Attributes:
        asked: The request.
        requests: One for each of its prompts.
        calls: What holds its texts to calls of tools; None for nothing.
    """

    asked: BatchRequest
    requests: Sequence[Request]
    calls: HeldCalls | None = None


def line_id(record_id: object) -> str:
    """Return the id of the line that answers a request: the same one whenever it is answered."""
    return "batch_req_" + _digest(record_id)


def head_of(record: BatchRequest | BadRequest) -> dict[str, object]:
    """Return what the line that answers a request begins with."""
    named = record.id if isinstance(record, BatchRequest) else record.custom_id
    return {"id": line_id(record.id), "custom_id": named}


def refusal(head: Mapping[str, object], error: CdecError) -> dict[str, object]:
    """Return the line of a request that is not answered.

    The error stands where servers put it, in the body of a response, and beside it, where files
    have the errors of lines that met no server.
    """
    found = error.to_json()
    body = {
        "message": error.message if error.hint is None else f"{error.message}. {error.hint}",
        "type": "server_error" if error.code in _FAULTS else "invalid_request_error",
        "param": found.get("field"),
        "code": error.code,
    }
    status = 500 if error.code in _FAULTS else 400
    return {**head, "response": _response(head, status, {"error": body}), "error": found}


def _called(calls: Sequence[Mapping[str, Any]], whose: object) -> list[dict[str, object]]:
    """Return calls as messages have them."""
    return [
        {
            "id": "call_" + _digest(f"{whose} {number}")[:24],
            "type": "function",
            "function": {
                "name": call["name"],
                "arguments": json.dumps(call["arguments"], ensure_ascii=False),
            },
        }
        for number, call in enumerate(calls)
    ]


class Responses:
    """Makes the lines that answer requests.

    Args:
        model: That answered; it counts the tokens of prompts.
        name: What it is called.
        fields: Of samples, that choices carry under ``cdec``; None for all.
    """

    def __init__(
        self, model: LanguageModel, name: str, fields: Sequence[str] | None = None
    ) -> None:
        self._model = model
        self._name = name
        self._fields = fields

    def of(
        self, head: Mapping[str, object], draws: Draws, samples: Sequence[Sample]
    ) -> dict[str, object]:
        """Return the line that answers a request.

        Args:
            head: Of the line. draws: What was drawn for it. samples: What came of it.
        """
        is_chat = draws.asked.url == CHAT
        prompts = sum(len(self._model.encode_prompt(each.prompt)) for each in draws.requests)
        request = draws.requests[0]  # those of one line are held to the same
        stops, vocabulary = draws.asked.stop, self._model.vocabulary
        written = [cut(sample, stops, request, vocabulary) for sample in samples]
        tokens = sum(each.tokens for each in written)
        body = {
            "id": ("chatcmpl-" if is_chat else "cmpl-") + _digest(draws.asked.id),
            "object": "chat.completion" if is_chat else "text_completion",
            "created": int(time.time()),
            "model": draws.asked.model or self._name,
            "choices": [self._choice(draws, each) for each in written],
            "usage": {
                "prompt_tokens": prompts,
                "completion_tokens": tokens,
                "total_tokens": prompts + tokens,
            },
        }
        return {**head, "response": _response(head, 200, body), "error": None}

    def _choice(self, draws: Draws, written: Cut) -> dict[str, object]:
        asked, sample = draws.asked, written.sample
        own = sample.to_json(self._fields)
        is_whole = written.stop is not None or sample.finish_reason == FINISH_COMPLETE
        calls = [] if draws.calls is None else draws.calls.calls(sample)
        # What is cut or stuck is no whole text; ``cdec`` has the word for it.
        reason = "length" if not is_whole else "tool_calls" if calls else "stop"
        said: dict[str, object] = {"text": written.text or ""}
        if asked.url == CHAT:
            content = written.text if draws.calls is None else draws.calls.content(sample)
            message: dict[str, object] = {"role": "assistant", "content": content, "refusal": None}
            if calls:
                named = _called(calls, (asked.id, sample.index))
                message |= {"content": content or None, "tool_calls": named}
            said = {"message": message}
        return {
            "index": sample.index,
            **said,
            "logprobs": self._logprobs(asked, written),
            "finish_reason": reason,
            FIELD: {name: own[name] for name in own if name not in _SAID_ELSEWHERE},
        }

    def _logprobs(self, asked: BatchRequest, written: Cut) -> dict[str, object] | None:
        if asked.alternatives is None:
            return None
        trace = written.sample.trace or ()
        lines = [line for line in trace if line["token_id"] is not None]
        lines = lines[: written.tokens] if written.stop is not None else lines
        tokens = [
            {**self._token(line), "top_logprobs": list(self._best(line, asked.alternatives))}
            for line in lines
        ]
        if asked.url == CHAT:
            return {"content": tokens, "refusal": None}
        return _as_lists(tokens)

    def _token(self, line: Mapping[str, Any]) -> dict[str, Any]:
        token = line["token_id"]
        data = self._model.vocabulary.decode(() if token is None else (token,))
        log_p = line["logprob"]
        return {
            "token": data.decode("utf-8", "replace"),
            "logprob": _NO_MASS if log_p is None else log_p,
            "bytes": list(data),
        }

    def _best(self, line: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
        """Yield the tokens that the model itself would have preferred at a place, best first."""
        events = [*line["alternatives"], *line["struck"]]
        for event in sorted(events, key=lambda event: -event["logprob"])[:number]:
            yield self._token(event)


def _as_lists(tokens: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return tokens in the form of completions: a list for each of what is known of them."""
    offsets, before = [], b""
    for token in tokens:
        offsets.append(len(before.decode("utf-8", "replace")))
        before += bytes(token["bytes"])
    return {
        "tokens": [token["token"] for token in tokens],
        "token_logprobs": [token["logprob"] for token in tokens],
        "top_logprobs": [
            {other["token"]: other["logprob"] for other in token["top_logprobs"]}
            for token in tokens
        ],
        "text_offset": offsets,
    }


def _response(head: Mapping[str, object], status: int, body: object) -> dict[str, object]:
    return {"status_code": status, "request_id": head["id"], "body": body}


def _digest(record_id: object) -> str:
    return id_key(record_id).hex()


@dataclass
class BatchTasks:
    """Turns requests into tasks, leaving out those that an output to resume has answered.

    Attributes:
        inner: Makes the draws of one prompt, as for records.
    """

    inner: SampleTasks

    def of(self, records: Iterable[PromptRecord | BadRecord]) -> Iterator[Task | None]:
        """Yield a task for each request that is not answered, None in the place of one that is."""
        for record in records:
            if not self.inner.finished.missing(line_id(record.id), 1):
                self.inner.skipped += 1
                yield None
            elif isinstance(record, BatchRequest):
                yield self._task(record)
            elif isinstance(record, BadRequest):
                yield Task(record.id, record.error, head=head_of(record))

    def _task(self, asked: BatchRequest) -> Task:
        n = asked.n or self.inner.n
        request: Draws | CdecError
        try:
            requests = [
                self.inner.request(record, n, first=place * n)
                for place, record in enumerate(asked.of_each_prompt)
            ]
            calls = self.inner.resolver.calls_of(asked)
            require_stops(asked, calls)
            request = Draws(asked, requests, calls)
        except Exception as error:
            request = _of_the_line(own_error(error))
        return Task(asked.id, request, asked.temperature, head=head_of(asked), top_p=asked.top_p)


def batch_work(work: Callable[[Observer | None], Work], size: int) -> Work:
    """Return work on tasks of ``Draws``; a result has the samples of all their prompts.

    Args:
        work: Returns work on tasks of single requests, with somebody who looks on or nobody.
        size: Most prompts decoded together.
    """
    from cdec.samplers.scoring.trace import Tracer

    plain, told = work(None), work(Tracer(max(MOST_LOGPROBS.values())))

    def done(tasks: Sequence[Task]) -> list[Any]:
        results: list[Any] = [[] for _ in tasks]
        for each, is_told in ((plain, False), (told, True)):
            parts = [
                (place, Task(task.name, request, task.temperature, top_p=task.top_p))
                for place, task in enumerate(tasks)
                if (task.request.asked.alternatives is not None) == is_told
                for request in task.request.requests
            ]
            for first in range(0, len(parts), size):
                chunk = parts[first : first + size]
                found = each([part for _, part in chunk])
                for (place, _), result in zip(chunk, found, strict=True):
                    results[place] = _joined(results[place], result)
        return results

    return done


def _joined(
    before: list[Sample] | CdecError, found: Sequence[Sample] | CdecError
) -> list[Sample] | CdecError:
    """Return the samples of some prompts of a request, or the first error that one of them met."""
    if isinstance(before, CdecError):
        return before
    return _of_the_line(found) if isinstance(found, CdecError) else [*before, *found]


def _of_the_line(error: CdecError) -> CdecError:
    """Return the error of one request: what all chats would miss is no fault of other requests."""
    if not isinstance(error, ChatTemplateMissingError):
        return error
    return FieldError(error.message, hint=error.hint, field="messages")


_OF_RECORDS = ("strict_fields", "template", "spans")


def answer_batch(
    requests: Iterable[Mapping[str, object]],
    model: str | LanguageModel = EMBEDDED,
    *,
    allow: Collection[str] = (),
    limits: AskedLimits | None = None,
    served_name: str | None = None,
    **settings: Any,
) -> Iterator[dict[str, Any]]:
    """Yield the lines that answer the requests of an OpenAI batch file, in their order.

    Args:
        requests: JSON-ready objects, as the lines of the file are.
        model: A name or path, or a model; the embedded one if not given.
        allow: Of ``candidates``, ``grammar``, ``regex``, ``schema``: what requests may bring to be
            compiled, in the limited child.
        limits: How many candidates, and how much text, a request may ask; None: the defaults.
        served_name: What requests call the model; if None the name that it was loaded by.
        settings: As ``RecordSampler`` takes them: ``constraint`` are the artifacts that requests
            may name, ``artifact`` holds those that name none.

    Returns:
        An iterator of lines; a request that cannot be answered as it asks has its own error there.

    Raises:
        CdecError: As ``RecordSampler``; what all requests would meet.
    """
    for name in _OF_RECORDS:
        if settings.get(name):
            raise UsageError(f"`{name}` is about records, not about requests", hint="leave it out")
    method = METHODS.get(settings.get("method", "disc"))
    called = served_name or (model if isinstance(model, str) else None)
    with RecordSampler(model, **settings) as sampler:
        asking = Asking(
            ServingSettings.of_requests(settings.get("constraint") or {}, allow, limits),
            model=called,
            n=settings.get("n", 1),
            max_n=sampler.reading["max_n"],
            is_greedy=method is not None and ABOUT[method.name].is_greedy(settings),
        )
        responses = Responses(sampler.model, called or "", sampler.fields)
        tasks = BatchTasks(sampler.tasks()).of(requests_from_objects(requests, asking))
        work = batch_work(sampler.work, sampler.batch_size)

        def answered(task: Task, samples: Sequence[Sample]) -> list[dict[str, object]]:
            sampler.write_traces(samples)
            return [responses.of(task.head, task.request, samples)]

        for done in sampler.done(tasks, work, answered):
            if done.error is not None:
                yield refusal(done.task.head, done.error)
            else:
                yield from map(dict, done.records)
