"""Errors in the words of the command line: an argument of the samplers becomes the option typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cdec.core.errors import ModelError, UsageError


@contextmanager
def in_typed_words(flags: Mapping[str, str]) -> Iterator[None]:
    """Let a ``UsageError`` raised inside name options instead of arguments.

    Args:
        flags: Argument → option, such as ``{"top_p": "--top-p"}``.
    """
    try:
        yield
    except UsageError as error:
        for name, flag in flags.items():
            error.message = _renamed(error.message, name, flag)
            error.hint = None if error.hint is None else _renamed(error.hint, name, flag)
        error.args = (error.message,)
        raise


@contextmanager
def named_by(flag: str, name: str | None) -> Iterator[None]:
    """Let a ``ModelError`` raised inside begin with the option that named the model.

    Args:
        flag: The option.
        name: The model as typed; None where nobody named it.
    """
    try:
        yield
    except ModelError as error:
        if name is not None:
            error.message = f"{flag}: {error.message}"
            error.args = (error.message,)
        raise


def _renamed(text: str, name: str, flag: str) -> str:
    """Return ``text`` with ``flag`` for ``name``, where that is surely the argument's name."""
    text = text.replace(f"`{name}`", flag)
    if "_" in name:
        return re.sub(rf"\b{name}\b", flag, text)
    # subtle: draft, round and by are words of their own, too: only such openings speak of them as
    # "NAME is ...", "NAME 'value' ...", "NAME and NAME were both given" and "Give NAME a ...".
    after = r"(?= (?:'|(?:is|must|a|such|were both|and [\w-]+ were both)\b))"
    return re.sub(rf"^((?:Give |[\w-]+ and )?){name}{after}", rf"\g<1>{flag}", text)
