"""Rendering of chat templates, in the process that judges texts; see ``chat_templates``."""

from __future__ import annotations

import json
import re

from cdec.core.child.readers import Parse


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
        For a template, of a JSON array of messages: ``rendered``, or ``refused`` and why. For a
        pattern, of a JSON string: whether it matches the whole.
    """
    if kind == "pattern":
        pattern = re.compile(source)
        return lambda text, deadline: pattern.fullmatch(json.loads(text)) is not None
    from transformers.utils.chat_template_utils import render_jinja_template

    tokens = json.loads(special)

    def render(text: str, deadline: float) -> dict[str, str]:
        messages = [
            {key: value for key, value in message.items() if value is not None}
            for message in json.loads(text)
        ]
        try:
            rendered, _ = render_jinja_template(
                conversations=[messages],
                chat_template=source,
                add_generation_prompt=True,
                **tokens,
            )
        except MemoryError:
            raise
        except Exception as error:  # a template is a program: it may raise anything
            return {"refused": str(error) or type(error).__name__}
        return {"rendered": rendered[0]}

    return render
