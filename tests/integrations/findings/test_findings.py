"""Findings: what is computed holds, and is held to bounds that it could miss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from cdec.integrations.findings.finding import Check, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.reproduce import NOT_RUN, reproduce
from cdec.integrations.findings.table import FINDINGS
from tests.shared import shared_folder

CHEAP = ("disc-figure", "disc-bias")
WITHOUT_DATA = [name for name, finding in FINDINGS.items() if not finding.needs]


def _tier(name: str) -> object:
    return name if name in CHEAP else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.share(1)
@pytest.mark.parametrize("name", [_tier(name) for name in WITHOUT_DATA])
def test_a_finding_holds(name: str) -> None:
    for package in FINDINGS[name].packages:
        pytest.importorskip(package)
    found = FINDINGS[name].compute(Laboratory())
    assert found.checks
    assert [check.to_json() for check in found.checks if not check.holds] == []
    for table in (*found.tables, *found.times):
        assert {len(row) for row in table.rows} == {len(table.columns)}
    for plot in found.plots:
        for line in plot.lines:
            assert len(line.x) == len(line.y)
            assert len(line.low) == len(line.high)
            assert len(line.low) in (0, len(line.x))


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name in FINDINGS if name not in WITHOUT_DATA])
def test_a_finding_of_data_holds_where_the_data_is(name: str) -> None:
    laboratory = Laboratory(data=shared_folder() / "data")
    if absent := laboratory.missing(FINDINGS[name].needs):
        pytest.skip(f"no {', '.join(absent)} in {laboratory.data}")
    found = FINDINGS[name].compute(laboratory)
    assert [check.to_json() for check in found.checks if not check.holds] == []


def test_a_finding_without_its_data_or_packages_is_not_run_and_says_why(tmp_path: Path) -> None:
    packages = ("json", "no_such_package")
    cases = {
        "data absent: no_such_data": {"needs": ("no_such_data",), "packages": packages},
        "packages absent: no_such_package": {"packages": packages},
    }
    for reason, lacking in cases.items():
        finding = replace(FINDINGS["disc-bias"], **lacking)
        (row,) = reproduce([finding], Laboratory(), tmp_path)
        assert (row["state"], row["reason"]) == (NOT_RUN, reason)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_every_finding_can_fail() -> None:
    for name in CHEAP:
        checks = FINDINGS[name].compute(Laboratory()).checks
        assert [c.said for c in checks if c.at_least is None and c.at_most is None] == []


def test_a_check_holds_within_its_bounds_and_nowhere_else() -> None:
    assert Check("", 1.0, at_least=1.0, at_most=1.0).holds
    assert not Check("", 1.1, at_most=1.0).holds
    assert not Check("", 0.9, at_least=1.0).holds
    assert not Check("", math.nan, at_most=1.0).holds
    assert not Check("", math.nan).holds
    assert math.isnan(largest([1.0, math.nan, 2.0]))


def test_names_of_plots_and_findings_are_names_of_files() -> None:
    for name, finding in FINDINGS.items():
        assert name == finding.name
        assert name.replace("-", "").isalnum()
        assert finding.sentence.endswith(".")
        assert finding.differs.endswith(".")
