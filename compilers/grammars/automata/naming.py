"""How messages name a terminal and say where it is defined."""

from __future__ import annotations

from cdec.compilers.grammars.definition import Terminal


def where(terminal: Terminal) -> str:
    """Name ``terminal`` and its line for a message."""
    line = f" (line {terminal.line})" if terminal.line else ""
    return f"terminal {terminal.name}{line}"


def place(terminal: Terminal) -> dict[str, object]:
    """Return ``terminal``'s name and, where known, place as an error's details."""
    details: dict[str, object] = {"name": terminal.name}
    if terminal.line:
        details |= {"line": terminal.line, "column": terminal.column}
    return details
