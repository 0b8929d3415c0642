"""Tables without a header: --no-header, columns by their numbers, and names that were meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Runner

ROWS = 'Paris,FR\nRome,IT\n"New, York",US\n'


def members(cdec: Runner, *words: str) -> set[str]:
    found = cdec("compile-set", *words, "-o", "c.arrow", "--force")
    assert found.status == 0, found.stderr
    texts = "Paris\nRome\nNew, York\nFR\nIT\nUS\n1\n2\n"
    checked = cdec("check", "c.arrow", stdin=texts.encode()).records
    return {record["text"] for record in checked if record["valid"]}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_the_first_row_is_an_entity_without_a_header(cdec: Runner, name: str) -> None:
    separator = "\t" if name == "t.tsv" else ","
    text = ROWS.replace('"New, York"', "New York").replace(",", separator)
    Path(name).write_text(text if name == "t.tsv" else ROWS)
    york = {"New, York"} if name == "t.csv" else set()
    assert members(cdec, name, "--no-header") == {"Paris", "Rome"} | york
    assert members(cdec, name, "--no-header", "--field", "2") == {"FR", "IT", "US"}


def test_a_column_with_a_name_has_a_number_too(cdec: Runner) -> None:
    Path("t.csv").write_text("city,code\n" + ROWS)
    assert members(cdec, "t.csv", "--field", "2") == {"FR", "IT", "US"}
    Path("t.csv").write_text("2,code\n" + ROWS)
    assert members(cdec, "t.csv", "--field", "2") == {"Paris", "Rome", "New, York"}, "a name first"


def test_the_way_to_read_a_table_without_a_header_is_told(cdec: Runner) -> None:
    Path("t.csv").write_text(ROWS)
    found = cdec("compile-set", "t.csv", "-o", "c.arrow")
    assert "its columns are 'Paris', 'FR'" in found.stderr
    assert "where the first row is one of texts, give --no-header too" in found.stderr


def test_names_that_were_meant_are_told(cdec: Runner, letters: Path) -> None:
    Path("t.csv").write_text("city,code\n" + ROWS)
    Path("t.jsonl").write_text('{"city": "Paris"}\n')
    for name in ("t.csv", "t.jsonl"):
        found = cdec("compile-set", name, "-o", "c.arrow", "--field", "Cty")
        assert "did you mean 'city'?" in found.stderr, name
    for command in (("score", "--prompt", "x"), ("retokenize",)):
        found = cdec(*command, "-i", "t.jsonl", "--field", "citty")
        assert "did you mean 'city'?" in found.records[0]["error"]["hint"]
    Path("t.txt").write_text("{citi}\n")
    found = cdec("sample", "-a", letters, "-i", "t.jsonl", "--template", "t.txt")
    assert "did you mean 'city'?" in found.records[0]["error"]["hint"]


def test_texts_to_check_come_from_such_tables(cdec: Runner, letters: Path) -> None:
    Path("t.csv").write_text("a,x\nb,y\n")
    found = cdec("check", letters, "-i", "t.csv", "--no-header", "--field", "1").records
    assert [record["text"] for record in found] == ["a", "b"]


def test_texts_for_a_model_come_from_such_tables(cdec: Runner) -> None:
    Path("t.csv").write_text("a,x\nb,y\n")
    for command in (("score", "--prompt", "x"), ("retokenize",)):
        found = cdec(*command, "-i", "t.csv", "--no-header", "--field", "2")
        assert (found.status, len(found.records)) == (0, 2), found.stdout
    Path("u.csv").write_text('a\n"b"\n')
    assert [r["text"] for r in cdec("retokenize", "-i", "u.csv", "--no-header").records] == [
        "a",
        "b",
    ]


def test_prompts_come_from_such_tables(cdec: Runner, letters: Path) -> None:
    Path("t.csv").write_text("one,1\ntwo,2\n")
    Path("t.txt").write_text("{2}: {1}\n")
    Path("expected.txt").write_text("1: one\n2: two\n")
    words = ("sample", "-a", letters, "--fields", "text,logprob", "-i")
    found = cdec(*words, "t.csv", "--no-header", "--template", "t.txt")
    assert found.status == 0
    assert len(found.records) == 2
    Path("one.csv").write_text('one\n"two, three"\n')
    Path("one.txt").write_text("one\ntwo, three\n")
    assert cdec(*words, "one.csv", "--no-header").stdout == cdec(*words, "one.txt").stdout
    refused = cdec(*words, "one.txt", "--no-header")
    assert (refused.status, refused.error_code) == (2, "E_USAGE")
    assert cdec("compile-set", "one.txt", "--no-header").status == 2
