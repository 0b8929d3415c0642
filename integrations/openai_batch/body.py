"""Bodies of requests checked field by field: prompts, draws, warping, constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdec.core.errors import CdecError, FieldError, LimitError
from cdec.data.prompts.fields import RecordFields, shown
from cdec.integrations.records.tools import AUTO, NONE
from cdec.integrations.serving.settings import FIELD, ConstraintRequest, ServingSettings

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
"""The two kinds of requests, as their ``url`` names them."""

_SHARED = (
    "model",
    "n",
    "seed",
    "temperature",
    "top_p",
    "max_tokens",
    "logprobs",
    "response_format",
    "stop",
    FIELD,
)
_OF_CHATS = ("tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs")
READ: Mapping[str, frozenset[str]] = {
    CHAT: frozenset({*_SHARED, *_OF_CHATS, "messages", "max_completion_tokens", "top_logprobs"}),
    TEXT: frozenset({*_SHARED, "prompt"}),
}
"""Fields of a body that are read."""
LABELS = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "user"})
"""Fields that say nothing of the text: who asks, and what for."""
NEUTRAL: Mapping[str, Sequence[object]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "presence_penalty": (0,),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "stream": (False,),
    "tool_choice": ("none",),
    "tools": ([],),
}
"""Values with which a field that is not honoured asks for nothing."""
_HINTS = {
    "guided_choice": f"say it in {FIELD!r}: candidates",
    "guided_grammar": f"say it in {FIELD!r}: grammar",
    "guided_json": "say it in 'response_format', type json_schema",
    "guided_regex": f"say it in {FIELD!r}: regex",
    "max_new_tokens": "say it in 'max_tokens'",
    "stream": "a batch is answered whole",
    "structured_outputs": f"say it in {FIELD!r}, or in 'response_format'",
    "vllm_xargs": f"its {FIELD!r} stands beside 'model' here",
}


def refuse_what_is_not_honoured(body: RecordFields, url: str) -> None:
    """Refuse a body that asks for what would be ignored.

    Args:
        body: Its fields; those that are null ask for nothing, and are taken out.
        url: ``CHAT`` or ``TEXT``.

    Raises:
        FieldError: It does, of the first such field.
    """
    for name, value in list(body.fields.items()):
        if value is None:
            del body.fields[name]
        elif name in READ[url] or name in LABELS:
            continue
        elif not any(_is_equal(value, neutral) for neutral in NEUTRAL.get(name, ())):
            raise body.error(
                name,
                f"is not honoured in requests to {url}",
                _HINTS.get(name, "leave it out: what is not honoured is not ignored"),
            )


def _is_equal(value: object, neutral: object) -> bool:
    """Whether two JSON values are one; false is not 0."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


MOST_LOGPROBS = {CHAT: 20, TEXT: 5}
"""Most alternatives that are listed with a token: of chats, and of texts."""
_CORRECT = "correct the field, or leave it out"
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
"""Of messages, as chat templates call them."""
_FORMATS = ("text", "json_object", "json_schema")


@dataclass(frozen=True)
class Asking:
    """Demands that the requests of a file may make.

    Attributes:
        settings: Which artifacts they may name, and what they may bring.
        model: What they call the model; None for any name.
        n: Texts of a request that asks for no number.
        max_n: Most texts of one request.
        is_greedy: Whether the most probable tokens are taken anyway, whatever the temperature.
    """

    settings: ServingSettings = field(default_factory=ServingSettings)
    model: str | None = None
    n: int = 1
    max_n: int = 10_000
    is_greedy: bool = False


def prompts_of(body: RecordFields, url: str) -> dict[str, Any]:
    """Return ``prompts`` and ``messages`` of a request, one of them empty or None.

    Raises:
        FieldError: There are none, or some that are no texts.
    """
    needed = "messages" if url == CHAT else "prompt"
    if needed not in body.fields:
        raise body.error(needed, "is missing", f"requests to {url} have one")
    value = body.fields[needed]
    if url == CHAT:
        return {"messages": _messages(body, value), "prompts": ()}
    prompts = [value] if isinstance(value, str) else value
    if not isinstance(prompts, list) or not prompts or not all(isinstance(p, str) for p in prompts):
        raise body.error(
            needed,
            f"is {shown(value)}; a text or a list of texts was expected",
            "give texts: token ids are not read, as they could stand for special tokens",
        )
    return {"messages": None, "prompts": tuple(prompts)}


