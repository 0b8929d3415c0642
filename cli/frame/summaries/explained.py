"""What ``check --explain`` prints for people: a row a token, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdec.cli.frame.console import escape
from cdec.cli.frame.tables import WIDTH

_SHOWN_TERMINALS = 4
_WIDEST_TOKEN = 16
_WIDEST_STACK = 22


def explained_lines(
    steps: Sequence[Mapping[str, Any]], patterns: Mapping[str, str]
) -> Iterator[str]:
    """Yield a table of the steps; below it where and why a token is refused, and the terminals.

    Args:
        steps: As ``Constraint.explain`` yields them.
        patterns: Regular expressions of terminals, by name.
    """
    taken = [step for step in steps if step["is_allowed"]]
    rows = [("byte", "token", "allowed", "reading", "stack"), *map(_cells, taken)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    left = sum(widths) + 2 * len(widths)
    room = WIDTH - left - _WIDEST_STACK - 2
    for *cells, reading, stack in rows:
        head = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        first, *more = textwrap.wrap(reading, room, break_on_hyphens=False) or [""]
        yield f"{head}  {first:<{room}}  {stack}".rstrip()
        yield from (f"{'':<{left}}{line}" for line in more)
    named = {name for step in taken for each in step["readings"] for name in each["viable"]}
    if steps and not steps[-1]["is_allowed"]:
        yield ""
        yield from _refusal(steps[-1])
        named |= set(steps[-1]["terminals"])
    shown = [(name, patterns[name]) for name in sorted(named) if name in patterns]
    if shown:
        yield ""
        widest = max(len(escape(name)) for name, _ in shown)
        for name, pattern in shown:
            yield from _wrapped(f"{escape(name):<{widest}}  ", escape(pattern), long_words=True)


def _cells(step: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Return a step as cells: byte, token, how many were allowed, reading, end of the stack."""
    token = f'"{escape(step["token"])}"'
    if len(token) > _WIDEST_TOKEN:
        token = token[: _WIDEST_TOKEN - 4] + '..."'
    allowed = f"{step['allowed_count']:,}" + (" forced" if step["forced"] else "")
    reading = " | ".join(_shown_reading(reading) for reading in step["readings"])
    hidden = step["readings_count"] - len(step["readings"])
    reading += f" | ... {hidden} more" if hidden else ""
    reading += "; may end" if step["may_end"] else ""
    return str(step["byte"]), token, allowed, escape(reading), _end_of(step["stack"])


def _end_of(stack: Sequence[str]) -> str:
    """Return the symbols on top of the parser's stack that have room."""
    whole = escape(" ".join(stack))
    if len(whole) <= _WIDEST_STACK:
        return whole
    return "... " + whole[len(whole) - _WIDEST_STACK + 4 :].partition(" ")[2]


def _refusal(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a token is refused, what was expected there, and the parser's whole stack."""
    place = f"refused at byte {step['refused_byte']}, in the token {step['token']!r}"
    yield from _wrapped("", escape(place))
    yield from _wrapped("  expected  ", escape(" ".join(step["terminals"]) or "the end"))
    if step["allowed"]:
        pieces = ", ".join(f'"{piece}"' for piece in step["allowed"])
        yield from _wrapped("  such as   ", escape(pieces))
    yield from _wrapped("  stack     ", escape(" ".join(step["stack"])))


def _wrapped(label: str, text: str, *, long_words: bool = False) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=long_words,
        break_on_hyphens=False,
    )


def _shown_reading(reading: Mapping[str, Any]) -> str:
    """Return the terminals that a reading may be inside of; those that begin next, if none."""
    names = _unique(reading["under_way"])
    lead = "in" if names else "before"
    names = _unique([name for name in reading["viable"] if not names or name in names])
    more = " ..." if len(names) > _SHOWN_TERMINALS else ""
    return f"{lead} {' '.join(names[:_SHOWN_TERMINALS]) or '(end)'}{more}"


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
