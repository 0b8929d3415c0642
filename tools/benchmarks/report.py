"""What benchmarks print and write: parts in turn, tables, JSON with the machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from tests.shared import shared_folder


def run_parts(
    names: Sequence[str], parts: Mapping[str, Callable[[], Any]], need_shared: Collection[str]
) -> None:
    """Run the named parts in turn, and print how long each took.

    Args:
        names: Keys of ``parts``.
        parts: What each runs.
        need_shared: Those that are left out where the shared data is absent.
    """
    print(f"{machine()}\n")
    has_shared = (shared_folder() / "data").is_dir()
    for name in names:
        if name in need_shared and not has_shared:
            print(f"{name}: left out, no shared data at {shared_folder()}: set CDEC_SHARED")
            continue
        begin = time.perf_counter()
        parts[name]()
        print(f"{name}: {time.perf_counter() - begin:.0f} s\n", flush=True)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; floats with four significant digits, the rest as it is."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # A file or a pipe has no width of its own; tables must not be folded there.
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=160)
    console.print(table)


def save(path: Path, figures: Any, **how: object) -> Path:
    """Write a JSON file with the machine it was measured on, and how."""
    measured_on = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        **how,
        "python": platform.python_version(),
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    written = orjson.dumps({"machine": measured_on, "figures": figures}, option=options)
    path.write_bytes(written + b"\n")
    return path


def machine() -> str:
    """Name the processor and its cores."""
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    return platform.processor() or platform.machine()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
