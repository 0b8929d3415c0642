"""``cdec compile-spans``, and what other commands make of its artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Result, Runner, jsonl, refused

DOCUMENTS = {
    "lyon": "Lyon lies on two rivers. The Rhône is the longer one. Its people like to eat.",
    "oslo": "Oslo lies on a fjord. The people of Oslo like to ski.",
}
ROWS = jsonl(*({"key": key, "body": text} for key, text in DOCUMENTS.items()))
FIELDS = ("--field", "body", "--id-field", "key")
DRAW = ("sample", "-a", "c.arrow", "--method", "masked")


@pytest.fixture
def compiled(cdec: Runner) -> Result:
    """An artifact of two documents."""
    Path("c.jsonl").write_bytes(ROWS)
    result = cdec("compile-spans", "c.jsonl", *FIELDS, "--json")
    assert result.status == 0, result.stderr
    return result


def test_the_summary_counts_what_was_read(cdec: Runner, compiled: Result) -> None:
    (said,) = compiled.records
    size = sum(len(text.encode()) for text in DOCUMENTS.values())
    assert (said["documents"], said["bytes_of_text"], said["rows"]) == (2, size, size - 1)
    again = cdec("compile-spans", "c.jsonl", *FIELDS, "--json")
    assert again.records[0]["up_to_date"] and again.records[0]["rows"] == said["rows"]
    other = cdec("compile-spans", "c.jsonl", *FIELDS, "--span-whole", "words")
    assert "was compiled with --span-whole left out" in refused(other, "E_EXISTS", 73)


@pytest.mark.parametrize("name", ["c.txt", "c.csv", "c.parquet"])
def test_documents_come_from_files_of_all_formats(cdec: Runner, name: str) -> None:
    from pyarrow import parquet, table

    texts = list(DOCUMENTS.values())
    if name == "c.parquet":
        parquet.write_table(table({"body": texts, "key": list(DOCUMENTS)}), name)
    elif name == "c.csv":
        rows = [f'{key},"{text}"\n' for key, text in DOCUMENTS.items()]
        Path(name).write_text("".join(["key,body\n", *rows]))
    else:
        Path(name).write_text("\n".join([texts[0], "", texts[1]]) + "\n")
    fields = () if name == "c.txt" else FIELDS
    assert cdec("compile-spans", name, *fields).status == 0
    result = cdec("check", "c.arrow", stdin=b"on a fjord\n")
    (found,) = result.records[0]["span"]["found"]
    assert found["document"] == ("3" if name == "c.txt" else "oslo") and found["offset"] == 10


@pytest.mark.usefixtures("loaded", "compiled")
def test_texts_are_pieces_and_say_where_they_stand(cdec: Runner) -> None:
    result = cdec(*DRAW, "--prompt", "A river:", "-n", 8)
    assert result.status == 0, result.stderr
    for record in result.records:
        assert record["valid"] and record["span"]["places"] >= 1
        for found in record["span"]["found"]:
            text = DOCUMENTS[found["document"]]
            assert text[found["offset"] :][: record["span"]["length"]] == record["text"]


@pytest.mark.usefixtures("loaded", "compiled")
def test_records_choose_documents(cdec: Runner) -> None:
    records = jsonl(
        {"id": 1, "prompt": "A river:", "candidates": {"documents": ["oslo"]}, "n": 6},
        {"id": 2, "prompt": "A river:", "candidates": {"documents": {"deny": ["oslo"]}}, "n": 6},
        {"id": 3, "prompt": "A river:", "candidates": {"documents": ["rome"]}},
    )
    result = cdec(*DRAW, stdin=records)
    assert result.status == 3
    for record in result.records:
        if record["id"] == 3:
            assert "no document 'rome'" in record["error"]["message"]
            continue
        (found,) = record["span"]["found"]
        assert found["document"] == {1: "oslo", 2: "lyon"}[record["id"]]
        assert record["text"] in DOCUMENTS[found["document"]] and record["valid"]


@pytest.mark.usefixtures("compiled")
def test_check_says_where_a_text_ceases_to_be_a_piece(cdec: Runner) -> None:
    result = cdec("check", "c.arrow", stdin=b"lies on\nlies on three\nRh\n")
    one, two, three = result.records
    assert one["valid"] and one["span"]["documents"] == 2
    assert not two["valid"] and two["byte"] == 9 and two["may_end"]
    assert three["valid"] and three["span"]["places"] == 1


@pytest.mark.usefixtures("loaded", "compiled")
def test_scores_and_masses_know_it(cdec: Runner) -> None:
    lines = jsonl({"prompt": "x", "text": "two rivers"}, {"prompt": "x", "text": "three rivers"})
    scored = cdec("score", "-a", "c.arrow", "-i", "-", stdin=lines)
    assert [record["member"] for record in scored.records] == [True, False]


@pytest.mark.usefixtures("loaded", "compiled")
def test_it_joins_other_constraints(cdec: Runner) -> None:
    assert cdec("compile-regex", "[A-Z][a-z]+", "-o", "r.arrow").status == 0
    result = cdec(*DRAW, "--and", "r.arrow", "--prompt", "A town:", "-n", 6)
    assert result.status == 0, result.stderr
    for record in result.records:
        assert record["valid"] and record["text"].isalpha()
        assert any(record["text"] in text for text in DOCUMENTS.values())


@pytest.mark.usefixtures("compiled")
def test_inspect_shows_and_verifies_it(cdec: Runner) -> None:
    shown = cdec("inspect", "c.arrow", "--verify")
    assert shown.status == 0 and b"pieces of 2 documents" in shown.stdout
    assert b"Verified:" in shown.stdout
    (said,) = cdec("inspect", "c.arrow", "--json").records
    assert said["kind"] == "spans" and said["statistics"]["documents"] == 2


def test_the_pieces_are_those_that_were_asked_for(cdec: Runner) -> None:
    Path("c.jsonl").write_bytes(ROWS)
    words = ("--span-whole", "words", "--span-shortest", 2, "--span-longest", 3)
    assert cdec("compile-spans", "c.jsonl", *FIELDS, *words).status == 0
    result = cdec("check", "c.arrow", stdin=b"lies on\nlies\nies on\nOslo lies on a\n")
    assert [record["valid"] for record in result.records] == [True, False, False, False]
    (said,) = cdec("inspect", "c.arrow", "--json").records
    assert said["options"] == {"whole": "words", "shortest": 2, "longest": 3}


def test_bad_documents_are_errors_or_left_out(cdec: Runner) -> None:
    rows = ROWS + b'{"key": "x"}\n'
    Path("c.jsonl").write_bytes(rows)
    result = cdec("compile-spans", "c.jsonl", *FIELDS)
    assert "line 3" in refused(result, "E_FIELD", 65)
    left = cdec("compile-spans", "c.jsonl", *FIELDS, "--bad-lines", "skip", "--json")
    assert json.loads(left.stdout)["documents"] == 2 and left.status == 0
    assert json.loads(left.stdout)["skipped"] == 1