def tools_of(body: RecordFields, asking: Asking) -> dict[str, Any]:
    """Return what a request says of tools, and of its chat template, by the names of records.

    Raises:
        FieldError: It says something else, or has to be compiled, and nothing is.
    """
    said: dict[str, Any] = {
        "chat_template_kwargs": body.optional("chat_template_kwargs", body.template_arguments)
    }
    if not body.fields.get("tools"):
        if body.fields.get("tool_choice", NONE) != NONE:
            raise body.error("tool_choice", "stands without 'tools'", "give some, or leave it out")
        return said
    tools = body.optional("tools", body.tools)
    choice = body.optional("tool_choice", body.tool_choice) or AUTO
    if choice != NONE and "schema" not in asking.settings.allow:
        raise body.error(
            "tools",
            "are to be called, which needs a schema of them, and none is compiled",
            'have `allow` name schema, or give "tool_choice": "none"',
        )
    for other in ("response_format", FIELD):
        if choice != NONE and other in body.fields and body.fields[other] != {"type": "text"}:
            raise body.error(
                other, "stands beside 'tools'", "a text has one constraint: leave one out"
            )
    parallel = body.optional("parallel_tool_calls", body.flag)
    parallel = True if parallel is None else parallel
    return {**said, "tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel}


def _messages(body: RecordFields, value: object) -> tuple[dict[str, Any], ...]:
    listed = [_of_parts(message) for message in value] if isinstance(value, list) else value
    messages = body.messages("messages", listed)
    for number, message in enumerate(messages, 1):
        if message["role"] not in _ROLES:
            raise body.error(
                "messages",
                f"has a message {number} of the role {shown(message['role'])}",
                f"known are {', '.join(_ROLES)}",
            )
    if messages[-1]["role"] == "assistant":
        raise body.error(
            "messages",
            "ends with the assistant's own message",
            "end with the user's; a begun answer is given with `prefill`, for all requests",
        )
    return tuple({**message, "role": _ROLES[message["role"]]} for message in messages)


def _of_parts(message: object) -> object:
    """Return a message with its content as a text, where it is a list of texts: line by line."""
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if not isinstance(content, list) or not content or not all(map(_is_text_part, content)):
        return message
    return {**message, "content": "\n".join(part["text"] for part in content)}


def _is_text_part(part: object) -> bool:
    if not isinstance(part, dict) or set(part) != {"type", "text"}:
        return False
    return part["type"] == "text" and isinstance(part["text"], str)


def drawn(body: RecordFields, prompts: int, asking: Asking) -> dict[str, Any]:
    """Return how texts are drawn, by the names of a record's fields.

    Args:
        body: The fields. prompts: How many prompts it has.
        asking: What it may ask.

    Raises:
        FieldError: A value that is none. LimitError: More texts than one request may have.
    """
    n = body.draws(asking.max_n)
    if prompts > 1 and prompts * (n or asking.n) > asking.max_n:
        raise LimitError(
            f"{body.name}, {body.unit} {body.line}: {prompts} prompts ask for"
            f" {prompts * (n or asking.n)} texts, at most {asking.max_n} are drawn for one request",
            hint="raise `max_n`, or give the prompts in several requests",
            line=body.line,
            field="prompt",
            limit=f"max_n {asking.max_n}",
        )
    longest = [name for name in ("max_tokens", "max_completion_tokens") if name in body.fields]
    if len(longest) > 1:
        raise body.error(longest[1], "stands beside 'max_tokens'", "give one of the two")
    return {
        "n": n,
        "seed": body.optional("seed", body.seed),
        "temperature": _temperature(body, asking),
        "top_p": body.optional("top_p", _share(body)),
        "max_tokens": body.optional(longest[0], body.count) if longest else None,
    }


def _temperature(body: RecordFields, asking: Asking) -> float | None:
    value = body.fields.get("temperature")
    if isinstance(value, int | float) and not isinstance(value, bool) and value == 0:
        # Methods that take the most probable tokens draw so at the run's own temperature.
        return None if asking.is_greedy else 0.0
    return body.optional("temperature", body.temperature)


def _share(body: RecordFields) -> Any:
    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 < value <= 1:
            return float(value)
        raise body.error(
            name, f"is {shown(value)}, a number above 0 and up to 1 was expected", _CORRECT
        )

    return check


def named_model(body: RecordFields, asking: Asking) -> str | None:
    """Return what a request calls the model; None where it does not say.

    Raises:
        FieldError: It names another one.
    """
    name = body.optional("model", body.non_empty_text)
    if name is not None and asking.model is not None and name != asking.model:
        raise body.error(
            "model",
            f"is {shown(name)}, and the requests are answered by {asking.model!r}",
            "say with `served_name` what requests call the model",
        )
    return name


def log_probabilities(body: RecordFields, url: str) -> int | None:
    """Return how many alternatives are listed with each token; None where nothing is listed.

    Raises:
        FieldError: The fields say something else.
    """
    if url == CHAT and not _asks_for_tokens(body):
        return None
    name, least = ("top_logprobs", 0) if url == CHAT else ("logprobs", None)
    number, most = body.fields.get(name, least), MOST_LOGPROBS[url]
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if number is None or (is_number and 0 <= number <= most):  # type: ignore[operator]
        return number  # type: ignore[return-value]
    raise body.error(
        name, f"is {shown(number)}, an integer from 0 to {most} was expected", _CORRECT
    )


def _asks_for_tokens(body: RecordFields) -> bool:
    """Whether a chat asks what each token was."""
    value = body.fields.get("logprobs", False)
    if not isinstance(value, bool):
        raise body.error("logprobs", f"is {shown(value)}, true or false was expected", _CORRECT)
    if not value and "top_logprobs" in body.fields:
        raise body.error("top_logprobs", "stands without 'logprobs'", 'give "logprobs": true')
    return value


def constrained(body: RecordFields, asking: Asking) -> dict[str, Any]:
    """Return what a request says of its constraint, by the names of a record's fields.

    Raises:
        FieldError: It names what is not registered, or brings what is not allowed.
        LimitError: It asks too much.
    """
    schema = _schema(body)
    if schema is None and FIELD not in body.fields:
        return {}
    if schema is not None and FIELD in body.fields:
        raise body.error(
            "response_format", f"stands beside {FIELD!r}", "a text has one constraint: leave one"
        )
    if schema is not None and "schema" not in asking.settings.allow:
        raise body.error(
            "response_format",
            "brings its own schema, and none is compiled",
            f"name a registered artifact in {FIELD!r}, or have `allow` name schema",
        )
    given = body.fields.get(FIELD) if schema is None else {"schema": schema}
    asked = _asked(body, given, asking, FIELD if schema is None else "response_format")
    if asked.fit is not None:
        raise body.error(
            FIELD,
            "has 'fit', which is for servers",
            "leave it out: the run's `fit` holds texts to the request's `max_tokens`",
        )
    if asked.documents:
        raise body.error(FIELD, "has 'documents', which are for servers", "leave them out")
    own = {} if asked.source is None else {asked.source: asked.text}
    return {
        "constraint": asked.artifact,
        "candidates": asked.candidates,
        "narrowed": asked.narrowed,
        "deny": asked.deny,
        **own,
        **_free(asked),
    }


def _free(asked: ConstraintRequest) -> dict[str, Any]:
    """Return what a request says of free text, by the names of a record's fields."""
    if asked.free is None:
        return {}
    free = asked.free
    budget = {} if free.budget is None else {"budget": free.budget}
    regions = {"regions": free.regions} if free.regions else {}
    return {"after": free.after or None, "between": free.between, **budget, **regions}


def _asked(body: RecordFields, given: object, asking: Asking, name: str) -> ConstraintRequest:
    try:
        return ConstraintRequest.of(given, asking.settings)
    except (FieldError, LimitError) as error:
        found: CdecError = type(error)(
            f"{body.name}, {body.unit} {body.line}: {error.message}",
            hint=error.hint,
            **{**error.details, "line": body.line, "field": name},
        )
        raise found from None


def _schema(body: RecordFields) -> dict[str, object] | None:
    """Return the schema that ``response_format`` asks for; None for any text."""
    value = body.fields.get("response_format")
    if value is None:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or kind not in _FORMATS:
        raise _format(body, f"is {shown(value if kind is None else kind)}", f"of {_FORMATS}")
    extra = sorted(set(value) - {"type", *(["json_schema"] if kind == "json_schema" else [])})
    if extra:
        raise _format(body, f"has {shown(extra[0])}, which is not honoured", "leave it out")
    if kind != "json_schema":
        return {"type": "object"} if kind == "json_object" else None
    named = value.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    if not isinstance(named, dict) or not isinstance(schema, dict):
        raise _format(
            body,
            "has no object 'schema' in 'json_schema'",
            'give {"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}',
        )
    # A schema is held to whether or not it is called strict; its name and description are labels.
    extra = sorted(set(named) - {"name", "description", "schema", "strict"})
    if extra:
        raise _format(body, f"has {shown(extra[0])}, which is not honoured", "leave it out")
    return schema


def _format(body: RecordFields, problem: str, hint: str) -> FieldError:
    return body.error("response_format", problem, hint)
