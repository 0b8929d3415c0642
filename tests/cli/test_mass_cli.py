"""The commands mass and classify."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import compile_grammar
from cdec.core.record_fields import fields_of
from tests.cli.conftest import MEMBERS, Runner, jsonl
from tests.laws.rounding import near

# --- cdec mass and --tree end to end: estimates and bounds out, trees kept and refused.

TRUTH = sum(4.0**-n for n in (2, 3, 3, 4, 3, 4))
"""Of the letters under a uniform model of four events."""


def test_mass_of_the_letters(cdec: Runner, letters: Path) -> None:
    result = cdec("mass", "-a", letters, "--prompt", "x")
    assert (result.status, result.stderr) == (0, "")
    (record,) = result.records
    assert list(record)[:10] == [
        *("id", "mass", "mass_lower", "mass_upper"),
        *("log_mass", "log_mass_se", "log_mass_reliable", "log_mass_unclipped"),
        *("log_mass_lower", "log_mass_upper"),
    ]
    assert record["mass_lower"] == pytest.approx(TRUTH) == pytest.approx(record["mass_upper"])
    assert record["log_mass_lower"] == pytest.approx(math.log(TRUTH))
    assert record["log_mass"] == pytest.approx(math.log(TRUTH))
    assert record["log_mass_reliable"] is True
    assert (record["candidates"], record["round"], record["converged"]) == (256, 16, None)


def test_options_change_what_is_measured(cdec: Runner, letters: Path) -> None:
    def one(*words: object) -> Any:
        (record,) = cdec("mass", "-a", letters, "--prompt", "x", *words).records
        return record

    plain = one("--candidates", 40)
    assert one("--candidates", 40) == plain
    assert plain["candidates"] == 40
    few = one("--candidates", 5, "--no-remember")
    assert one("--candidates", 5, "--no-remember", "--seed", 3)["log_mass"] != few["log_mass"]
    assert one("--candidates", 5, "--round", 1)["log_mass"] != few["log_mass"]
    assert few["log_mass_se"] > plain["log_mass_se"]
    early = one("--until-converged", "0.001")
    assert early["candidates"] < 256
    assert (early["mass"], early["converged"]) == (None, True)
    assert one("--max-new-tokens", 1)["mass_lower"] == pytest.approx(1 / 16)
    assert one("--max-new-tokens", 1)["length_mass_upper"] > 0
    assert one("--top-p", "0.2")["mass_upper"] != pytest.approx(TRUTH)
    Path("deny.txt").write_text("a\n")
    assert one("--deny", "deny.txt")["mass_upper"] == pytest.approx(TRUTH - 1 / 16)
    assert one("--and", letters)["mass_upper"] == pytest.approx(TRUTH)


def test_records_keep_their_order_and_bring_their_own_options(cdec: Runner, letters: Path) -> None:
    data = jsonl(
        {"id": "few", "prompt": "x", "candidates": ["a", "ab"]},
        {"id": "bad", "prompt": 4},
        {"id": "warm", "prompt": "x", "temperature": 0.5, "n": 10**9},
        {"id": "short", "prompt": "x", "max_tokens": 1},
        {"id": "named", "prompt": "x", "constraint": "nobody"},
        {"id": "seed", "prompt": "x", "seed": 1},
    )
    words = ("mass", "-a", letters, "--candidates", "30")
    result = cdec(*words, stdin=data)
    assert result.status == 3
    ids = [record["id"] for record in result.records]
    assert ids == ["few", "bad", "warm", "short", "named", "seed"]
    few, bad, _, short, named, _ = result.records
    assert few["mass_upper"] == pytest.approx(1 / 16 + 1 / 64)
    assert (bad["error"]["code"], named["error"]["code"]) == ("E_FIELD", "E_FIELD")
    assert short["mass_lower"] == pytest.approx(1 / 16)
    for size in ("1", "2", "64"):
        assert cdec(*words, "--batch-size", size, stdin=data).stdout == result.stdout
    strict = cdec(*words, "--strict", "--batch-size", "1", stdin=data)
    assert (strict.status, strict.error_code) == (65, "E_FIELD")
    assert [record["id"] for record in strict.records] == ["few"]


def test_a_terminal_gets_a_table(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("mass", "-a", letters, "--candidates", "30", "-i", "in.jsonl")
    Path("in.jsonl").write_bytes(jsonl({"id": "q\u202e", "prompt": "x"}, {"id": 2, "prompt": 4}))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = cdec(*words)
    head, first, second = result.stdout.decode().splitlines()
    assert head.split() == [
        "id",
        "mass",
        "error",
        "reliable",
        "lower",
        "upper",
        "candidates",
        "evaluations",
    ]
    assert first.split()[0] == r"q\u202e"
    assert [float(cell) for cell in first.split()[4:]] == pytest.approx(
        [TRUTH, TRUTH, 30, 10], 1e-4
    )
    assert "E_FIELD" in second
    assert cdec(*words, "--json").records[0]["candidates"] == 30


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--prompt", "x"), "compile-set"),
        (("-a", "ARTIFACT", "--prompt", "x", "--candidates", "0"), None),
        (("-a", "ARTIFACT", "--prompt", "x", "--temperature", "0"), "--temperature is 0"),
        (("-a", "ARTIFACT", "--prompt", "x", "--top-p", "2"), "--top-p must lie"),
        (("-a", "ARTIFACT", "--prompt", "x", "--until-converged", "0"), "nats"),
        (("-a", "ARTIFACT", "--prompt", "x", "--tree", "t.arrow", "--no-remember"), "one of them"),
        (("-a", "ARTIFACT", "--prompt", "x", "--tree", "-"), "name a file"),
        (("-a", "ARTIFACT", "--prompt", "x", "--heal"), "leave --heal out"),
        (("-a", "ARTIFACT", "--prompt", "x", "-i", "f"), "one of them"),
        (("-a", "ARTIFACT", "--prompt", "x", "--tre", "t.arrow"), None),
    ],
)
def test_what_makes_no_sense_is_refused(
    cdec: Runner, letters: Path, words: tuple[str, ...], hint: str | None
) -> None:
    result = cdec("mass", *(letters if word == "ARTIFACT" else word for word in words))
    assert (result.status, result.stdout) == (2, b"")
    assert hint is None or hint in result.stderr
    assert cdec("mass", stdin=b"x\n").error_code == "E_USAGE"


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_a_tree_goes_on_where_the_last_run_stopped(cdec: Runner, embedded_model: Any) -> None:
    compile_grammar("start: /[ a-z]{1,8}[.]/\n", embedded_model.vocabulary, "word.arrow")
    words = ("-a", "word.arrow", "--prompt", "A word:", "--tree", "tree.arrow", "--round", "4")
    fields = ("--fields", "iteration,log_mass_lower,log_mass_upper,log_mass")
    draw = ("sample", "--method", "exact", "-n", "5", *words, *fields)
    first = cdec(*draw)
    assert first.status == 0
    # What the second run begins with is what one more candidate cannot widen.
    second = cdec(*draw)
    assert second.status == 0
    ends, begins = first.records[-1], second.records[0]
    assert begins["log_mass_upper"] <= ends["log_mass_upper"]
    assert begins["log_mass_lower"] >= ends["log_mass_lower"]
    assert begins["iteration"] > ends["iteration"]
    (measured,) = cdec("mass", *words, "--candidates", "1").records
    assert measured["log_mass_upper"] <= begins["log_mass_upper"]
    (fresh,) = cdec("mass", *words[:4], "--candidates", "1").records
    assert measured["log_mass_upper"] < fresh["log_mass_upper"]
    for other, name in (
        (("--temperature", "0.7"), "temperature 0.7"),
        (("--top-k", "3"), "top-k 3"),
        (("--heal",), "--heal"),
        (("--lookahead", "0"), "--lookahead"),
    ):
        refused = cdec("mass", *words, *other)
        assert (refused.status, refused.error_code, refused.stdout) == (65, "E_TREE_MISMATCH", b"")
        assert name in refused.stderr


def test_a_tree_is_of_one_artifact_narrowed_in_one_way(cdec: Runner, letters: Path) -> None:
    words = ("--prompt", "x", "--tree", "tree.arrow", "--candidates", "20")
    assert cdec("mass", "-a", letters, *words).status == 0
    kept = Path("tree.arrow").read_bytes()
    Path("deny.txt").write_text("ab\n")
    narrowed: dict[str, tuple[object, ...]] = {
        "--deny": ("--deny", "deny.txt"),
        "--and": ("--and", letters),
    }
    for part, more in narrowed.items():
        result = cdec("mass", "-a", letters, *more, *words)
        assert (result.status, result.error_code) == (65, "E_TREE_MISMATCH")
        assert part in result.stderr
    # An artifact is known by its digest, whatever it is called.
    data = jsonl({"id": 1, "prompt": "x", "constraint": "x"})
    named = ("--constraint", f"x={letters}", *words[2:])
    assert cdec("mass", *named, stdin=data).status == 0
    few = jsonl({"id": 1, "prompt": "x", "candidates": ["a"]})
    assert cdec("mass", "-a", letters, *words[2:], stdin=few).error_code == "E_TREE_MISMATCH"
    assert Path("tree.arrow").read_bytes() != kept


def test_a_tree_that_makes_no_sense_is_refused_before_anything_is_drawn(
    cdec: Runner, letters: Path
) -> None:
    sample = ("sample", "-a", letters, "--tree", "tree.arrow", "--method", "exact")
    two = cdec(*sample, "--prompt", "x", "--prompt", "y")
    assert (two.status, two.error_code) == (2, "E_USAGE")
    assert "one record" in two.stderr
    assert cdec(*sample, stdin=b"x\ny\n").status == 2
    assert cdec("mass", "-a", letters, "--tree", "tree.arrow", stdin=b"x\ny\n").status == 2
    for method in ("masked", "disc", "smc", "unconstrained"):
        other = cdec(*sample[:-1], method, "--prompt", "x")
        assert (other.status, other.error_code) == (2, "E_USAGE")
        assert f"--tree means nothing to --method {method}" in other.stderr
    for method in ("masked", "disc", "asap", "exact"):
        typo = cdec("sample", "-a", letters, "--method", method, "--tre", "x", "--prompt", "x")
        assert typo.status == 2
    resumed = cdec(*sample, "--prompt", "x", "-o", "out.jsonl", "--resume")
    assert "--resume" in resumed.stderr
    assert cdec(*sample, "--prompt", "x", "-o", "tree.arrow").error_code == "E_USAGE"
    assert not Path("tree.arrow").exists()
    missing = cdec(*sample, "--prompt", "x", "--tree", "none/tree.arrow")
    assert (missing.status, missing.error_code) == (74, "E_IO")
    wrong = cdec(*sample, "--prompt", "x", "--tree", letters)
    assert (wrong.status, wrong.error_code) == (65, "E_ARTIFACT_VERSION")
    # No tree at all: an empty input draws nothing and keeps nothing.
    assert cdec(*sample, stdin=b"").status == 0
    assert not Path("tree.arrow").exists()


# --- cdec classify: labels from anywhere, prompts in, probabilities out, in three formats.

FRANCE = ("--prompt", "The capital of France is")
EVENTS = 8
"""Most tokens of a label here, its end counted."""


def probabilities(record: Any) -> dict[str, float]:
    return {label["text"]: label["probability"] for label in record["labels"]}


@pytest.mark.usefixtures("loaded")
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


@pytest.mark.usefixtures("loaded")
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


@pytest.mark.usefixtures("loaded")
def test_top_and_fields_keep_a_part(cdec: Runner) -> None:
    words = ("classify", "--labels", "Paris,Rome,Oslo", *FRANCE)
    (whole,) = cdec(*words).records
    (part,) = cdec(*words, "--top", "1", "--fields", "id,labels").records
    assert list(part) == ["id", "labels"] and part["labels"] == whole["labels"][:1]


@pytest.mark.usefixtures("loaded")
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


@pytest.mark.usefixtures("loaded")
def test_a_table_shows_labels_and_escapes_what_moves_cursors(cdec: Runner) -> None:
    Path("labels.jsonl").write_bytes(jsonl({"text": "a\x1b[2Jb"}, {"text": "plain"}))
    result = cdec("classify", "labels.jsonl", "--format", "table", "--prompt", "x")
    assert result.status == 0, result.stderr
    head, *rows = result.stdout.decode().splitlines()
    assert head.split() == ["id", "label", "probability", "logprob"]
    assert len(rows) == 2 and "\x1b" not in result.stdout.decode()
    assert "\\x1b" in result.stdout.decode()


@pytest.mark.usefixtures("loaded")
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


@pytest.mark.usefixtures("loaded")
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
def test_what_makes_no_sense_to_classify_is_refused(
    cdec: Runner, cities: Path, words: tuple[str, ...]
) -> None:
    Path("labels.txt").write_text("red\n")
    typed = [cities if word == "ARTIFACT" else word for word in words]
    result = cdec("classify", *typed)
    assert (result.status, result.error_code) == (2, "E_USAGE"), result.stderr
    assert "hint:" in result.stderr or "--labels" in result.stderr


@pytest.mark.usefixtures("loaded")
def test_without_labels_the_ways_to_give_them_are_told(cdec: Runner) -> None:
    result = cdec("classify", *FRANCE)
    assert "needs labels" in result.stderr and "--labels A,B,..." in result.stderr


@pytest.mark.usefixtures("loaded")
def test_duplicates_are_one_label_and_empty_files_none(cdec: Runner) -> None:
    result = cdec("classify", "--labels", "red,green,red", *FRANCE)
    assert len(result.records[0]["labels"]) == 2 and "W_DUPLICATES" in result.stderr
    Path("empty.txt").write_text("\n\n")
    assert cdec("classify", "empty.txt", *FRANCE).error_code == "E_EMPTY_SET"
    assert cdec("classify", "missing.txt", *FRANCE).error_code == "E_NOINPUT"


@pytest.mark.usefixtures("loaded")
def test_a_suffix_ends_labels_in_the_place_of_the_end(cdec: Runner) -> None:
    plain = cdec("classify", "--labels", "Paris,Rome", *FRANCE).records[0]
    dotted = cdec("classify", "--labels", "Paris,Rome", "--suffix", ".", *FRANCE).records[0]
    assert dotted["log_mass"] != plain["log_mass"]
    assert set(probabilities(dotted)) == {"Paris", "Rome"}


@pytest.mark.usefixtures("loaded")
def test_denied_labels_are_left_out(cdec: Runner) -> None:
    Path("no.txt").write_text("Rome\n")
    (record,) = cdec("classify", "--labels", "Paris,Rome", "--deny", "no.txt", *FRANCE).records
    assert probabilities(record) == {"Paris": 1.0}


@pytest.mark.usefixtures("loaded")
def test_a_grammar_has_no_labels(cdec: Runner) -> None:
    Path("g.lark").write_text('start: "yes" | "no"\n')
    assert cdec("compile-grammar", "g.lark").status == 0
    result = cdec("classify", "-a", "g.arrow", *FRANCE)
    assert result.status in (2, 3)
    assert "members of a set" in result.stderr + result.stdout.decode()


@pytest.mark.usefixtures("loaded")
def test_what_is_typed_stands_before_cdec_toml(cdec: Runner, cities: Path) -> None:
    Path("cdec.toml").write_text(f"artifact = {str(cities)!r}\n[classify]\ntop = 2\n")
    found = cdec("classify", "--labels", "red,green,blue", *FRANCE)
    assert len(found.records[0]["labels"]) == 2, found.stderr
    assert set(probabilities(found.records[0])) < {"red", "green", "blue"}
    assert set(probabilities(cdec("classify", *FRANCE).records[0])) < set(MEMBERS)


@pytest.mark.usefixtures("loaded")
def test_a_label_that_reads_as_a_formula_is_a_text_in_csv(cdec: Runner) -> None:
    labels = ["+1", "@x", "=A1", "-2", "plain"]
    Path("labels.txt").write_text("\n".join(labels) + "\n")
    result = cdec("classify", "labels.txt", *FRANCE, "--format", "csv")
    shown = {row["label"] for row in csv.DictReader(io.StringIO(result.stdout.decode()))}
    assert shown == {"'+1", "'@x", "'=A1", "'-2", "plain"}
