"""Quotes of records' documents within schemas and grammars on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runner, jsonl

PAGE = 'Lyon lies on "two" rivers. The Rhône is the longer one.'
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "x-cdec-span-of": {"field": "page", "whole": "words"}},
        "title": {"type": "string", "x-cdec-span-of": "title"},
    },
    "required": ["name", "title"],
    "additionalProperties": False,
}
GRAMMAR = 'start: "it says " QUOTE "."?\n%declare QUOTE\n'
MASKED = ("--method", "masked", "--max-new-tokens", "60")

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child")


@pytest.fixture(autouse=True)
def folder(cdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile a schema and a grammar that quote documents."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    Path("s.json").write_text(json.dumps(SCHEMA))
    Path("g.lark").write_text(GRAMMAR)
    assert cdec("compile-schema", "s.json").status == 0
    assert cdec("compile-grammar", "g.lark").status == 0


def records(*chosen: dict[str, Any]) -> bytes:
    return jsonl(*({"prompt": "x", "page": PAGE, "title": "Lyon", **one} for one in chosen))


def quoted(member: dict[str, Any], document: str) -> str:
    span = member["span"]
    assert document[span["offset"] :][: span["length"]] == member["text"]
    return str(member["text"])


def test_strings_are_pieces_of_the_fields_of_their_records(cdec: Runner) -> None:
    asked = records({"id": 1, "n": 4}, {"id": 2, "page": "Another.", "title": "T\t1"})
    done = cdec("sample", "-a", "s.arrow", *MASKED, "--strict-fields", stdin=asked)
    assert done.status == 0, done.stderr
    assert len(done.records) == 5
    for record in done.records:
        name, title = record["members"]
        value = json.loads(record["text"])
        page = PAGE if record["id"] == 1 else "Another."
        assert value["name"] == quoted(name, page) and name["pointer"] == "/name"
        assert value["title"] == quoted(title, "Lyon" if record["id"] == 1 else "T\t1")
        assert name["quote"] == "page (whole words)" and title["quote"] == "title"
        assert record["valid"] and title["span"]["field"] == "title"
    alone = cdec("sample", "-a", "s.arrow", *MASKED, "--batch-size", 1, stdin=asked)
    assert [one["text"] for one in alone.records] == [one["text"] for one in done.records]


def test_a_grammar_quotes_what_span_names(cdec: Runner) -> None:
    words = ("-a", "g.arrow", "--span", "QUOTE=page", "--span-whole", "sentences", *MASKED)
    done = cdec("sample", *words, "--fields", "text,members,valid", stdin=records({"n": 4}))
    assert done.status == 0 and "reads the field 'title' of" in done.stderr
    for record in done.records:
        (member,) = record["members"]
        assert record["valid"] and quoted(member, PAGE).endswith(".")
        assert record["text"][member["start"] : member["end"]] == member["text"]


def test_a_sources_and_a_records_own_schema_quote_as_well(cdec: Runner) -> None:
    done = cdec("sample", "--schema", "s.json", *MASKED, "--strict-fields", stdin=records({}))
    assert done.status == 0 and done.records[0]["valid"], done.stderr
    own = records({"schema": SCHEMA}, {"grammar": GRAMMAR})
    done = cdec("sample", "--span", "QUOTE=title", *MASKED, "--strict-fields", stdin=own)
    assert done.status == 3
    first, second = done.records
    assert first["valid"] and "'page' is read by nothing" in second["error"]["message"]
    done = cdec("sample", "--span", "QUOTE=title", *MASKED, stdin=records({"grammar": GRAMMAR}))
    assert done.records[0]["members"][0]["span"]["field"] == "title"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("page", "code"),
    [(None, "E_FIELD"), ([PAGE], "E_FIELD"), ("", "E_EMPTY_SET"), (" .. ", "E_EMPTY_SET")],
)
def test_records_without_such_a_document_become_errors(
    cdec: Runner, page: object, code: str
) -> None:
    done = cdec("sample", "-a", "s.arrow", *MASKED, stdin=records({"page": page}, {}))
    assert done.status == 3
    assert done.records[0]["error"]["code"] == code and done.records[1]["valid"]
    lacking = jsonl({"prompt": "x"})
    done = cdec("sample", "-a", "s.arrow", *MASKED, stdin=lacking)
    assert done.records[0]["error"]["field"] == "page"


@pytest.mark.slow
def test_all_methods_and_conjunctions_draw_quotes(cdec: Runner) -> None:
    for method in ("greedy", "disc", "smc", "topn"):
        asked = records({"page": "one two", "title": "t"})
        done = cdec("sample", "-a", "s.arrow", "--method", method, stdin=asked)
        assert done.status == 0 and done.records[0]["valid"], (method, done.stderr)


@pytest.mark.parametrize("first", [("-a", "both.arrow"), ("-a", "g.arrow")])
def test_what_all_texts_satisfy_as_well_quotes_too(cdec: Runner, first: Sequence[str]) -> None:
    Path("both.lark").write_text('start: "it says " /[a-z ]+/\n')
    assert cdec("compile-grammar", "both.lark").status == 0
    words = (*first, "--and", "g.arrow", "--span", "QUOTE=page", "--deny", "deny.txt")
    Path("deny.txt").write_text("it says the\n")
    asked = records({"id": 1, "n": 3, "page": "the house"}, {"id": 2, "page": "A b"}, {"page": 3})
    Path("asked.jsonl").write_bytes(asked)
    done = cdec("sample", *words, *MASKED, stdin=asked)
    assert done.status == 3 and done.records[-1]["error"]["field"] == "page", done.stderr
    for record in done.records[:-1]:
        (member,) = record["members"]
        quoted(member, "the house" if record["id"] == 1 else "A b")
        assert record["valid"] and record["text"].rstrip(".") == "it says " + member["text"]
        assert record["text"] != "it says the"
        assert "both.arrow" not in first or record["text"].islower()
    drawn = b"".join(line + b"\n" for line in done.stdout.splitlines()[:-1])
    for asked_of in (words, words[2:]):
        scored = cdec("score", *asked_of, "--prompts", "asked.jsonl", stdin=drawn)
        assert [one["member"] for one in scored.records] == [True] * 4, scored.stderr


def test_scores_and_checks_know_the_documents(cdec: Runner) -> None:
    asked = records({"id": 1, "n": 3}, {"id": 2, "page": "Other page."})
    Path("asked.jsonl").write_bytes(asked)
    drawn = cdec("sample", "-a", "s.arrow", *MASKED, stdin=asked)
    checked = cdec("check", "s.arrow", stdin=drawn.stdout)
    assert [one["valid"] for one in checked.records] == [True] * 4
    assert checked.records[0]["members"] == drawn.records[0]["members"]
    given = ("score", "-a", "s.arrow", "--fields", "id,member,valid,logprob")
    scored = cdec(*given, "--prompts", "asked.jsonl", stdin=drawn.stdout)
    assert scored.status == 0, scored.stderr
    for one, other in zip(scored.records, drawn.records, strict=True):
        assert one["member"] and one["valid"]
        assert one["logprob"] == pytest.approx(other["logprob"], abs=1e-4)
    alone = cdec(*given, "--prompt", "x", stdin=drawn.stdout)
    assert [one["logprob"] for one in alone.records] == [one["logprob"] for one in scored.records]
    wrong = jsonl(
        {"text": '{"name": "Lyo", "title": "Lyon"}', "page": PAGE, "title": "Lyon"},
        {"text": '{"name": "Lyon", "title": "Lyon"}', "page": PAGE},
    )
    first, second = cdec("check", "s.arrow", stdin=wrong).records
    assert not first["valid"] and first["reason"].startswith("no piece of page (whole words) is")
    assert second["valid"] is None and second["error"]["field"] == "title"


@pytest.mark.parametrize("command", ["score", "check"])
def test_span_of_judges_texts_by_their_documents(cdec: Runner, command: str) -> None:
    texts = jsonl(
        {"prompt": "x", "text": "two rivers", "page": "on two rivers"},
        {"prompt": "x", "text": "wo rivers", "page": "on two rivers"},
        {"prompt": "x", "text": "two rivers", "input": {"page": "no two rivers."}},
        {"prompt": "x", "text": "two rivers"},
    )
    done = cdec(command, "--span-of", "page", "--span-whole", "words", stdin=texts)
    assert [one.get("valid") for one in done.records] == [True, False, True, None]
    assert done.records[3]["error"]["field"] == "page"


def test_checks_take_the_spans_of_a_grammar(cdec: Runner) -> None:
    texts = jsonl(*({"text": f"it says {text}", "page": PAGE} for text in ("Rhône.", "Rhone")))
    one, other = cdec("check", "g.arrow", "--span", "QUOTE=page", stdin=texts).records
    assert one["valid"] and one["members"][0]["quote"] == "QUOTE"
    assert other["reason"] == "no piece of QUOTE begins with 'Rho'"
    for words in (("QUOT=page",), ("QUOTE",), ("QUOTE=page", "--token-ids")):
        assert cdec("check", "g.arrow", "--span", *words, stdin=texts).status == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--span", "QUOTE"), "expected NAME=FIELD"),
        (("--span", "QUOTE=a", "--span", "QUOTE=b"), "twice"),
        (("--span-whole", "words"), "without --span-of, --span or --spans-of"),
        ((), "holds the set 'QUOTE'"),
    ],
)
def test_words_that_make_no_sense_are_refused(
    cdec: Runner, words: tuple[str, ...], said: str
) -> None:
    done = cdec("sample", "-a", "g.arrow", *words, *MASKED, stdin=records({}))
    assert done.status == 2 and said in done.stderr


def test_what_no_artifact_holds_is_told(cdec: Runner) -> None:
    words = ("sample", "-a", "s.arrow", *MASKED)
    done = cdec(*words, "--span", "QUOTE=page", stdin=records({}))
    assert done.status == 0 and "--span QUOTE names a set that no artifact" in done.stderr
    used = cdec("sample", "-a", "g.arrow", *MASKED, "--span", "QUOTE=page", stdin=records({}))
    assert used.status == 0 and "names a set" not in used.stderr


def test_another_document_is_another_tree(cdec: Runner) -> None:
    words = ("sample", "-a", "g.arrow", "--span", "QUOTE=page", "--method", "asap")
    kept = (*words, "--tree", "tree.arrow")
    assert cdec(*kept, stdin=records({"page": "one"})).status == 0
    assert cdec(*kept, stdin=records({"page": "one"})).status == 0
    other = cdec(*kept, stdin=records({"page": "two"}))
    assert other.status not in (0, 3) and "document" in other.stderr


def test_what_to_type_next_takes_records(cdec: Runner) -> None:
    done = cdec("compile-schema", "s.json", "--force")
    assert "next: cdec sample -a s.arrow -i RECORDS" in done.stderr
    assert "cdec sample -a s.arrow -i RECORDS" in cdec("inspect", "s.arrow").stdout.decode()
