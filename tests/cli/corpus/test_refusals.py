"""Command lines that are refused, a row each: what is typed, the status, the code, what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import models
from tests.cli.conftest import Runner

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("refusals.jsonl").read_text().splitlines()
]
"""``of`` is the behaviour; ``line`` the words after ``cdec``, ``{cities}`` and ``{letters}`` being
artifacts; ``files`` and ``stdin`` what is there; ``with`` the fixtures, of which ``unloaded`` lets
no model be loaded."""


@pytest.mark.share(56)
@pytest.mark.parametrize("row", ROWS, ids=[row["of"].replace(" ", "-") for row in ROWS])
def test_command_lines_are_refused(
    cdec: Runner,
    row: dict[str, Any],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixtures = row.get("with", [])
    if "unloaded" in fixtures:
        monkeypatch.setattr(models, "open_model", lambda *_: pytest.fail("a model was loaded"))
    for name in {*fixtures} - {"unloaded"}:
        request.getfixturevalue(name)
    for name, text in row.get("files", {}).items():
        Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    words = [request.getfixturevalue(w[1:-1]) if w[:1] == "{" else w for w in row["line"]]
    result = cdec(*words, stdin=row.get("stdin", "").encode("utf-8", "surrogateescape"))
    assert result.status == row.get("status", result.status) != 0, result.stderr
    assert result.error_code == row.get("code", result.error_code), result.stderr
    assert result.stdout.decode() == row.get("stdout", result.stdout.decode())
    for said in row.get("says", []):
        assert said in result.stderr
