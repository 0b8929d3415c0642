"""Chat templates of tokenizers, which strangers wrote: rendered in the process that can be killed.

``load`` and ``parser_of`` are that process's side (``core.child.readers.Language``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from cdec.core.child.judge import JUDGE
from cdec.core.child.readers import Language, Parse
from cdec.core.errors import FieldError, LimitError
from cdec.core.tokens.locations import EMBEDDED, located

MAX_SECONDS = 5.0
"""Processor time that one rendering, or one match of a tokenizer's own pattern, may take."""
_READER = "cdec.core.models.chat_templates"


RESERVED = frozenset(
    {
        *("messages", "conversation", "conversations", "tokenize", "add_generation_prompt"),
        *("continue_final_message", "return_assistant_tokens_mask", "sanitize_control_tokens"),
        *("padding", "truncation", "max_length", "return_tensors", "return_dict"),
        *("tokenizer_kwargs", "chat_template", "self", "bos_token", "eos_token", "pad_token"),
        *("unk_token", "sep_token", "cls_token", "mask_token", "additional_special_tokens"),
    }
)
"""Names that say how a chat is rendered and encoded, and are no arguments of its template."""


def require_arguments(arguments: Mapping[str, Any], field: str) -> None:
    """Refuse arguments of a chat template that are none.

    Args:
        arguments: By name.
        field: Where they stand, for messages.

    Raises:
        FieldError: A name that is reserved, or tools that are no list of objects.
    """
    for name in arguments:
        if name in RESERVED:
            raise FieldError(
                f"{field} has {name!r}, which is no argument of a chat template",
                hint="leave it out: the template is the tokenizer's, and an answer follows the "
                "messages",
                field=field,
            )
    for name in ("tools", "documents"):
        value = arguments.get(name)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(each, Mapping) for each in value)
        ):
            raise FieldError(
                f"{field} has {name!r}, which are no list of objects",
                hint=f"give {name} as a list, or leave them out",
                field=field,
            )


def rendered_chat(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]
) -> str:
    """Return chat messages as the tokenizer's template writes them, up to the answer's beginning.

    Args:
        tokenizer: Of transformers, with a chat template.
        messages: With ``role`` and ``content``.
        arguments: What the template is told beside them, by name.

    Raises:
        FieldError: The template refused them.
        LimitError: It took more than ``MAX_SECONDS``, or more memory than the judge of texts has.

    Cost: some tenths of a millisecond in the process that judges texts; the first one waits a
    second for that process. Templates that ship with the package are rendered here.
    """
    if tokenizer.chat_template in _shipped().values() or _is_own_renderer(tokenizer):
        try:
            said = tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, **arguments
            )
        except Exception as error:  # a template is a program: it may raise anything
            raise _refused(error) from error
        return str(said)
    source = _template_of(tokenizer, arguments.get("tools"))
    parts = ("template", source, json.dumps(tokenizer.special_tokens_map))
    given = {"messages": list(messages), "arguments": arguments}
    said = _asked(parts, json.dumps(given, default=str), "the chat template")
    if "refused" in said:
        raise _refused(said["refused"])
    return str(said["rendered"])


def is_question(pattern: str, text: str) -> bool:
    """Say whether the pattern by which a tokenizer tells questions matches a whole text.

    Raises:
        LimitError: As ``rendered_chat``.
    """
    if pattern in _shipped().values():
        import re

        return re.fullmatch(pattern, text) is not None
    return bool(_asked(("pattern", pattern, ""), json.dumps(text), "the tokenizer's pattern"))


def _asked(parts: tuple[str, str, str], text: str, what: str) -> Any:
    answer = JUDGE.ask(Language(_READER, parts), text.encode(), MAX_SECONDS)
    if answer.lost is not None or answer.verdict is None:
        raise LimitError(
            f"{what} of this model {answer.lost or 'could not be run'}",
            hint="Look at the template in the tokenizer's folder, or give `prompt` as text.",
        )
    return answer.verdict


def _refused(why: object) -> FieldError:
    return FieldError(f"the chat template refused the messages: {why}", field="messages")


def _is_own_renderer(tokenizer: Any) -> bool:
    """Whether a tokenizer renders by a method of its own class, and not by its template."""
    from transformers import PreTrainedTokenizerBase

    common = PreTrainedTokenizerBase.apply_chat_template
    return type(tokenizer).apply_chat_template is not common


def _template_of(tokenizer: Any, tools: Any) -> str:
    """Return the source of the template for conversations with these tools; None for none."""
    try:
        return str(tokenizer.get_chat_template(tools=tools))
    except ValueError as error:  # several templates, none of them the default
        raise _refused(error) from error


@cache
def _shipped() -> Mapping[str, object]:
    """Return what the tokenizer that ships with the package says."""
    said = orjson.loads((Path(located(EMBEDDED)) / "tokenizer_config.json").read_bytes())
    return {name: value for name, value in said.items() if isinstance(value, str)}


def load() -> None:
    """Import the library that renders."""
    import transformers.utils.chat_template_utils  # noqa: F401


def parser_of(kind: str, source: str, special: str) -> Parse:
    """Return what renders messages by a template, or matches a text against a pattern.

    Args:
        kind: ``template`` or ``pattern``.
        source: Of the template or the pattern.
        special: JSON object of the special tokens that a template may name.

    Returns:
        For a template, of a JSON object of ``messages`` and ``arguments``: ``rendered``, or
        ``refused`` and why. For a pattern, of a JSON string: whether it matches the whole.
    """
    if kind == "pattern":
        pattern = re.compile(source)
        return lambda text, deadline: pattern.fullmatch(json.loads(text)) is not None
    from transformers.utils.chat_template_utils import render_jinja_template

    tokens = json.loads(special)

    def render(text: str, deadline: float) -> dict[str, str]:
        given = json.loads(text)
        messages = [
            {key: value for key, value in message.items() if value is not None}
            for message in given["messages"]
        ]
        try:
            rendered, _ = render_jinja_template(
                conversations=[messages],
                chat_template=source,
                add_generation_prompt=True,
                **{**tokens, **given["arguments"]},
            )
        except MemoryError:
            raise
        except Exception as error:  # a template is a program: it may raise anything
            return {"refused": str(error) or type(error).__name__}
        return {"rendered": rendered[0]}

    return render
