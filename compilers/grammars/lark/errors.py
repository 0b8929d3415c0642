"""Lark's exceptions -> our errors, with line and column as far as they can be told."""

from __future__ import annotations

import re

from lark.exceptions import LarkError, UnexpectedInput

from cdec.compilers.grammars.lark.scan import GBNF_HINT, Outline, looks_like_gbnf, mixed_name
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    TerminalRecursionError,
)

_KINDS: tuple[tuple[str, type[GrammarError]], ...] = (
    ("defined more than once", GrammarDuplicateError),
    ("Symbol already defined", GrammarDuplicateError),
    ("not defined", GrammarUndefinedError),
    ("nonexisting", GrammarUndefinedError),
    ("wasn't defined", GrammarUndefinedError),
    ("Recursion in terminal", TerminalRecursionError),
)
_COUNTED = re.compile(r"\{[ ]*(?P<low>[0-9]*)[ ]*(?P<comma>,?)[ ]*(?P<high>[0-9]*)[ ]*\}")
"""A repetition as regular expressions write it."""
_LONGEST_COUNT = 20
_NAME = re.compile(r"\b_?[A-Za-z][A-Za-z0-9_]*\b")


def translate(error: Exception, outline: Outline) -> GrammarError:
    """Return the error that says what Lark's exception says.

    Args:
        error: Raised by Lark while it read the grammar.
        outline: The grammar.

    Returns:
        An error with the place of the unexpected token, else of the definition that is named.
    """
    message = str(error).split("\n", 1)[0]
    cause: UnexpectedInput | None = None
    link: BaseException | None = error
    while link is not None:  # the first one raised is of the grammar, later ones of Lark's examples
        cause = link if isinstance(link, UnexpectedInput) else cause
        link = link.__context__
    if cause is not None:
        return _unexpected(message if isinstance(error, LarkError) else "", cause, outline)
    kind = next((kind for text, kind in _KINDS if text in message), GrammarSyntaxError)
    positions = {s.name.text: s.name.position for s in outline.definitions() if s.name}
    named = [name for name in _NAME.findall(message) if name in positions]
    if not named:
        return kind(message, hint="see the Lark grammar reference")
    position = positions[named[-1]]
    return kind(
        f"{outline.where(position)}: {message}",
        hint="see the Lark grammar reference",
        name=named[-1],
        **outline.place(position),
    )


def _unexpected(message: str, cause: UnexpectedInput, outline: Outline) -> GrammarSyntaxError:
    message = re.sub(r",? at line .*|Unexpected token.*", "", message).strip() or "misplaced token"
    position = cause.pos_in_stream
    if not isinstance(position, int) or not 0 <= position < len(outline.text):
        position = max(len(outline.text) - 1, 0)
    if (mixed := mixed_name(outline, position)) is not None:
        return mixed
    found = outline.text[position : position + 20].split("\n", 1)[0]
    return GrammarSyntaxError(
        f"{outline.where(position)}: {message}, found {found!r}"
        if found
        else f"{outline.where(position)}: {message}, found the end of the line",
        hint=_hint(outline, position),
        **outline.place(position),
    )


def _hint(outline: Outline, position: int) -> str:
    """Say what to write instead of what stands at a place."""
    if looks_like_gbnf(outline.text):
        return GBNF_HINT
    counted = _COUNTED.search(outline.text, max(position - _LONGEST_COUNT, 0), len(outline.text))
    if counted is not None and counted.start() <= position < counted.end():
        low, comma, high = counted["low"] or "0", counted["comma"], counted["high"]
        if not comma:
            return f"write ~{low}, a count of Lark's"
        return f"write ~{low}..{high}, counts of Lark's" if high else f"write ~{low} and (...)*"
    return "one definition a line: name: alternative | alternative"
