"""Sets within schemas and grammars on the command line: ``--set``, and records that narrow them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Runner, jsonl

SCHEMA = {
    "type": "object",
    "properties": {"c": {"type": "string", "x-cdec-set": "cities"}},
    "required": ["c"],
    "additionalProperties": False,
}
GRAMMAR = 'start: "in " CITY "."?\n%declare CITY\n'
SETS = ("--set", "cities=towns.arrow")
DRAWN = ("--method", "masked", "--prompt", "x", "--max-new-tokens", "40")

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child")


@pytest.fixture(autouse=True)
def folder(cdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile a schema, a grammar and a set of their own."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    Path("towns.jsonl").write_text(
        "".join(json.dumps({"text": t, "id": i}) + "\n" for i, t in TOWNS.items())
    )
    Path("s.json").write_text(json.dumps(SCHEMA))
    Path("g.lark").write_text(GRAMMAR)
    for words in (
        ("compile-set", "towns.jsonl", "--field", "text", "--id-field", "id"),
        ("compile-schema", "s.json"),
        ("compile-grammar", "g.lark"),
    ):
        assert cdec(*words).status == 0


TOWNS = {"T1": "Oslo", "T2": "Os", "T3": 'A "B"', "T4": "Zürich"}


def test_samples_say_which_members_they_hold(cdec: Runner) -> None:
    done = cdec("sample", "-a", "s.arrow", *SETS, *DRAWN, "-n", "8")
    assert done.status == 0
    for record in done.records:
        (member,) = record["members"]
        assert record["valid"] and json.loads(record["text"])["c"] == member["text"]
        assert TOWNS[member["id"]] == member["text"] and member["pointer"] == "/c"
    done = cdec("sample", "-a", "g.arrow", "--set", "CITY=towns.arrow", *DRAWN, "-n", "4")
    for record in done.records:
        (member,) = record["members"]
        assert record["valid"]
        assert record["text"][member["start"] : member["end"]] == member["text"]


def test_commands_to_type_next_give_the_sets(cdec: Runner) -> None:
    done = cdec("compile-schema", "s.json", "--force")
    assert "next: cdec sample -a s.arrow --set cities=ARTIFACT --prompt" in done.stderr
    assert "check s.arrow --set cities=ARTIFACT -i" in cdec("inspect", "s.arrow").stdout.decode()


def test_a_source_in_an_artifacts_place_takes_sets(cdec: Runner) -> None:
    done = cdec("sample", "--schema", "s.json", *SETS, *DRAWN)
    assert done.status == 0 and done.records[0]["valid"]


def test_a_set_that_is_not_given_is_asked_for(cdec: Runner) -> None:
    done = cdec("sample", "-a", "s.arrow", *DRAWN)
    assert done.status == 2 and "E_SET_MISSING" in done.stderr
    assert "--set" in done.stderr
    assert cdec("check", "s.arrow", stdin=b'{"c": "Oslo"}\n').status == 2


@pytest.mark.parametrize("words", ["cities", "=towns.arrow", "towns=towns.arrow"])
def test_words_that_name_no_set_of_the_schema_are_refused(cdec: Runner, words: str) -> None:
    assert cdec("check", "s.arrow", "--set", words, stdin=b"{}\n").status == 2


def test_what_is_no_set_is_refused(cdec: Runner) -> None:
    done = cdec("sample", "-a", "s.arrow", "--set", "cities=g.arrow", *DRAWN)
    assert done.status == 2 and "a grammar is given" in done.stderr


def test_checks_name_the_nearest_members(cdec: Runner) -> None:
    texts = b'{"c": "Osl_"}\n{"c": "Z\\u00fcrich"}\n'
    wrong, right = cdec("check", "s.arrow", *SETS, stdin=texts).records
    assert not wrong["valid"]
    assert wrong["reason"] == "no member of cities begins with 'Osl_'; nearest: 'Oslo', 'Os'"
    assert right["valid"] and right["members"][0]["id"] == "T4"


def records(*chosen: Any) -> bytes:
    return b"".join(json.dumps({"prompt": "x", **one}).encode() + b"\n" for one in chosen)


def test_records_narrow_sets_by_their_names(cdec: Runner) -> None:
    asked = records(
        {"candidates": {"cities": ["T4"]}},
        {"candidates": {"cities": {"deny": ["Oslo", "Os", "Zürich"]}}},
        {"candidates": {"cities": ["Bergen"]}},
        {"candidates": {"towns": ["Oslo"]}},
        {"candidates": {"cities": {"but": ["Oslo"]}}},
        {"candidates": {"cities": {"deny": [*TOWNS.values()]}}},
    )
    done = cdec("sample", "-a", "s.arrow", *SETS, "--method", "masked", stdin=asked)
    assert done.status == 3
    first, second, *errors = done.records
    assert first["members"][0]["id"] == "T4" and second["members"][0]["id"] == "T3"
    codes = [error["error"]["code"] for error in errors]
    assert codes == ["E_FIELD", "E_FIELD", "E_FIELD", "E_EMPTY_SET"]


def test_records_may_name_the_sets_of_the_run_and_no_others(cdec: Runner) -> None:
    other = json.loads(json.dumps(SCHEMA).replace("cities", "towns.arrow"))
    asked = records({"schema": SCHEMA}, {"schema": other}, {"grammar": GRAMMAR})
    given = (*SETS, "--set", "CITY=towns.arrow", "--method", "masked")
    done = cdec("sample", *given, stdin=asked)
    first, second, third = done.records
    assert first["valid"] and third["valid"] and third["members"][0]["set"] == "CITY"
    assert second["error"]["code"] == "E_SET_MISSING"


def test_another_set_of_the_name_is_no_continuation(cdec: Runner) -> None:
    words = ("sample", "-a", "s.arrow", *SETS, "--method", "masked", "-o", "out.jsonl")
    assert cdec(*words, "--prompt", "x").status == 0
    Path("towns.jsonl").write_text('{"text": "Bergen", "id": "T9"}\n')
    compiled = ("compile-set", "towns.jsonl", "--field", "text", "--id-field", "id", "--force")
    assert cdec(*compiled).status == 0
    again = cdec(*words, "--prompt", "x", "--resume")
    assert again.status not in (0, 3) and "sets" in again.stderr
    assert json.loads(Path("out.jsonl").read_text())["members"][0]["id"] in TOWNS


@pytest.mark.parametrize(
    ("source", "name", "text"),
    [("s.json", "cities", b'{"c": "Oslo"}\n'), ("g.lark", "CITY", b"in Os\n")],
)
def test_an_artifact_may_know_its_set_again(
    cdec: Runner, source: str, name: str, text: bytes
) -> None:
    command = "compile-schema" if source == "s.json" else "compile-grammar"
    words = (command, source, "-o", "pinned.arrow", "--set")
    assert cdec(*words, f"{name}=towns.arrow").status == 0
    Path("more.txt").write_text("Oslo\nOs\n")
    assert cdec("compile-set", "more.txt").status == 0
    digests = {
        artifact: json.loads(cdec("inspect", f"{artifact}.arrow", "--json").stdout)["digest"]
        for artifact in ("towns", "more")
    }
    assert cdec("check", "pinned.arrow", "--set", f"{name}=towns.arrow", stdin=text).status == 0
    for draws in (("check", "pinned.arrow"), ("sample", "-a", "pinned.arrow", *DRAWN)):
        refused = cdec(*draws, "--set", f"{name}=more.arrow", stdin=text)
        assert refused.status == 2 and "E_SET_MISMATCH" in refused.stderr
        assert all(digest in refused.stderr for digest in digests.values())
    opened = cdec(
        "check",
        source.replace(".json", ".arrow").replace(".lark", ".arrow"),
        "--set",
        f"{name}=more.arrow",
        stdin=text,
    )
    assert opened.status == 0
    described = cdec("inspect", "pinned.arrow", "--verify", "--json").records[0]
    assert described["set_digests"] == {name: digests["towns"]}
    assert cdec(*words, "other=towns.arrow", "--force").status == 2
    assert cdec(*words, f"{name}=g.arrow", "--force").status == 2
    kept = cdec(*words, f"{name}=more.arrow", "--force")
    assert kept.status == 0 and "up to date" not in kept.stderr


def test_a_corpus_stands_within_a_schema_and_a_grammar(cdec: Runner) -> None:
    pages = {"p1": "Oslo lies on a fjord.", "p2": "Bergen is rainy."}
    rows = (json.dumps({"id": name, "text": text}) + "\n" for name, text in pages.items())
    Path("pages.jsonl").write_text("".join(rows))
    assert (
        cdec("compile-spans", "pages.jsonl", "--id-field", "id", "--span-whole", "words").status
        == 0
    )
    for artifact, name in (("s.arrow", "cities"), ("g.arrow", "CITY")):
        given = ("--set", f"{name}=pages.arrow")
        one = {"prompt": "x", "n": 2}
        asked = jsonl(
            one, {**one, "candidates": {name: ["p2"]}}, {**one, "candidates": {name: ["p3"]}}
        )
        done = cdec(
            "sample", "-a", artifact, *given, *DRAWN[:2], "--max-new-tokens", "60", stdin=asked
        )
        assert done.status == 3 and done.records[-1]["error"]["code"] == "E_FIELD"
        for number, record in enumerate(done.records[:-1]):
            (member,) = record["members"]
            assert record["valid"] and member["quote"] == name
            for found in member["span"]["found"]:
                assert pages[found["document"]][found["offset"] :].startswith(member["text"])
                assert number < 2 or found["document"] == "p2"
        texts = "".join(json.dumps({"text": one["text"]}) + "\n" for one in done.records[:-1])
        checked = cdec("check", artifact, *given, "--field", "text", stdin=texts.encode())
        assert [one["valid"] for one in checked.records] == [True] * 4, checked.stderr
    pinned = cdec("compile-grammar", "g.lark", "-o", "p.arrow", "--set", "CITY=pages.arrow")
    assert pinned.status == 0
    assert cdec("check", "p.arrow", "--set", "CITY=towns.arrow", stdin=b"in Oslo\n").status == 2
