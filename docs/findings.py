"""Writes the page of findings from what ``cdec reproduce`` found.

``python docs/findings.py FOLDER`` takes the findings of a folder over into
``figures/findings.json``, which holds their checks and tables, and writes ``findings.md`` from it;
without a folder it writes the page alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cdec.data.reports.findings import bounds, shown, task_models
from cdec.integrations.findings.table import FINDINGS

DOCS = Path(__file__).resolve().parent
KEPT = DOCS / "figures" / "findings.json"
HEAD = """# What the papers found, computed anew

Written by `docs/findings.py` from what `cdec reproduce` found with the embedded models; the page on
[reproducing](how-to/reproduce.md) says how to repeat it. Whether a finding holds is computed: each
line of its first table is an inequality, with the number that was found.

"""
_TAKEN = ("state", "checks", "tables", "task_models")


def take(folder: Path) -> None:
    """Take the findings of a folder over, beside those that were taken before."""
    kept = read()
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if path.stem in FINDINGS:
            kept[path.stem] = {name: found[name] for name in _TAKEN if found.get(name)}
    ordered = {name: kept[name] for name in FINDINGS if name in kept}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def read() -> dict[str, Any]:
    """Return the findings that were taken over, by name."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}


def page() -> str:
    """Return the page."""
    return HEAD + "\n".join(line for name, found in read().items() for line in _lines(name, found))


def _lines(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    finding = FINDINGS[name]
    yield f"## {name}\n"
    yield f"{finding.paper}, {finding.place}: **{found['state']}**\n"
    yield f"{_cell(finding.sentence)} What differs: {_cell(finding.differs)}\n"
    if said := task_models(found):
        yield f"{said}\n"
    yield "| what was computed | | must be |\n|---|---|---|"
    for check in found["checks"]:
        yield f"| {_cell(check['said'])} | {_cell(check['value'])} | {bounds(check)} |"
    yield ""
    for table in found["tables"]:
        yield f"{_cell(table['title'])}\n"
        yield f"| {' | '.join(map(_cell, table['columns']))} |"
        yield "|---" * len(table["columns"]) + "|"
        for row in table["rows"]:
            yield f"| {' | '.join(map(_cell, row))} |"
        yield ""


def _cell(value: object) -> str:
    return shown(value).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    if sys.argv[1:]:
        take(Path(sys.argv[1]))
    (DOCS / "findings.md").write_text(page(), encoding="utf-8")
