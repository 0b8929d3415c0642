"""The fields of a request's body: those that are read, mere labels, and values that ask nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdec.data.prompts.fields import RecordFields
from cdec.integrations.serving.settings import FIELD

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
    FIELD,
)
READ: Mapping[str, frozenset[str]] = {
    CHAT: frozenset({*_SHARED, "messages", "max_completion_tokens", "top_logprobs"}),
    TEXT: frozenset({*_SHARED, "prompt"}),
}
"""What is read of a body."""
LABELS = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "user"})
"""What says nothing of the text: who asks, and what for."""
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
    "stop": ([],),
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
    "stop": "it may cut a text that the constraint allows; give a constraint that ends there",
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
