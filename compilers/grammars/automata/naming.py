"""How messages name a terminal and say where it is defined."""

from __future__ import annotations

from cdec.compilers.grammars.definition import Terminal

_SHOWN = 60
"""Characters of a pattern that stand in a message."""


def where(terminal: Terminal) -> str:
    """Name ``terminal`` and its line for a message."""
    if terminal.is_whole:
        return f"the regular expression {shortened(terminal.value)!r}"
    line = f" (line {terminal.line})" if terminal.line else ""
    return f"{terminal.noun} {terminal.name}{line}"


def place(terminal: Terminal) -> dict[str, object]:
    """Return ``terminal``'s name and, where known, place as an error's details."""
    if terminal.is_whole:
        return {"pattern": shortened(terminal.value)}
    details: dict[str, object] = {"name": terminal.name}
    if terminal.line:
        details |= {"line": terminal.line, "column": terminal.column}
    return details


def shortened(pattern: str) -> str:
    """Return a pattern as messages show it."""
    return pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "..."
