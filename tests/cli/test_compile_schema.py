"""JSON Schemas on the command line, compiled beforehand or named by records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.options.record_sources import (
    GrammarLimitOptions,
    RecordSourceOptions,
    record_sources,
)
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.core.artifacts.opened import read_artifact
from cdec.core.artifacts.write import write_artifact
from tests.cli.conftest import Runner, jsonl, texts_of

# --- cdec compile-schema: one schema, many, tools; what is printed and recorded of what masks
# hold.

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
IMPOSSIBLE = {"type": "integer", "minimum": 5, "maximum": 3}
REMOTE = {"$ref": "http://127.0.0.1:9/x.json"}


def write(name: str, schema: Any) -> Path:
    path = Path(name)
    path.write_text(json.dumps(schema))
    return path


def valid(cdec: Runner, artifact: str, *texts: str) -> list[bool]:
    lines = "".join(text + "\n" for text in texts).encode()
    records = cdec("check", artifact, "--format", "text", stdin=lines).records
    return [record["valid"] for record in records]


@pytest.mark.usefixtures("grammar_child")
def test_the_artifact_lies_beside_the_input_and_is_summed_up(cdec: Runner) -> None:
    write("point.json", POINT)
    result = cdec("compile-schema", "point.json")
    assert result.status == 0, result.stderr
    shown = result.stdout.decode()
    for word in ("2020-12", "unenforced", "objects", "automata", "seconds"):
        assert word in shown
    assert "next: cdec sample -a point.arrow" in result.stderr
    texts = ('{"x": 1, "y": -2}', '{"y":2,"x":1}', '{"x": 1}', '{"x": 1.5, "y": 2}')
    assert valid(cdec, "point.arrow", *texts) == [True, True, False, False]
    assert "up to date" in cdec("compile-schema", "point.json").stderr
    (again,) = cdec("compile-schema", "point.json", "--json").records
    assert again["up_to_date"] and again["draft"] == "2020-12" and again["unenforced"] == []
    changed = cdec("compile-schema", "point.json", "--lenient")
    assert changed.error_code == "E_EXISTS" and "--lenient" in changed.stderr


@pytest.mark.usefixtures("grammar_child")
def test_json_says_all_and_stats_what_keywords_cost(cdec: Runner) -> None:
    write("point.json", POINT)
    (report,) = cdec("compile-schema", "point.json", "--json").records
    assert report["objects"] == 1 and report["bytes"] == Path("point.arrow").stat().st_size
    assert not report["up_to_date"] and report["costs"]["properties"]["uses"] >= 1
    shown = cdec("compile-schema", "point.json", "--stats", "--force").stdout.decode()
    assert "keyword" in shown and "required" in shown
    assert "alternatives" not in cdec("compile-schema", "point.json", "--force").stdout.decode()


@pytest.mark.usefixtures("grammar_child")
@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ((), [True, True, True, True]),
        (("--property-order", "declared"), [True, True, False, True]),
        (("--whitespace", "compact"), [True, False, True, False]),
        (("--whitespace", "pretty"), [False, False, False, True]),
        (("--max-whitespace", "0"), [True, False, True, False]),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_options_decide_which_texts_are_allowed(
    cdec: Runner, words: tuple[str, ...], accepted: list[bool]
) -> None:
    write("point.json", POINT)
    assert cdec("compile-schema", "point.json", *words).status == 0
    texts = ['{"x":1,"y":2}', '{"x": 1, "y": 2}', '{"y":2,"x":1}']
    pretty = json.dumps({"x": 1, "y": 2}, indent=2)
    found = valid(cdec, "point.arrow", *texts)
    whole = cdec("check", "point.arrow", "--whole", stdin=pretty.encode()).records[0]["valid"]
    assert [*found, whole] == accepted


STYLES: list[dict[str, Any]] = [{"separators": (",", ":")}, {}, {"indent": 2}, {"indent": 4}]


@pytest.mark.slow
@pytest.mark.usefixtures("grammar_child")
def test_usual_white_space_is_that_of_one_writer_and_other_is_named(cdec: Runner) -> None:
    write("point.json", POINT)
    assert cdec("compile-schema", "point.json").status == 0
    texts = [json.dumps({"x": 1, "y": 2}, **style) for style in (*STYLES, {"indent": "\t"})]
    mixed = [
        '{"x":1, "y":2}',
        '{"x" : 1, "y" : 2}',
        '{\n   "x": 1,\n   "y": 2\n}',
        ' {"x":1,"y":2}',
    ]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in [*texts, *mixed]).encode()
    for whitespace, written in (("usual", 5), ("any", 9)):
        words = ("compile-schema", "point.json", "--whitespace", whitespace, "--force")
        assert cdec(*words).status == 0
        found = cdec("check", "point.arrow", "--field", "text", "--format", "jsonl", stdin=lines)
        said = found.records
        assert [one["valid"] for one in said] == [True] * 9
        assert [one.get("written", True) for one in said] == [i < written for i in range(9)]
        (inspected,) = cdec("inspect", "point.arrow", "--json").records
        assert inspected["options"]["whitespace"] == whitespace
        assert f"{whitespace}: " in cdec("inspect", "point.arrow").stdout.decode()
        assert cdec("inspect", "point.arrow", "--verify").status == 0
        for one in said[written:]:
            assert "white space" in one["reason"] and "usual: none, one blank" in one["reason"]
    said = cdec("check", "point.arrow", stdin=b'{"x":1, "y":2.5}\n').records[0]
    assert (said["valid"], said["byte"]) == (False, 15)


@pytest.mark.slow
@pytest.mark.usefixtures("grammar_child")
def test_escapes_of_what_needs_none_are_written_only_on_request(cdec: Runner) -> None:
    write("word.json", {"type": "string"})
    texts = (r'"a\n\u00e9\ud83d\ude00\u001f\"\\"', r'"\u006ao\u0062"', r'"a\/b"', r'"\u0022"')
    for escapes, written in (("usual", 1), ("any", 4)):
        words = ("compile-schema", "word.json", "--escapes", escapes, "--force")
        assert cdec(*words).status == 0
        said = cdec("check", "word.arrow", stdin="\n".join(texts).encode()).records
        assert [one["valid"] for one in said] == [True] * 4
        assert [one.get("written", True) for one in said] == [i < written for i in range(4)]
        assert "escapes" in cdec("inspect", "word.arrow").stdout.decode()
        assert cdec("inspect", "word.arrow", "--json").records[0]["options"]["escapes"] == escapes
        assert cdec("inspect", "word.arrow", "--verify").status == 0
        for one, reason in zip(said[written:], (r"\u006a", r"\/", r"\u0022"), strict=False):
            assert one["reason"].startswith(f"{reason} is an escape that is not written here")


@pytest.mark.usefixtures("grammar_child")
def test_other_white_space_than_asked_for_is_refused_with_a_reason(cdec: Runner) -> None:
    write("point.json", POINT)
    for whitespace, text in (("compact", '{"x":1, "y":2}'), ("pretty", '{"x":1,"y":2}')):
        words = ("compile-schema", "point.json", "--whitespace", whitespace, "--force")
        assert cdec(*words).status == 0
        said = cdec("check", "point.arrow", stdin=text.encode()).records[0]
        assert not said["valid"]
        assert said["reason"].startswith("white space that is not written here, where it is ")
        assert f"{whitespace}: " in said["reason"]


@pytest.mark.usefixtures("grammar_child")
def test_artifacts_from_before_there_were_these_options_have_any(cdec: Runner) -> None:
    write("word.json", {"type": "array", "items": {"type": "string"}})
    words = ("compile-schema", "word.json", "--whitespace", "any", "--escapes", "any")
    assert cdec(*words).status == 0
    file = read_artifact(Path("word.arrow"))
    options = json.loads(file.metadata["cdec.options"])
    del options["escapes"]
    metadata = file.metadata | {"cdec.options": json.dumps(options)}
    write_artifact(Path("old.arrow"), "schema", file.arrays, metadata)
    assert cdec("inspect", "old.arrow", "--verify").status == 0
    said = cdec("check", "old.arrow", stdin=b'[ "\\u0061" ]\n').records[0]
    assert said["valid"] and said.get("written", True)


@pytest.mark.usefixtures("grammar_child")
def test_a_bound_on_white_space_asks_for_such_runs(cdec: Runner) -> None:
    write("point.json", POINT)
    assert cdec("compile-schema", "point.json", "--max-whitespace", "2").status == 0
    assert cdec("inspect", "point.arrow", "--json").records[0]["options"]["whitespace"] == "any"
    words = ("--whitespace", "usual", "--max-whitespace", "2", "--force")
    refused = cdec("compile-schema", "point.json", *words)
    assert (refused.status, refused.error_code) == (2, "E_USAGE")


@pytest.mark.usefixtures("grammar_child")
def test_a_misspelled_keyword_is_told_what_was_meant(cdec: Runner) -> None:
    write("point.json", {"type": "object", "requred": ["x"], "x-own": 1, "title": "Point"})
    told = cdec("compile-schema", "point.json")
    assert told.status == 0
    assert (
        "W_SCHEMA_ANNOTATION" in told.stderr and "requred (did you mean required?)" in told.stderr
    )
    refused = cdec("compile-schema", "point.json", "--strict", "--force")
    assert (refused.status, refused.error_code) == (65, "E_SCHEMA_KEYWORD")
    assert "/requred" in refused.stderr and "did you mean required?" in refused.stderr
    write("point.json", {"type": "object", "x-own": 1, "title": "Point"})
    assert cdec("compile-schema", "point.json", "--strict", "--force").status == 0
    write("point.json", {"properties": {"a": {"colour": 1}}})
    refused = cdec("compile-schema", "point.json", "--strict", "--force")
    assert "/properties/a/colour" in refused.stderr and "leave it out" in refused.stderr


@pytest.mark.usefixtures("grammar_child")
def test_formats_are_enforced_unless_they_are_annotations(cdec: Runner) -> None:
    write("date.json", {"type": "string", "format": "date"})
    texts = ('"2024-02-30"', '"2024-02-29"')
    for formats, accepted in (("enforce", [False, True]), ("annotate", [True, True])):
        assert cdec("compile-schema", "date.json", "--formats", formats, "--force").status == 0
        assert valid(cdec, "date.arrow", *texts) == accepted


@pytest.mark.slow
@pytest.mark.usefixtures("grammar_child")
def test_numbers_are_those_that_doubles_can_hold_unless_any_are_asked_for(cdec: Runner) -> None:
    write("rate.json", {"type": "number", "minimum": 0})
    texts = ("1e-4", "25e-4", "1e400", "1e-400", "-1e5")
    for options, accepted in (
        ([], [True, True, False, False, False]),
        (["--numbers", "any"], [True, True, True, True, False]),
    ):
        assert cdec("compile-schema", "rate.json", *options, "--force").status == 0
        assert valid(cdec, "rate.arrow", *texts) == accepted
        (said,) = cdec("inspect", "rate.arrow", "--json").records
        assert said["options"]["numbers"] == (options or ["", "finite"])[1]
        assert cdec("inspect", "rate.arrow", "--verify").status == 0
    said = cdec("check", "rate.arrow", stdin=b"25e-4\n").records[0]
    assert (said["valid"], said["written"]) == (True, False)
    assert "2.5e-3 is" in said["reason"]


@pytest.mark.usefixtures("grammar_child")
def test_what_cannot_be_read_is_an_error_that_names_it(cdec: Runner) -> None:
    write("remote.json", REMOTE)
    result = cdec("compile-schema", "remote.json")
    assert (result.status, result.error_code) == (65, "E_SCHEMA_REF")
    assert "remote.json" in result.stderr
    Path("no.json").write_text('{"type":')
    assert cdec("compile-schema", "no.json").error_code == "E_SCHEMA_JSON"
    assert cdec("compile-schema", "nowhere.json").status == 66
    assert cdec("compile-schema", "-", stdin=b"{}").error_code == "E_USAGE"
    assert cdec("compile-schema", "-", "-o", "any.arrow", stdin=b"{}").status == 0
    short = cdec("compile-schema", "remote.json", "--max-schema-bytes", "5")
    assert short.error_code == "E_LIMIT" and "--max-schema-bytes" in short.stderr


@pytest.mark.usefixtures("grammar_child")
def test_many_are_compiled_and_failures_listed(cdec: Runner) -> None:
    for name, schema in (("point", POINT), ("bad", IMPOSSIBLE), ("remote", REMOTE), ("any", {})):
        write(f"{name}.json", schema)
    names = [f"{name}.json" for name in ("point", "bad", "remote", "any")]
    result = cdec("compile-schema", *names, "--out-dir", "deep/out")
    assert result.status == 3
    assert result.stderr.count("error E_") == 2
    assert "error E_EMPTY_LANGUAGE: bad.json" in result.stderr
    assert "4 sources: 2 compiled, 2 failed" in result.stderr
    assert sorted(path.name for path in Path("deep/out").iterdir()) == ["any.arrow", "point.arrow"]
    records = cdec("compile-schema", *names, "--out-dir", "deep/out", "--json").records
    assert [record["source"] for record in records] == names
    assert [record.get("up_to_date") for record in records] == [True, None, None, True]
    assert records[1]["error"]["code"] == "E_EMPTY_LANGUAGE"


@pytest.mark.usefixtures("grammar_child")
def test_where_many_go_is_decided_before_anything_is_read(cdec: Runner) -> None:
    Path("sub").mkdir()
    write("a.json", {})
    write("sub/a.json", {})
    for words in (
        ("a.json", "sub/a.json"),
        ("a.json", "sub/a.json", "--out-dir", "out"),
        ("a.json", "-o", "a.arrow", "--out-dir", "out"),
        ("-", "--out-dir", "out"),
    ):
        assert cdec("compile-schema", *words).error_code == "E_USAGE"
    assert not Path("out").exists()


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "integer"}},
                "required": ["city"],
                "additionalProperties": False,
                "$defs": {"city": {"enum": ["Paris", "Rome"]}},
            },
        },
    },
    {"type": "function", "name": "time"},
]


@pytest.mark.usefixtures("grammar_child")
def test_tools_become_one_artifact_of_calls(cdec: Runner) -> None:
    write("tools.json", TOOLS)
    result = cdec("compile-schema", "--tools", "tools.json")
    assert result.status == 0, result.stderr
    texts = (
        '{"name": "weather", "arguments": {"city": "Paris"}}',
        '{"name": "weather", "arguments": {"city": "Oslo"}}',
        '{"name": "time", "arguments": {}}',
        '{"name": "time", "arguments": {"city": "Paris"}}',
        '{"name": "rain", "arguments": {}}',
    )
    assert valid(cdec, "tools.arrow", *texts) == [True, False, True, False, False]
    for tools in ({}, [], [{"type": "retrieval"}], [{"name": ""}], [TOOLS[1], TOOLS[1]]):
        write("tools.json", tools)
        refused = cdec("compile-schema", "tools.json", "--tools", "--force")
        assert (refused.status, refused.error_code) == (65, "E_SCHEMA_INVALID")


@pytest.mark.usefixtures("grammar_child")
def test_inspect_shows_it_and_compiles_it_again(cdec: Runner) -> None:
    write("point.json", POINT)
    assert cdec("compile-schema", "point.json", "--property-order", "declared").status == 0
    shown = cdec("inspect", "point.arrow").stdout.decode()
    assert "a JSON Schema" in shown and "declared order" in shown and "2020-12" in shown
    (described,) = cdec("inspect", "point.arrow", "--json").records
    assert json.loads(described["schema"]) == POINT and described["unenforced"] == []
    assert cdec("inspect", "point.arrow", "--verify").status == 0
    assert '"additionalProperties"' not in cdec("inspect", "point.arrow", "--all").stdout.decode()


@pytest.mark.usefixtures("grammar_child")
def test_a_wrong_tokenizer_is_told_what_to_type(cdec: Runner, tmp_path: Path) -> None:
    from cdec.cli.runs.artifacts import recompiling

    write("point.json", POINT)
    words = ("--lenient", "--whitespace", "compact", "--max-whitespace", "3")
    assert cdec("compile-schema", "point.json", *words).status == 0
    (described,) = cdec("inspect", "point.arrow", "--json").records
    again = recompiling(Path("point.arrow"), described, "gpt2")
    assert again is not None
    for word in (*words, "jq -r .schema", "compile-schema -", "--tokenizer gpt2", "--force"):
        assert word in again
    assert read_artifact(Path("point.arrow")).kind == "schema"


# --- Schemas that records bring, and what samples carry of what masks leave open.

LETTERS = {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}
SAMPLE = ("sample", "--method", "masked", "--raw", "--max-new-tokens", "40")


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_records_bring_schemas_as_objects_or_texts(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "schema": {"enum": ["yes", "no"]}},
        {"id": 1, "prompt": "x", "schema": json.dumps(LETTERS)},
        {"id": 2, "prompt": "x", "regex": "[ab]{2}"},
        {"id": 3, "prompt": "x", "schema": True, "max_tokens": 3},
        {"id": 4, "prompt": "x", "schema": LETTERS},
    )
    result = cdec(*SAMPLE, "--whitespace", "compact", stdin=data)
    found = texts_of(result)
    assert json.loads(found[0]) in ("yes", "no")
    for text in (found[1], found[4]):
        assert set(json.loads(text)) <= {"a", "b"} and " " not in text
    assert all(record["valid"] for record in result.records if record["id"] != 3)


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_a_bad_schema_is_an_error_in_its_place(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "schema": {"type": "nothing"}},
        {"id": 1, "prompt": "x", "schema": "{"},
        {"id": 2, "prompt": "x", "schema": False},
        {"id": 3, "prompt": "x", "schema": {"$ref": "other.json"}},
        {"id": 4, "prompt": "x", "schema": {"const": 1}},
        {"id": 5, "prompt": "x", "schema": []},
    )
    result = cdec(*SAMPLE, stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [
        "E_SCHEMA_INVALID", "E_SCHEMA_JSON", "E_EMPTY_LANGUAGE", "E_SCHEMA_REF", None, "E_FIELD"
    ]  # fmt: skip
    assert "field 'schema'" in result.records[0]["error"]["message"]


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_what_is_left_open_stands_in_every_sample(cdec: Runner) -> None:
    data = jsonl({"prompt": "x", "schema": {"not": {"pattern": "(a)\\1"}, "type": "string"}})
    refused = cdec(*SAMPLE, stdin=data)
    assert refused.status == 3
    assert refused.records[0]["error"]["code"] in ("E_SCHEMA_UNSUPPORTED", "E_REGEX_UNSUPPORTED")
    (record,) = cdec(*SAMPLE, "--lenient", stdin=data).records
    assert [item["keyword"] for item in record["unenforced"]] == ["pattern"]
    assert record["unenforced"][0]["path"] == "/not/pattern"


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_limits_that_were_typed_hold_for_schemas_too() -> None:
    typed = RecordSourceOptions(
        grammars=GrammarLimitOptions(
            grammar_limits=GrammarLimits(max_nesting=7, compile_seconds=2.0)
        )
    )
    limits: Any = record_sources(typed).options["schema"].limits
    usual: Any = record_sources().options["schema"].limits
    assert (limits.max_nesting, limits.compile_seconds) == (7, 2.0)
    assert limits.max_states == usual.max_states and usual.compile_seconds == 60.0
