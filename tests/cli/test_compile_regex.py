"""cdec compile-regex: where the pattern comes from, what narrows it, what it prints; records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Runner

pytestmark = pytest.mark.usefixtures("grammar_child")


def _valid(cdec: Runner, *texts: str) -> list[str]:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    words = ("check", "x.arrow", "--field", "text", "--format", "jsonl")
    verdicts = [record["valid"] for record in cdec(*words, stdin=lines.encode()).records]
    return [text for text, valid in zip(texts, verdicts, strict=True) if valid]


def test_a_typed_pattern_needs_a_name_for_the_output(cdec: Runner) -> None:
    refused = cdec("compile-regex", "a+")
    assert (refused.status, refused.error_code) == (2, "E_USAGE") and "-o" in refused.stderr
    result = cdec("compile-regex", r"\d{4}-\d{2}", "-o", "x.arrow")
    assert result.status == 0, result.stderr
    for word in ("states", "sound", "token groups", "seconds"):
        assert word in result.stdout.decode()
    assert _valid(cdec, "2024-01", "2024-1", "24-01") == ["2024-01"]
    again = cdec("compile-regex", r"\d{4}-\d{2}", "-o", "x.arrow")
    assert (again.status, "up to date" in again.stderr) == (0, True)
    other = cdec("compile-regex", r"\d{4}", "-o", "x.arrow")
    assert (other.status, other.error_code) == (73, "E_EXISTS")


def test_a_file_names_the_artifact_and_ends_with_a_line_break(cdec: Runner) -> None:
    Path("plate.re").write_bytes(b"\xef\xbb\xbf[A-Z]+\r\n")
    (report,) = cdec("compile-regex", "--file", "plate.re", "--json").records
    assert report["path"] == "plate.arrow" and report["dialect"] == "regex"
    Path("plate.arrow").rename("x.arrow")
    assert _valid(cdec, "AB", "AB\n") == ["AB"]
    for words in ((), ("a", "--file", "plate.re"), ("--file", "-")):
        refused = cdec("compile-regex", *words, stdin=b"a")
        assert (refused.status, refused.error_code) == (2, "E_USAGE")
    assert cdec("compile-regex", "--file", "nope").error_code == "E_NOINPUT"


def test_other_patterns_narrow_it(cdec: Runner) -> None:
    words = ("--and", ".{3,4}", "--and", "[^c]*", "--deny-regex", "b.*", "--deny-regex", ".*b")
    assert cdec("compile-regex", "[a-c]*", "-o", "x.arrow", *words).status == 0
    texts = ("aa", "aaa", "aaaa", "baa", "aab", "aca", "aba", "aaaaa")
    assert _valid(cdec, *texts) == ["aaa", "aaaa", "aba"]
    refused = cdec("compile-regex", "[a-c]*", "-o", "x.arrow")
    assert "was compiled with another --and" in refused.stderr
    empty = cdec("compile-regex", "a", "--and", "b", "-o", "y.arrow")
    assert (empty.status, empty.error_code) == (65, "E_EMPTY_LANGUAGE")
    assert "--and" in empty.stderr
    look = cdec("compile-regex", "(?!b)[a-c]", "-o", "y.arrow")
    assert (look.error_code, "--deny-regex" in look.stderr) == ("E_REGEX_UNSUPPORTED", True)


def test_inspect_tells_the_pattern(cdec: Runner) -> None:
    words = ("--and", ".{2,9}", "--deny-regex", "YES")
    assert cdec("compile-regex", "(?i)yes|no", "-o", "x.arrow", *words).status == 0
    shown = cdec("inspect", "x.arrow").stdout.decode()
    for word in ("the regular expression (?i)yes|no", "and        .{2,9}", "but not    YES"):
        assert word in shown
    (described,) = cdec("inspect", "x.arrow", "--json").records
    assert described["grammar"] == "(?i)yes|no"


def test_an_artifact_for_another_tokenizer_says_how_it_was_made(cdec: Runner) -> None:
    from cdec.cli.runs.recompile import recompiling
    from cdec.core.artifacts.opened import open_artifact

    cdec("compile-regex", "-o", "x.arrow", "--deny-regex", "-", "--", "-x?|b")
    again = recompiling(Path("x.arrow"), open_artifact(Path("x.arrow")).summary(), "gpt2")
    assert again is not None and "jq -r .grammar | cdec compile-regex --file -" in again
    assert "--deny-regex=-" in again


@pytest.mark.usefixtures("loaded")
def test_records_bring_regexes_of_their_own(cdec: Runner) -> None:
    records = [
        {"id": 1, "prompt": "a", "regex": "[ab]{3}"},
        {"id": 2, "prompt": "b", "regex": "(a)\\1"},
        {"id": 3, "prompt": "c", "regex": "[ab]{3}"},
        {"id": 4, "prompt": "d", "regex": "yes|no"},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    result = cdec("sample", "--method", "masked", "--seed", "1", stdin=lines)
    assert result.status == 3, result.stderr
    one, bad, three, four = result.records
    assert (
        bad["error"]["code"] == "E_REGEX_UNSUPPORTED" and "field 'regex'" in bad["error"]["message"]
    )
    for record in (one, three):
        assert len(record["text"]) == 3 and set(record["text"]) <= {"a", "b"}
    assert four["text"] in ("yes", "no")
    assert all(record["valid"] is True for record in (one, three, four))


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("method", ["exact", "topn", "greedy"])
def test_artifacts_of_regexes_are_combined_and_drawn_from(cdec: Runner, method: str) -> None:
    assert cdec("compile-regex", "[ab]{2,3}|no", "-o", "x.arrow").status == 0
    assert cdec("compile-regex", "(?s).{2}", "-o", "two.arrow").status == 0
    Path("denied.txt").write_text("no\n")
    words = ("--and", "two.arrow", "--deny", "denied.txt", "--method", method, "--seed", "1")
    result = cdec("sample", "-a", "x.arrow", "--prompt", "a", *words)
    assert result.status == 0, result.stderr
    assert {record["text"] for record in result.records} <= {"aa", "ab", "ba", "bb"}
    assert all(record["valid"] is True for record in result.records)
