"""What ends a run before its model loads: outputs that cannot be, and runs that are finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import models

from .conftest import Runner

ALL_BAD = b'{"id": 1, "prompt": 5}\n{"id": 2\n{"id": 3, "prompt": 6}\n'


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes loading a model a failure from then on."""

    def forbid() -> None:
        def refused(*_: object, **__: object) -> None:
            raise AssertionError("a model was loaded")

        monkeypatch.setattr(models, "open_model", refused)

    return forbid


@pytest.mark.parametrize("name", ["missing/o.jsonl", "missing/o.csv", "missing/o.parquet"])
def test_a_folder_that_is_not_there_is_told_before_the_model_loads(
    cdec: Runner, letters: Path, no_model: Any, name: str
) -> None:
    no_model()
    for command in ("sample", "classify"):
        output = name if "parquet" not in name or command == "sample" else "missing/o.tsv"
        found = cdec(command, "-a", letters, "--prompt", "x", "-o", output)
        assert (found.status, found.error_code) == (74, "E_IO")
        assert "its folder missing is not there" in found.stderr
        assert "mkdir -p missing" in found.stderr


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv", "o.parquet", "o.jsonl.gz"])
def test_a_finished_run_is_complete_without_a_model(
    cdec: Runner, letters: Path, no_model: Any, name: str
) -> None:
    Path("p.jsonl").write_text('{"id": 1, "prompt": "a", "n": 2}\n{"id": "b", "prompt": "b"}\n')
    words = ("sample", "-a", letters, "-i", "p.jsonl", "-o", name, "--resume")
    assert cdec(*words).status == 0
    before = Path(name).read_bytes()
    no_model()
    found = cdec(*words)
    assert (found.status, found.stdout) == (0, b"")
    assert f"already complete: 2 records are in {name}" in found.stderr
    assert Path(name).read_bytes() == before
    assert cdec(*words, "--seed", "1").error_code == "E_RESUME_MISMATCH"
    assert cdec(*words, "--quiet").stderr == ""


def test_a_run_with_errors_or_with_more_to_do_is_told_apart(
    cdec: Runner, letters: Path, no_model: Any
) -> None:
    lines = ['{"id": 1, "prompt": "a"}\n', '{"id": 2}\n']
    Path("p.jsonl").write_text("".join(lines))
    words = ("sample", "-a", letters, "-i", "p.jsonl", "-o", "o.jsonl", "--resume")
    assert cdec(*words).status == 3
    Path("p.jsonl").write_text("".join([*lines, '{"id": 3, "prompt": "c"}\n']))
    assert cdec(*words).status == 3
    assert len(Path("o.jsonl").read_text().splitlines()) == 3
    no_model()
    found = cdec(*words)
    assert found.status == 3, "its errors count"
    assert "already complete: 3 records" in found.stderr
    more = cdec(*words[:-1], "-n", "2", "--force")
    assert "a model was loaded" in more.stderr


def test_where_every_record_fails_the_first_error_is_told(cdec: Runner, letters: Path) -> None:
    found = cdec("sample", "-a", letters, stdin=ALL_BAD)
    assert found.status == 3
    (first, *_) = (record["error"] for record in found.records)
    assert f"error {first['code']}: {first['message']}\nhint: {first['hint']}\n" in found.stderr
    assert "all 3 records failed: 2 E_FIELD, 1 E_JSON" in found.stderr
    some = cdec("sample", "-a", letters, stdin=ALL_BAD + b"x\n")
    assert "failed" not in some.stderr
    assert "error " not in some.stderr
    assert [json.loads(line) for line in some.stdout.splitlines()][:3] == found.records


def test_a_quiet_run_that_refuses_a_source_says_why(cdec: Runner, letters: Path) -> None:
    lines = [{"prompt": "p"}, {"prompt": "q", "regex": r"(a)\1"}, {"prompt": "q", "regex": "("}]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = cdec("sample", "-a", letters, "--quiet", stdin=data)
    assert found.status == 3
    first, told = found.stderr.partition("hint: ")[::2]
    assert first.startswith("error E_REGEX_UNSUPPORTED: field 'regex': ")
    assert "back-reference" in first
    assert told.endswith("\n2 of 3 records failed: 1 E_REGEX_UNSUPPORTED, 1 E_REGEX_SYNTAX\n")
    assert cdec("sample", "-a", letters, "--quiet", stdin=b"p\n").stderr == ""
