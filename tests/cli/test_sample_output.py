"""cdec sample and its output: files, resuming, batches, streams; on a model that costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Runner


def _jsonl(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


TWO = _jsonl({"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"})


def test_batches_change_no_draw(cdec: Runner, letters: Path) -> None:
    data = _jsonl(*({"id": i, "prompt": f"number {i}"} for i in range(7)))
    words = ("sample", "-a", letters, "-n", "2", "--fields", "id,index,text,seed")
    assert cdec(*words, stdin=data).stdout == cdec(*words, "--batch-size", "2", stdin=data).stdout
    assert cdec(*words, "--batch-size", "0", stdin=data).error_code == "E_USAGE"


def test_split_pieces_give_what_the_whole_gives(cdec: Runner, letters: Path) -> None:
    lines = [f"prompt number {i}\n".encode() for i in range(6)]
    words = ("sample", "-a", letters, "--fields", "id,index,text,seed")
    whole = cdec(*words, stdin=b"".join(lines)).stdout
    parts = [cdec(*words, stdin=b"".join(lines[i : i + 2])).stdout for i in (0, 2, 4)]
    assert b"".join(parts) == whole


def test_output_files(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "-o", "out.jsonl")
    first = cdec(*words, stdin=TWO)
    assert (first.status, first.stdout) == (0, b"")
    lines = Path("out.jsonl").read_bytes()
    assert len(lines.splitlines()) == 2
    again = cdec(*words, stdin=TWO)
    assert (again.status, again.error_code) == (73, "E_EXISTS")
    assert "--force" in again.stderr and "--resume" in again.stderr
    assert Path("out.jsonl").read_bytes() == lines
    assert cdec(*words, "--force", "--seed", "3", stdin=TWO).status == 0
    assert Path("out.jsonl").read_bytes() != lines


@pytest.mark.parametrize(
    "words",
    [
        ("-a", "nope.arrow"),
        ("--temperature", "0"),
        ("--top-p", "2"),
        ("--method", "beam", "--beams", "2", "-n", "3"),
        ("--deny", "nope.txt"),
        ("--template", "nope.txt"),
        ("--constraint", "x=nope.arrow"),
        ("--fields", "nothing"),
    ],
)
def test_a_run_that_cannot_begin_leaves_the_old_output(
    cdec: Runner, letters: Path, words: tuple[str, ...]
) -> None:
    Path("out.jsonl").write_text("precious\n")
    result = cdec("sample", "-a", letters, "-o", "out.jsonl", "--force", *words, stdin=TWO)
    assert result.status in (2, 66)
    assert Path("out.jsonl").read_text() == "precious\n"


def test_the_manifest_notices_another_template_or_deny_list(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "-o", "out.jsonl", "--template", "t.txt", "--deny", "d.txt")
    Path("t.txt").write_text("Q: {prompt}")
    Path("d.txt").write_text("a\n")
    assert cdec(*words, stdin=TWO).status == 0
    assert cdec(*words, "--resume", stdin=TWO).status == 0
    Path("t.txt").write_text("A: {prompt}")
    assert "template" in cdec(*words, "--resume", stdin=TWO).stderr
    Path("t.txt").write_text("Q: {prompt}")
    Path("d.txt").write_text("ab\n")
    assert "deny" in cdec(*words, "--resume", stdin=TWO).stderr


def test_the_output_may_be_no_input(cdec: Runner, letters: Path) -> None:
    Path("p.jsonl").write_bytes(TWO)
    for words in (("-o", "p.jsonl", "--force"), ("-o", "./p.jsonl")):
        result = cdec("sample", "-a", letters, "-i", "p.jsonl", *words)
        assert (result.status, result.error_code) == (2, "E_USAGE")
    assert Path("p.jsonl").read_bytes() == TWO


def test_resume_writes_what_is_missing(cdec: Runner, letters: Path) -> None:
    # Probabilities may differ in the last digits with the batch, so they are left out.
    words = ("sample", "-a", letters, "-n", "3", "-o", "out.jsonl", "--fields", "id,index,text")
    data = _jsonl(
        {"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b", "n": 0}, {"id": 3, "prompt": "c"}
    )
    assert cdec(*words, stdin=data).status == 3
    whole = Path("out.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    for torn in (b"", lines[-1][:10], '{"id": 5, "text": "\u00e9'.encode()[:-1], b"\0\0\0"):
        for kept in range(len(lines)):
            Path("out.jsonl").write_bytes(b"".join(lines[:kept]) + torn)
            result = cdec(*words, "--resume", stdin=data)
            # An error object that is there already counts as well.
            assert result.status == 3, result.stderr
            assert Path("out.jsonl").read_bytes() == whole


def test_resume_refuses_another_configuration(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "-o", "out.jsonl")
    assert cdec(*words, "--seed", "1", stdin=TWO).status == 0
    result = cdec(*words, "--seed", "2", "--resume", stdin=TWO)
    assert (result.status, result.error_code) == (65, "E_RESUME_MISMATCH")
    assert "seed was 1, is 2" in result.stderr
    same = cdec(*words, "--seed", "1", "--batch-size", "1", "--resume", stdin=TWO)
    assert (same.status, len(Path("out.jsonl").read_bytes().splitlines())) == (0, 2)


def test_resume_needs_a_file_and_its_keys(cdec: Runner, letters: Path) -> None:
    for words in ((), ("-o", "x", "--force"), ("-o", "x", "--fields", "text")):
        result = cdec("sample", "-a", letters, "--resume", *words, stdin=TWO)
        assert (result.status, result.error_code) == (2, "E_USAGE")


def test_secrets_do_not_reach_the_manifest(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    assert cdec("sample", "-a", letters, "-o", "out.jsonl", stdin=TWO).status == 0
    assert "hf_0123456789abcdef" not in Path("out.jsonl.manifest.json").read_text()


def test_stdout_stays_clean_with_warnings_and_progress(cdec: Runner, letters: Path) -> None:
    Path("deny.txt").write_text("Atlantis\n")
    result = cdec("sample", "-a", letters, "--deny", "deny.txt", "--progress", stdin=TWO)
    assert len(result.records) == 2
    assert "W_DENY_UNKNOWN" in result.stderr and "2 records" in result.stderr
    quiet = cdec("sample", "-a", letters, "--deny", "deny.txt", "-q", "--progress", stdin=TWO)
    assert quiet.stderr == ""
