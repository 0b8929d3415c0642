"""cdec score: which fields come out, bad records, options that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.record_fields import fields_of

from .conftest import Runner


def jsonl(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_fields_are_chosen_and_misspelt_ones_refused(cdec: Runner, letters: Path) -> None:
    words = ("score", "-a", letters, "--prompt", "x")
    (record,) = cdec(*words, "--fields", "member,text", stdin=b"a\n").records
    assert record == {"member": True, "text": "a"}
    assert list(record) == ["member", "text"]
    wrong = cdec(*words, "--fields", "probability_lowr", stdin=b"a\n")
    assert (wrong.status, wrong.stdout) == (2, b"")
    assert "probability_lower" in wrong.stderr
    assert cdec(*words, "--fields", ",", stdin=b"a\n").status == 2
    (whole,) = cdec(*words, stdin=jsonl({"id": 1, "index": 2, "token_ids": [0, 0]})).records
    assert set(whole) <= set(fields_of("score"))
    # The field of the text is another matter.
    (named,) = cdec(*words, "--field", "name", stdin=b'{"name": "a"}\n').records
    assert named["text"] == "a"


def test_bad_records_become_errors_in_their_place(cdec: Runner, letters: Path) -> None:
    lines = (
        b'a\n\xff\xfe\xfd\n{"title": 1}\n{"id": "x", "text": 3}\n{"id": 1, "token_ids": [9]}\n'
        b'{"id": 2, "error": {"code": "E_X"}}\n{"id": 3, "text": "b", "token_ids": [0]}\n'
        b'{"id": 4, "token_ids": [0, 1.5]}\n{"id": 5, "text": "a", "index": "0"}\n'
        b'{"id": 6, "text": "a", "prompt": "p", "messages": [{"role": "user", "content": "c"}]}\n'
        b'{"id": 7, "text": "a", "token_ids": null}\n{"text": '
    )
    words = ("score", "-a", letters, "--prompt", "x")
    result = cdec(*words, stdin=lines)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_ENCODING", *["E_FIELD"] * 8, None, "E_JSON"]
    names = [record.get("id") for record in result.records]
    assert names == [None, "line 2", "line 3", "x", 1, 2, 3, 4, 5, 6, 7, "line 12"]
    hints = [record["error"].get("hint") for record in result.records[2:10]]
    assert all(hints)
    strict = cdec(*words, "--strict", stdin=lines)
    assert (strict.status, strict.error_code) == (65, "E_ENCODING")
    long = cdec(*words, "--max-line-bytes", "5", stdin=b"x" * 11 + b"\na\n")
    assert [r.get("error", {}).get("code") for r in long.records] == ["E_LINE_TOO_LONG", None]


@pytest.mark.usefixtures("loaded")
def test_a_text_beyond_the_context_is_an_error(cdec: Runner) -> None:
    result = cdec("score", "--prompt", "x", stdin=b"0 1 " * 3000)
    assert result.status == 3
    assert result.records[0]["error"]["code"] == "E_CONTEXT_LENGTH"


def test_an_empty_file_is_told(cdec: Runner, letters: Path) -> None:
    Path("empty.jsonl").write_bytes(b"\n")
    result = cdec("score", "-a", letters, "--prompt", "x", "-i", "empty.jsonl")
    assert (result.status, result.stdout) == (0, b"")
    assert "W_NO_INPUT" in result.stderr


def test_an_artifact_of_another_model_is_refused(cdec: Runner, letters: Path, cities: Path) -> None:
    result = cdec("score", "-a", cities, "--prompt", "x", stdin=b"a\n")
    assert (result.status, result.error_code) == (65, "E_TOKENIZER_MISMATCH")
    assert result.stdout == b""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("-i", "none.txt"), 66),
        (("-a", "none.arrow"), 66),
        (("--prompts", "none.jsonl"), 66),
        (("--batch-size", "0"), 2),
        (("--max-line-bytes", "0"), 2),
        (("--temperature", "0"), 2),
        (("--candidates", "-1"), 2),
        (("--max-new-tokens", "3"), 2),
        (("--candidates", "3"), 2),
        (("--seed", "3"), 2),
        (("--heal",), 2),
        (("--prompts", "-"), 2),
        (("--prompt", "x", "--prompts", "a.jsonl"), 2),
        (("--constraint", "nothing"), 2),
        (("--no-ends",), 2),
    ],
)
def test_bad_options_are_refused(cdec: Runner, words: tuple[str, ...], status: int) -> None:
    result = cdec("score", *words)
    assert (result.status, result.stdout) == (status, b"")
    assert result.error_code


def test_options_that_need_the_other_kind_are_refused(cdec: Runner, letters: Path) -> None:
    words = ("score", "-a", letters, "--prompt", "x")
    for more in (("--no-end",), ("--heal",), ("--lookahead", "1"), ("--seed", "1")):
        result = cdec(*words, *more, stdin=b"a\n")
        assert (result.status, result.error_code) == (2, "E_USAGE")
