"""A share of the golden runs: what the commands and the methods do is what was recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import shared_folder

GOLDEN = Path(__file__).parent


def golden(*words: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CDEC_SHARED": str(shared_folder())}
    script = [sys.executable, GOLDEN, *map(str, words)]
    return subprocess.run(script, env=environment, capture_output=True, text=True)


def test_a_share_of_the_cases_does_what_was_recorded() -> None:
    done = golden("check", "--only", "share", "--workers", 1)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("text", "status"), [("a", 0), ("b", 1)])
def test_a_line_that_differs_is_told(tmp_path: Path, text: str, status: int) -> None:
    for folder, line in (("first", "a"), ("second", text)):
        (tmp_path / folder).mkdir()
        record = {"name": "case", "kind": "help", "steps": [{"stdout": [line]}]}
        (tmp_path / folder / "case.json").write_text(json.dumps(record))
    done = golden("compare", tmp_path / "first", tmp_path / "second")
    assert done.returncode == status
    assert ("steps[0].stdout[0]: 'b'" in done.stdout) == bool(status)
