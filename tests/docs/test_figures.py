"""Figures that pages take from findings: each is what was found, to the digits that are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT: dict[str, Any] = json.loads((ROOT / "docs" / "figures" / "findings.json").read_text())

TOY, SYGUS = ("rivals-toys", "Toy A"), ("asap-sygus", "800 draws")
FIGURES = (
    ("README.md", r"is (\S+) nats from Q after", *TOY, "exact", "1600 calls"),
    ("README.md", r"masked decoding (\S+) \(\[", *TOY, "masked", "1600 calls"),
    ("docs/faithful.md", r"is of `masked` (\S+) nats", *TOY, "masked", "1600 calls"),
    ("docs/faithful.md", r"weighted (0\.\d+)", *TOY, "masked, weighted", "1600 calls"),
    ("docs/faithful.md", r"`asap` (0\.\d+)", *TOY, "asap", "1600 calls"),
    ("docs/faithful.md", r"`exact` (0\.\d+)", *TOY, "exact", "1600 calls"),
    ("docs/benchmarks.md", r"draws is (\S+) for `masked`", *SYGUS, "dr-name", "masked, last"),
    ("docs/benchmarks.md", r"(\S+) for `asap`, and", *SYGUS, "dr-name", "asap, last"),
    ("docs/benchmarks.md", r"and (\S+) for draws from Q", *SYGUS, "dr-name", "Q's"),
)
"""Page, what stands around the figure there, finding, beginning of the table's title, row, column.

A figure that a page takes from ``cdec reproduce`` is one line here; the page is mended where the
finding was computed anew."""


@pytest.mark.parametrize(("page", "around", "finding", "title", "row", "column"), FIGURES)
def test_a_figure_on_a_page_is_what_was_found(
    page: str, around: str, finding: str, title: str, row: str, column: str
) -> None:
    (shown,) = re.findall(around, (ROOT / page).read_text(encoding="utf-8"))
    assert is_shown(found(finding, title, row, column), shown), found(finding, title, row, column)


def found(finding: str, title: str, row: str, column: str) -> float:
    """Return the cell of a finding's table."""
    (table,) = [t for t in KEPT[finding]["tables"] if t["title"].startswith(title)]
    (cells,) = [cells for cells in table["rows"] if cells[0] == row]
    return float(cells[table["columns"].index(column)])


def is_shown(value: float, shown: str) -> bool:
    """Say whether a number is the value, rounded to the digits that it has."""
    digits = len(shown.partition(".")[2])
    return abs(value - float(shown.replace(",", ""))) <= 0.5000001 * 10**-digits


def test_a_figure_of_other_digits_is_told() -> None:
    assert is_shown(13.2096, "13.2")
    assert is_shown(1600.4, "1,600")
    assert not is_shown(13.2096, "13.3")
    assert not is_shown(0.01281, "0.012")
