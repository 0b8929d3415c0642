"""Tables on the terminal and JSON files under ``bench-results`` for ``make bench-aligned``."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from tests.conftest import REPOSITORY

RESULTS = REPOSITORY / "bench-results"


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


def save(name: str, figures: Any) -> Path:
    """Write ``bench-results/aligned-NAME.json`` with the machine it was measured on."""
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path = RESULTS / f"aligned-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    path.write_bytes(orjson.dumps({"machine": machine, "figures": figures}, option=options) + b"\n")
    return path


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
