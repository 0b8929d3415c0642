"""Runs the cells of a notebook, and reads and writes what it shows of their output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.docs.shell import Shell

_BETWEEN = "=== next cell ==="


def printed(notebook: Path, shell: Shell, folder: Path) -> list[list[str]]:
    """Run the cells of a notebook and return the lines that each prints, or one list of an error.

    Args:
        notebook: Version 4 of the format; its cells are Python, without magics.
        shell: Runs them, all in one process.
        folder: Empty; the working directory.
    """
    scripts = ["".join(cell["source"]) for cell in code_cells(notebook)]
    lines = shell.run_python(f"\nprint({_BETWEEN!r})\n".join(scripts), folder)
    cells: list[list[str]] = [[]]
    for line in lines:
        if line == _BETWEEN:
            cells.append([])
        else:
            cells[-1].append(line)
    return cells


def shown(cell: dict[str, Any]) -> Sequence[str]:
    """Return the lines of output that a cell shows."""
    return "".join(part for output in cell["outputs"] for part in output["text"]).splitlines()


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    """Return the cells that are run."""
    return [cell for cell in _read(notebook)["cells"] if cell["cell_type"] == "code"]


def update(notebook: Path, cells: Sequence[Sequence[str]]) -> None:
    """Write what the cells printed into a notebook."""
    content = _read(notebook)
    outputs = iter(cells)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            text = [f"{line}\n" for line in next(outputs)]
            stream = {"name": "stdout", "output_type": "stream", "text": text}
            cell["outputs"] = [stream] if text else []
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _read(notebook: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(notebook.read_text())
    return content
