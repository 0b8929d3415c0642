"""One-line forms of objects for people at a prompt, and tables for notebooks."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

_LONGEST = 60
"""Most characters of a text that a line shows."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are written out: controls, and what reorders or breaks a line."""


def line(name: str, *facts: object) -> str:
    """Return ``Name(fact, fact)``; facts that are None or empty are left out."""
    return f"{name}({', '.join(str(fact) for fact in facts if fact not in (None, ''))})"


def cut(text: str) -> str:
    """Return a text in quotes, as Python writes it, cut where it is long."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}..."


def safe(text: object) -> str:
    """Return a text for HTML: nothing in it is markup, and no character is hidden but newlines."""
    shown = (
        c if c in "\n\t" or unicodedata.category(c) not in _HIDDEN else f"\\u{ord(c):04x}"
        for c in str(text)
    )
    return html.escape("".join(shown))


def table(rows: Iterable[Sequence[object]], heads: Sequence[str] = ()) -> str:
    """Return rows as an HTML table; every cell is ``safe``."""

    def row(cells: Sequence[object], tag: str) -> str:
        style = "text-align:left;white-space:pre-wrap"
        return "".join(f'<{tag} style="{style}">{safe(cell)}</{tag}>' for cell in cells)

    lines = [row(heads, "th")] if heads else []
    lines += [row(cells, "td") for cells in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


class TraceLines(list[Mapping[str, object]]):
    """The lines of one text's trace, one a token; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        heads = ("token", "P", "Z", "taken away", "the model's own")
        return table(map(_traced, self), heads)


def _traced(said: Mapping[str, object]) -> tuple[str, ...]:
    taken = said.get("taken")
    return (
        _event(said),
        probability(said.get("logprob")),
        probability(said.get("log_z")),
        f"{taken:.3g}" if isinstance(taken, float | int) else "",
        _event(said.get("choice")),
    )


def _event(said: object) -> str:
    """Return a token's text in quotes, or what stands for the end, or for nothing."""
    if not isinstance(said, Mapping):
        return ""
    if said.get("token_id") is not None:
        return f'"{said.get("text")}"'
    return "nothing" if said.get("event") == "none" else "end"


def probability(log_p: object) -> str:
    """Return what a natural log of a probability stands for; 0 for None."""
    return f"{math.exp(min(0.0, log_p)):.3g}" if isinstance(log_p, float | int) else "0"
