"""Summaries on stdout: aligned tables for people, JSON objects for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from cdec.cli.frame.console import Console, escape
from cdec.data.output.terminal import escape_json

WIDTH = 80
"""Columns of what is written for people."""
WIDEST_NAME = 28


def print_json(console: Console, value: object) -> None:
    """Write one JSON object a line to stdout; a terminal gets control characters as escapes."""
    import orjson

    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    console.data(escape_json(text) if console.stdout.isatty() else text)


def print_table(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Write ``name  value`` lines, names aligned, control characters escaped."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        console.data(f"{escape(name):<{width}}  {escape(value)}".rstrip())


def print_wrapped(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Write ``name  value`` lines of at most 80 columns; long values go on below their first line.

    Words without a place to break stay whole.
    """
    left = min(max((len(escape(name)) for name, _ in rows), default=0), WIDEST_NAME)
    for name, value in rows:
        first = f"{escape(name):<{left}}  "
        if len(first) > left + 2:
            console.data(first.rstrip())
            first = " " * (left + 2)
        lines = textwrap.wrap(
            escape(value),
            WIDTH,
            initial_indent=first,
            subsequent_indent=" " * (left + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        console.data("\n".join(lines) if lines else first.rstrip())


def print_columns(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table with a header line, columns aligned, control characters escaped."""
    escaped = [[escape(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in escaped) for i in range(len(header))]
    for row in escaped:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        console.data("  ".join(cells).rstrip())


def shown_bytes(n: int) -> str:
    """Return a number of bytes for people: ``1.5 MiB``."""
    size = float(n)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{n:,} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"


def flatten(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """Return nested mappings as ``a.b`` names with shown values, for a table."""
    if isinstance(value, Mapping):
        rows: list[tuple[str, str]] = []
        for key, inner in value.items():
            rows += flatten(inner, f"{prefix}.{key}" if prefix else str(key))
        return rows
    if isinstance(value, bool) or value is None:
        return [(prefix, {True: "yes", False: "no", None: "-"}[value])]
    if isinstance(value, int):
        return [(prefix, f"{value:,}")]
    if isinstance(value, list | tuple):
        return [(prefix, ", ".join(map(str, value)))]
    return [(prefix, str(value))]
