"""Files that a command writes are none of those that it reads, whatever `--force` allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Result, Runner


def refused(result: Result, what: str) -> None:
    assert (result.status, result.error_code) == (2, "E_USAGE"), result.stderr
    assert f"would be the {what} and is an input" in result.stderr


@pytest.fixture
def artifact(cities: Path) -> Path:
    """A copy of an artifact in the working directory."""
    path = Path("own.arrow")
    path.write_bytes(cities.read_bytes())
    return path


def test_a_trace_does_not_replace_what_the_run_reads(cdec: Runner, artifact: Path) -> None:
    Path("t.txt").write_text("{a}\n")
    Path("i.jsonl").write_text('{"a": "x"}\n')
    Path("link.jsonl").symlink_to(artifact)
    before = artifact.read_bytes()
    words = ("sample", "-a", artifact, "--template", "t.txt", "-i", "i.jsonl", "--method", "masked")
    for name in ("t.txt", "i.jsonl", "link.jsonl"):
        refused(cdec(*words, "--trace", name, "--force"), "trace")
        refused(cdec(*words, "-o", name, "--force"), "output")
    for flag in ("--trace", "-o"):
        assert cdec(*words, flag, artifact, "--force").status == 2, "no output is named so"
    assert artifact.read_bytes() == before


def test_counts_do_not_replace_what_the_run_reads(cdec: Runner, artifact: Path) -> None:
    words = ("sample", "-a", artifact, "--prompt", "x", "--method", "speculative")
    counts = ("--draft", "counts", "--save-counts", artifact, "--force")
    refused(cdec(*words, *counts), "file of counts")


def test_the_page_of_a_trace_does_not_replace_it(cdec: Runner, artifact: Path) -> None:
    drawn = cdec(
        *("sample", "-a", artifact, "--prompt", "x", "--method", "masked"), "--trace", "t.jsonl"
    )
    assert drawn.status == 0, drawn.stderr
    before = Path("t.jsonl").read_bytes()
    refused(cdec("trace", "t.jsonl", "--html", "t.jsonl", "--force"), "page")
    assert Path("t.jsonl").read_bytes() == before


@pytest.mark.parametrize("line", ["null", "1.5", "[]", '"a"', "{}"])
def test_a_line_that_is_no_object_is_no_line_of_a_trace(cdec: Runner, line: str) -> None:
    Path("t.jsonl").write_text(line + "\n")
    result = cdec("trace", "t.jsonl")
    assert (result.status, result.error_code) == (65, "E_FIELD"), result.stderr
