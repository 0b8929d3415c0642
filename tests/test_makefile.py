"""What ``make test`` and continuous integration run, whatever fails on the way."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def program(path: Path, script: str) -> Path:
    """Write a program that notes its words in ``log`` beside it, then goes on with a script."""
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\necho "$@" >> {path.parent}/log\n{script}\n')
    path.chmod(0o755)
    return path.parent


def noted(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "log").read_text().splitlines()]


def test_what_the_first_tier_leaves_out_is_run_elsewhere(tmp_path: Path) -> None:
    folder = program(tmp_path / "bin" / "python", "true")
    (tmp_path / "stamp").touch()
    for tool in ("ruff", "lint-imports", "mkdocs"):
        (folder / tool).symlink_to("python")
    words = ["make", "-C", ROOT, "test", "test-runs", "rest", f"BIN={folder}"]
    subprocess.run([*words, f"STAMP={tmp_path / 'stamp'}"], check=True, capture_output=True)
    first, *others = noted(folder)
    left_out = {word.removeprefix("--ignore=") for word in first if word.startswith("--ignore=")}
    run = {word for line in others for word in line if word.startswith(("tests/", "tools/"))}
    assert left_out == run and "tests/docs" in run


def test_the_share_for_another_processor_is_there_and_sets_one(tmp_path: Path) -> None:
    folder = program(tmp_path / "bin" / "python", 'test "$ATEN_CPU_CAPABILITY" = default')
    (tmp_path / "stamp").touch()
    words = ["make", "-C", ROOT, "test-processor", f"BIN={folder}", f"STAMP={tmp_path / 'stamp'}"]
    done = subprocess.run(words, capture_output=True)
    assert done.returncode == 0, done.stderr
    (words_of_pytest,) = noted(folder)
    files = {each for each in words_of_pytest if each.startswith("tests/")}
    assert all((ROOT / each).is_file() for each in files)
    comparing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^from tests\.laws\.rounding import", path.read_text(), re.MULTILINE)
    }
    assert comparing and comparing <= files


@pytest.mark.parametrize("failing", ["nothing", "lint", "test-processor", "test-runs", "test"])
def test_continuous_integration_fails_with_any_part_and_ends_with_the_tests(
    tmp_path: Path, failing: str
) -> None:
    folder = program(tmp_path / "bin" / "make", f'[ "$1" != "{failing}" ]')
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([ROOT / ".ci" / "run"], env=os.environ | {"PATH": path})
    assert (done.returncode == 0) == (failing == "nothing")
    ran = [first for first, *_ in noted(folder)]
    tests = ["test-processor", "test-runs", "test"]
    assert ran == (["lint"] if failing == "lint" else ["lint", *tests])
