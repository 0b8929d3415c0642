"""The page of findings: written from what was found, which what is computed here agrees with."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Any

import pytest

from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.reproduce import reproduce
from cdec.integrations.findings.table import FINDINGS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = runpy.run_path(str(DOCS / "findings.py"))
KEPT: dict[str, Any] = json.loads((DOCS / "figures" / "findings.json").read_text())


def test_the_page_says_what_was_found() -> None:
    assert (DOCS / "findings.md").read_text() == PAGES["page"](), "run `python docs/findings.py`"


def test_every_finding_that_needs_no_data_is_on_the_page() -> None:
    without_data = [name for name, finding in FINDINGS.items() if not finding.needs]
    assert [name for name in KEPT if name in without_data] == without_data


@pytest.mark.parametrize(
    "name",
    [
        name if name == "disc-bias" else pytest.param(name, marks=pytest.mark.slow)
        for name, finding in FINDINGS.items()
        if not finding.needs and not finding.uses
    ],
)
def test_what_is_computed_here_is_what_the_page_says(name: str, tmp_path: Path) -> None:
    (row,) = reproduce([FINDINGS[name]], Laboratory(), tmp_path)
    found = {key: row[key] for key in KEPT[name]}
    ours, kept = flat(found), flat(KEPT[name])
    assert ours.keys() == kept.keys()
    # Another processor adds up the same numbers in another order.
    assert [ours[p] for p in ours if not is_near(ours[p], kept[p])] == []


def is_near(a: object, b: object) -> bool:
    """Say whether values are equal, floats up to rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-9)
    return a == b


def flat(value: Any, place: str = "") -> dict[str, Any]:
    """Return nested values by their places."""
    if isinstance(value, dict):
        value = list(value.items())
    if not isinstance(value, list | tuple):
        return {place: value}
    return {k: v for i, each in enumerate(value) for k, v in flat(each, f"{place}.{i}").items()}
