"""Findings computed into a folder, one file each, so that a run that ended early goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from cdec.core.errors import CdecError, DataError, ResumeMismatchError
from cdec.core.files.whole import whole_file
from cdec.integrations.findings.finding import Finding, Found
from cdec.integrations.findings.laboratory import Laboratory

HOLDS, FAILS, NOT_RUN, ERROR = "holds", "does not hold", "not run", "error"
"""States of a finding."""
Row = dict[str, Any]


def reproduce(
    findings: Sequence[Finding],
    laboratory: Laboratory,
    folder: Path,
    *,
    force: bool = False,
    begin: Callable[[Finding], object] = lambda finding: None,
) -> Iterator[Row]:
    """Compute findings, and write each to ``NAME.json`` when it is computed.

    One that the folder has, computed by this version with the same models, is read and not
    computed. One whose data, models or packages are absent, that claims nothing with these, or that
    ends in an error, says so and is not written.

    What it holds names the task models that it took, None for those that were not there.

    Args:
        findings: Which. laboratory: Models and data.
        folder: Made if it is not there.
        force: Compute and replace those that the folder has.
        begin: Called before a finding is computed.

    Yields:
        What each file holds; equal runs yield equal rows but for ``seconds`` and ``times``.

    Raises:
        ResumeMismatchError: The folder's file is of another version or of other models.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {} if force else {f.name: _kept(f, laboratory, folder) for f in findings}
    for finding in findings:
        if row := kept.get(finding.name):
            yield row
            continue
        if reason := finding.missing(laboratory):
            yield _row(finding, laboratory, NOT_RUN, reason=reason)
            continue
        begin(finding)
        started = time.perf_counter()
        try:
            found = finding.compute(laboratory)
        except CdecError as error:
            yield _row(finding, laboratory, ERROR, reason=str(error))
            continue
        if found.nothing:
            yield _row(finding, laboratory, NOT_RUN, reason=found.nothing)
            continue
        row = _finished(finding, laboratory, found, time.perf_counter() - started)
        with whole_file(folder / f"{finding.name}.json", force=True) as file:
            file.write(orjson.dumps(row, option=orjson.OPT_INDENT_2) + b"\n")
        yield row


def _finished(finding: Finding, laboratory: Laboratory, found: Found, seconds: float) -> Row:
    """Return the row of a finding as its file holds it: what JSON does not have is null."""
    state = HOLDS if all(check.holds for check in found.checks) else FAILS
    row = _row(finding, laboratory, state) | found.to_json() | {"seconds": round(seconds, 1)}
    plain: Row = orjson.loads(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY))
    return plain


def _row(finding: Finding, laboratory: Laboratory, state: str, **more: object) -> Row:
    return {
        **finding.to_json(),
        "state": state,
        **more,
        "version": version("cdec"),
        "settings": {name: getattr(laboratory, name) for name in finding.uses},
        "task_models": laboratory.task_weights(finding.tasks),
    }


def _kept(finding: Finding, laboratory: Laboratory, folder: Path) -> Row | None:
    """Return what the folder has of a finding; None for nothing."""
    path = folder / f"{finding.name}.json"
    if not path.is_file():
        return None
    try:
        row = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DataError(
            f"{path} is no JSON", hint="remove it, or give `force`", path=str(path)
        ) from error
    asked = _row(finding, laboratory, HOLDS)
    for name in ("version", "settings", "task_models"):
        if not isinstance(row, dict) or row.get(name, {}) != asked[name]:
            found = row.get(name) if isinstance(row, dict) else type(row).__name__
            raise ResumeMismatchError(
                f"{path} was computed with other {name}: {found}, not {asked[name]}",
                hint="give another folder with `output`, or `force` to compute it again",
                path=str(path),
            )
    # What is said of a finding may have been written better since.
    return {**row, **finding.to_json()}
