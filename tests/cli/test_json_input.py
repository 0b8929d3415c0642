"""JSON arrays and quoted texts as the input of every command that reads prompts or texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Runner

RECORDS = [{"id": 0, "prompt": "one"}, {"id": 1, "prompt": "two"}]


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_is_drawn_for_as_its_records(
    cdec: Runner, letters: Path, indent: int | None
) -> None:
    Path("dump.json").write_text(json.dumps(RECORDS, indent=indent))
    Path("p.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    for words in (("sample", "-a", letters), ("classify", "-a", letters)):
        expected = cdec(*words, "-i", "p.jsonl")
        found = cdec(*words, "-i", "dump.json")
        assert (found.status, found.stdout) == (0, expected.stdout)
        assert len(found.records) == 2


def test_an_array_on_stdin_is_named_as_one(cdec: Runner, letters: Path) -> None:
    data = json.dumps(RECORDS).encode()
    found = cdec("sample", "-a", letters, "--input-format", "json", stdin=data)
    assert [record["id"] for record in found.records] == [0, 1]
    assert "W_LOOKS_LIKE_JSON" in cdec("sample", "-a", letters, stdin=data).stderr


def test_a_quoted_line_is_a_text(cdec: Runner, letters: Path) -> None:
    Path("p.jsonl").write_text('"one"\n')
    Path("p.txt").write_text("one\n")
    found = cdec("sample", "-a", letters, "-i", "p.jsonl")
    assert (found.status, found.stdout) == (0, cdec("sample", "-a", letters, "-i", "p.txt").stdout)


def test_text_in_a_file_named_jsonl_is_an_error_that_says_how_it_is_read(
    cdec: Runner, letters: Path
) -> None:
    Path("p.jsonl").write_text("one\n")
    (record,) = cdec("sample", "-a", letters, "-i", "p.jsonl").records
    assert record["error"]["code"] == "E_JSON"
    assert "--input-format lines" in record["error"]["hint"]
    assert (
        "error"
        not in cdec("sample", "-a", letters, "-i", "p.jsonl", "--input-format", "lines").records[0]
    )


@pytest.mark.parametrize("words", [("score", "--prompt", "one"), ("retokenize",)])
def test_texts_of_an_array_are_those_of_its_lines(cdec: Runner, words: tuple[str, ...]) -> None:
    Path("t.json").write_text('["ab", {"text": "b"}]')
    Path("t.txt").write_text('["ab", {"text": "b"}]')
    Path("t.jsonl").write_text('"ab"\n{"text": "b"}\n')
    words = (*words, "-i")
    expected = cdec(*words, "t.jsonl")
    assert expected.status == 0
    assert cdec(*words, "t.json").stdout == expected.stdout
    assert cdec(*words, "t.txt", "--input-format", "json").stdout == expected.stdout


def test_entities_and_texts_to_check_come_from_an_array(cdec: Runner) -> None:
    Path("cities.json").write_text('["Paris", {"text": "Rome"}]')
    assert cdec("compile-set", "cities.json", "-o", "c.arrow").status == 0
    found = cdec("check", "c.arrow", "-i", "cities.json").records
    assert [(record["text"], record["valid"]) for record in found] == [
        ("Paris", True),
        ("Rome", True),
    ]
    Path("cities.jsonl").write_text('"Paris"\n"Oslo"\n')
    found = cdec("check", "c.arrow", "-i", "cities.jsonl").records
    assert [record["valid"] for record in found] == [True, False]
    labels = cdec("classify", "cities.json", "--prompt", "one").records[0]["labels"]
    assert {label["text"] for label in labels} == {"Paris", "Rome"}
