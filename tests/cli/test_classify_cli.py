"""cdec classify: labels from anywhere, prompts in, probabilities out, in three formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.record_fields import fields_of
from tests.laws.rounding import near

from .conftest import MEMBERS, Runner

pytestmark = pytest.mark.usefixtures("loaded")
FRANCE = ("--prompt", "The capital of France is")
EVENTS = 8
"""Most tokens of a label here, its end counted."""


def jsonl(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def probabilities(record: Any) -> dict[str, float]:
    return {label["text"]: label["probability"] for label in record["labels"]}


def test_labels_come_from_words_files_artifacts_and_records(cdec: Runner, cities: Path) -> None:
    Path("labels.txt").write_text("Paris\nRome\n")
    Path("labels.csv").write_text('name,code\n"Paris",P\n"Rome",R\n')
    record = {"prompt": "The capital of France is", "candidates": ["Rome", "Paris"]}
    ways: list[tuple[tuple[object, ...], bytes]] = [
        (("--labels", "Paris, Rome", *FRANCE), b""),
        (("labels.txt", *FRANCE), b""),
        (("labels.csv", "--field", "name", "--id-field", "code", *FRANCE), b""),
        ((), jsonl(record)),
        (("-a", cities), jsonl(record)),
    ]
    found = []
    for words, data in ways:
        result = cdec("classify", *words, stdin=data)
        assert result.status == 0, result.stderr
        (told,) = result.records
        assert set(told) <= set(fields_of("classify"))
        assert sum(probabilities(told).values()) == pytest.approx(1, abs=1e-12)
        assert told["label"] == told["labels"][0]["text"]
        found.append(probabilities(told))
    for other in found[1:]:
        assert other == near(found[0], EVENTS)
    ids = cdec("classify", *ways[2][0]).records[0]["labels"]
    assert {label["text"]: label["id"] for label in ids} == {"Paris": "P", "Rome": "R"}
    for words in (("-a", cities), (cities,)):
        (told,) = cdec("classify", *words, *FRANCE).records
        assert set(probabilities(told)) == set(MEMBERS)


def test_records_are_classified_each_in_its_place(cdec: Runner) -> None:
    data = jsonl(
        {"id": "a", "prompt": "x", "gold": "no"},
        {"id": "b", "prompt": "x", "candidates": ["one", "two", "three"]},
        {"id": "c", "prompt": "x", "temperature": 3.0},
        {"id": "d", "prompt": "x", "constraint": "nope"},
        {"id": "e"},
    )
    result = cdec("classify", "--labels", "yes,no", stdin=data)
    assert result.status == 3
    first, second, third, *bad = result.records
    assert first["input"] == {"gold": "no"} and set(probabilities(first)) == {"yes", "no"}
    assert second["error"]["code"] == "E_FIELD"  # Candidates are members of the labels.
    assert third["log_mass"] != first["log_mass"]
    assert [record["error"]["code"] for record in bad] == ["E_FIELD", "E_FIELD"]
    alone = cdec("classify", "--labels", "yes,no", "--batch-size", "1", stdin=data)
    assert probabilities(alone.records[0]) == near(probabilities(first), EVENTS)
    strict = cdec("classify", "--labels", "yes,no", "--strict", stdin=data)
    assert (strict.status, strict.error_code) == (65, "E_FIELD")


def test_top_and_fields_keep_a_part(cdec: Runner) -> None:
    words = ("classify", "--labels", "Paris,Rome,Oslo", *FRANCE)
    (whole,) = cdec(*words).records
    (part,) = cdec(*words, "--top", "1", "--fields", "id,labels").records
    assert list(part) == ["id", "labels"] and part["labels"] == whole["labels"][:1]


def test_rows_of_csv_quote_what_must_be_and_keep_all_digits(cdec: Runner) -> None:
    Path("labels.txt").write_text('Paris, Texas\na "b"\n=1+1\nété\n')
    data = jsonl({"id": "x,1", "prompt": "x"}, {"id": 2, "prompt": 7})
    words = ("classify", "labels.txt")
    result = cdec(*words, "--format", "csv", stdin=data)
    assert result.status == 3
    rows = list(csv.DictReader(io.StringIO(result.stdout.decode())))
    expected = cdec(*words, stdin=data).records
    shown = [row["label"].removeprefix("'") for row in rows[:4]]
    assert shown == [each["text"] for each in expected[0]["labels"]]
    assert float(rows[0]["probability"]) == expected[0]["labels"][0]["probability"]
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", ""]
    assert rows[0]["id"] == "x,1" and rows[4]["error"].startswith("E_FIELD")


def test_a_table_shows_labels_and_escapes_what_moves_cursors(cdec: Runner) -> None:
    Path("labels.jsonl").write_bytes(jsonl({"text": "a\x1b[2Jb"}, {"text": "plain"}))
    result = cdec("classify", "labels.jsonl", "--format", "table", "--prompt", "x")
    assert result.status == 0, result.stderr
    head, *rows = result.stdout.decode().splitlines()
    assert head.split() == ["id", "label", "probability", "logprob"]
    assert len(rows) == 2 and "\x1b" not in result.stdout.decode()
    assert "\\x1b" in result.stdout.decode()


def test_calibration_goes_through_the_template(cdec: Runner) -> None:
    Path("t.txt").write_text("Review: {text}\nSentiment:\n")
    Path("in.jsonl").write_bytes(jsonl({"text": "N/A"}, {"text": "A great film."}))
    words = ("classify", "--labels", "good,bad", "-i", "in.jsonl", "--template", "t.txt")
    plain = cdec(*words)
    result = cdec(*words, "--calibrate", "contextual")
    assert result.status == 0, result.stderr
    # What is said without content is divided by itself.
    assert list(probabilities(result.records[0]).values()) == near([0.5, 0.5], 2 * EVENTS)
    p, c = probabilities(plain.records[1]), probabilities(plain.records[0])
    odds = p["good"] / c["good"] / (p["bad"] / c["bad"])
    q = probabilities(result.records[1])
    assert q["good"] / q["bad"] == near(odds, 4 * EVENTS)
    assert result.records[1]["calibrate"] == "contextual"
    whole = cdec(*words[:3], "--calibrate", "contextual", *FRANCE, "--content-free", "The is")
    assert whole.status == 0, whole.stderr
    bare = cdec(*words[:3], "--calibrate", "contextual", *FRANCE)
    assert (bare.status, bare.error_code) == (2, "E_USAGE") and "--template" in bare.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--labels", "red,,green", *FRANCE),
        ("--labels", "", *FRANCE),
        ("labels.txt", "--labels", "red", *FRANCE),
        ("labels.txt", "-a", "ARTIFACT", *FRANCE),
        ("--labels", "red", "--field", "name", *FRANCE),
        ("-a", "ARTIFACT", "--suffix", ".", *FRANCE),
        ("--labels", "red", "--top", "0", *FRANCE),
        ("--labels", "red", "--heal", *FRANCE),
        ("--labels", "red", "--content-free", "N/A", *FRANCE),
        ("--labels", "red", "--format", "table", "--fields", "id", *FRANCE),
        ("--labels", "red", "--format", "csv", "--fields", "labels", *FRANCE),
        ("--labels", "red", "--format", "csv", "-o", "o.csv", *FRANCE),
        ("--labels", "red", "--force", *FRANCE),
        ("--labels", "red", "--fields", "lable", *FRANCE),
        ("--labels", "red", "--temperature", "0", *FRANCE),
        ("--labels", "red", "--lables", "x", *FRANCE),
        ("--labels", "red", "-i", "-", *FRANCE),
        ("-",),
        FRANCE,
    ],
)
def test_what_makes_no_sense_is_refused(cdec: Runner, cities: Path, words: tuple[str, ...]) -> None:
    Path("labels.txt").write_text("red\n")
    typed = [cities if word == "ARTIFACT" else word for word in words]
    result = cdec("classify", *typed)
    assert (result.status, result.error_code) == (2, "E_USAGE"), result.stderr
    assert "hint:" in result.stderr or "--labels" in result.stderr


def test_without_labels_the_ways_to_give_them_are_told(cdec: Runner) -> None:
    result = cdec("classify", *FRANCE)
    assert "needs labels" in result.stderr and "--labels A,B,..." in result.stderr


def test_duplicates_are_one_label_and_empty_files_none(cdec: Runner) -> None:
    result = cdec("classify", "--labels", "red,green,red", *FRANCE)
    assert len(result.records[0]["labels"]) == 2 and "W_DUPLICATES" in result.stderr
    Path("empty.txt").write_text("\n\n")
    assert cdec("classify", "empty.txt", *FRANCE).error_code == "E_EMPTY_SET"
    assert cdec("classify", "missing.txt", *FRANCE).error_code == "E_NOINPUT"


def test_a_suffix_ends_labels_in_the_place_of_the_end(cdec: Runner) -> None:
    plain = cdec("classify", "--labels", "Paris,Rome", *FRANCE).records[0]
    dotted = cdec("classify", "--labels", "Paris,Rome", "--suffix", ".", *FRANCE).records[0]
    assert dotted["log_mass"] != plain["log_mass"]
    assert set(probabilities(dotted)) == {"Paris", "Rome"}


def test_denied_labels_are_left_out(cdec: Runner) -> None:
    Path("no.txt").write_text("Rome\n")
    (record,) = cdec("classify", "--labels", "Paris,Rome", "--deny", "no.txt", *FRANCE).records
    assert probabilities(record) == {"Paris": 1.0}


def test_a_grammar_has_no_labels(cdec: Runner) -> None:
    Path("g.lark").write_text('start: "yes" | "no"\n')
    assert cdec("compile-grammar", "g.lark").status == 0
    result = cdec("classify", "-a", "g.arrow", *FRANCE)
    assert result.status in (2, 3)
    assert "members of a set" in result.stderr + result.stdout.decode()


def test_what_is_typed_stands_before_cdec_toml(cdec: Runner, cities: Path) -> None:
    Path("cdec.toml").write_text(f"artifact = {str(cities)!r}\n[classify]\ntop = 2\n")
    found = cdec("classify", "--labels", "red,green,blue", *FRANCE)
    assert len(found.records[0]["labels"]) == 2, found.stderr
    assert set(probabilities(found.records[0])) < {"red", "green", "blue"}
    assert set(probabilities(cdec("classify", *FRANCE).records[0])) < set(MEMBERS)


def test_a_label_that_reads_as_a_formula_is_a_text_in_csv(cdec: Runner) -> None:
    labels = ["+1", "@x", "=A1", "-2", "plain"]
    Path("labels.txt").write_text("\n".join(labels) + "\n")
    result = cdec("classify", "labels.txt", *FRANCE, "--format", "csv")
    shown = {row["label"] for row in csv.DictReader(io.StringIO(result.stdout.decode()))}
    assert shown == {"'+1", "'@x", "'=A1", "'-2", "plain"}
