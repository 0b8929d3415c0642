"""Fields of prompt records: names, ids, JSON, templates."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import (
    CdecError,
    DuplicateIdError,
    EncodingError,
    FieldError,
    InputMissingError,
    JsonError,
    LimitError,
    UsageError,
)
from cdec.core.record_fields import RECORD_FIELDS
from cdec.data.input.source import SourceStats
from cdec.data.prompts.names import OtherFields, near_name
from cdec.data.prompts.read import PromptRecord, read_prompts
from cdec.data.prompts.record import OWN_FIELDS, BadRecord
from cdec.data.prompts.templates import PromptTemplate, read_template
from cdec.data.prompts.texts import read_scored, read_texts

# --- Slips in the names of record fields are refused; data of one's own is not.

SLIPS = {
    "candidate": "candidates",
    "candiates": "candidates",
    "Candidates": "candidates",
    "temprature": "temperature",
    "tempreature": "temperature",
    "maxtokens": "max_tokens",
    "maxTokens": "max_tokens",
    "max-tokens": "max_tokens",
    "max_token": "max_tokens",
    "message": "messages",
    "promt": "prompt",
    "propmt": "prompt",
    "gramar": "grammar",
    "grammer": "grammar",
    "regexp": "regex",
    "shema": "schema",
    "contraint": "constraint",
}
OWN_WORDS = """
    grammars title seeds seed2 name ids ID Id N topic prompts prompt2 prompt_1 _prompt schemas
    scheme constraints constrained raw_tokens bad_tokens max_tokens_used text texts label temp
    temperate context question answer category type lang source query gold reference references
    expected score concepts inflections comment program programs summary index split user role
    content instruction output response meta tags speed send token tokens schéma massage
"""


@pytest.mark.parametrize(("name", "meant"), SLIPS.items())
def test_a_slip_is_refused_with_the_name_that_was_meant(name: str, meant: str) -> None:
    (record,) = _read({"id": 1, "prompt": "x", name: 1})
    assert isinstance(record, BadRecord)
    assert (record.error.code, record.error.details["field"]) == ("E_FIELD", name)
    assert f"did you mean {meant!r}" in str(record.error.hint)


@pytest.mark.parametrize("name", OWN_WORDS.split())
def test_words_in_their_own_right_are_passed_through(name: str) -> None:
    (record,) = _read({"prompt": "x", name: 1})
    assert not isinstance(record, BadRecord)
    assert record.input == {name: 1}


def test_no_field_of_an_output_record_is_a_slip() -> None:
    names = {field.name for field in RECORD_FIELDS} - OWN_FIELDS
    assert {name: near for name in names if (near := near_name(name, OWN_FIELDS))} == {}


def test_no_own_field_is_a_slip_for_another() -> None:
    assert not [name for name in OWN_FIELDS if near_name(name, OWN_FIELDS - {name})]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("json_schema", {"type": "object"}),
        ("response_format", {"type": "json_object"}),
        ("guided_choice", ["a", "b"]),
        ("json", {"properties": {}}),
        ("json", True),
    ],
)
def test_constraints_of_other_programs_name_what_is_read(name: str, value: object) -> None:
    (record,) = _read({"prompt": "x", name: value})
    assert isinstance(record, BadRecord)
    assert record.error.code == "E_FIELD"
    assert "'grammar'" in str(record.error.hint)


@pytest.mark.parametrize("value", [{"name": "Ada"}, "{}", None, [1]])
def test_an_object_called_json_is_data(value: object) -> None:
    (record,) = _read({"prompt": "x", "json": value})
    assert not isinstance(record, BadRecord)
    assert record.input == {"json": value}


@pytest.mark.parametrize("name", ["promt", "stop", "top_k", "json_schema", "candidate"])
def test_what_a_template_or_a_reward_reads_is_no_slip(name: str) -> None:
    template = PromptTemplate.parse(f"Q: {{{name}}}")
    (record,) = _read({name: "x"}, template=template)
    assert not isinstance(record, BadRecord)
    for read in (frozenset({name}), None):
        (record,) = _read({"prompt": "p", name: "x"}, others=OtherFields(read))
        refused = isinstance(record, BadRecord)
        assert refused == (read is None and name in ("top_k", "json_schema"))


def test_strict_fields_refuses_what_no_template_and_no_reward_reads() -> None:
    others = OtherFields(frozenset({"concepts"}), strict_fields=True)
    template = PromptTemplate.parse("{topic}")
    fields = {"topic": "x", "concepts": ["a"], "n": 2}
    (good,) = _read(fields, template=template, others=others)
    (bad,) = _read(fields | {"gold": 1}, template=template, others=others)
    assert not isinstance(good, BadRecord)
    assert isinstance(bad, BadRecord)
    assert (bad.error.code, bad.error.details["field"]) == ("E_FIELD", "gold")


def test_fields_that_nothing_reads_are_told_once() -> None:
    stats, others = SourceStats(), OtherFields(passed_on=False)
    lines = [{"prompt": "x", "gold": 1, "topic": 2}, {"prompt": "y", "gold": 3}]
    assert len(_read(*lines, stats=stats, others=others)) == 2
    (notice,) = stats.notices
    assert notice.code == "W_UNREAD_FIELDS"
    assert "'gold', 'topic'" in notice.message
    stats, many = SourceStats(), {f"field_{letter}": 1 for letter in "abcdefghijklmnopqrs"}
    _read({"prompt": "x", **many}, stats=stats, others=OtherFields(passed_on=False))
    assert "and more" in stats.notices[0].message


def test_fields_that_are_passed_on_are_not_told() -> None:
    stats = SourceStats()
    _read({"prompt": "x", "gold": 1}, stats=stats, others=OtherFields())
    assert stats.notices == []


@pytest.mark.parametrize("name", ["promt", "message", "token_id"])
def test_scored_records_are_looked_at_as_well(name: str) -> None:
    line = json.dumps({"text": "x", name: "y"}).encode()
    (record,) = read_scored(io.BytesIO(line))
    assert isinstance(record, BadRecord) and record.error.code == "E_FIELD"


def test_samples_are_scored_and_rewritten_whatever_fields_they_have() -> None:
    line = json.dumps({"text": "x"} | {f.name: None for f in RECORD_FIELDS if f.name != "text"})
    for records in (read_scored(io.BytesIO(line.encode())), read_texts(io.BytesIO(line.encode()))):
        (record,) = records
        assert not isinstance(record, BadRecord)


def test_a_slip_in_a_text_record_is_refused() -> None:
    (record,) = read_texts(io.BytesIO(b'{"text": "x", "promt": "y"}'))
    assert isinstance(record, BadRecord) and record.error.code == "E_FIELD"


def _read(*records: dict[str, object], **options: object) -> list[object]:
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    try:
        return list(read_prompts(io.BytesIO(data), **options))  # type: ignore[arg-type]
    except CdecError as error:
        raise AssertionError from error


# --- Prompts in JSON: .json holds an array of records or texts, .jsonl one a line, texts in
# quotes.

RECORDS: list[Any] = [{"id": 0, "prompt": "one"}, "two", {"prompt": "three", "gold": ["x"]}, "two"]


def read(path: Path, **options: Any) -> list[Any]:
    return list(read_prompts(path, **options))


def told(path: Path, **options: Any) -> list[tuple[Any, Any]]:
    return [
        (each.id, each.error.message if isinstance(each, BadRecord) else each.prompt)
        for each in read(path, **options)
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_has_the_records_of_its_lines(tmp_path: Path, indent: int | None) -> None:
    array, lines, packed = tmp_path / "p.json", tmp_path / "p.jsonl", tmp_path / "q.json.gz"
    array.write_text(json.dumps(RECORDS, indent=indent))
    packed.write_bytes(gzip.compress(array.read_bytes()))
    lines.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    expected = told(lines)
    assert [prompt for _, prompt in expected] == ["one", "two", "three", "two"]
    assert told(array) == told(packed) == expected
    other = array.rename(tmp_path / "p.txt")
    assert told(other, format="json") == expected


def test_lines_of_records_named_json_are_records(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"id": 1, "prompt": "one"}\n{"id": 2, "prompt": "two"}\n')
    assert told(path) == [(1, "one"), (2, "two")]


def test_what_is_no_record_and_no_text_is_an_error_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('["one", 2, ["three"], {"prompt": NaN}, {"id": "d", "prompt": 5}, "six"]')
    found = told(path)
    assert [text for _, text in found][::5] == ["one", "six"]
    assert "p.json, record 2 is 2, a record or a quoted text was expected" in found[1][1]
    assert "record 3 is an array" in found[2][1]
    assert "record 4 is not valid JSON" in found[3][1]
    assert "record 5: field 'prompt' is 5" in found[4][1]


def test_text_lines_named_json_are_refused_with_the_way_to_read_them(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("What is it?\nWhat else?\n")
    with pytest.raises(JsonError) as caught:
        read(path)
    assert "`input_format` lines" in str(caught.value.hint)
    assert [text for _, text in told(path, format="lines")] == ["What is it?", "What else?"]


def test_text_lines_named_jsonl_are_errors_in_their_places(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('"one"\nWhat is it?\n{"prompt": "three"}\n[1]\n')
    found = read(path)
    assert [each.prompt for each in found[::2]] == ["one", "three"]
    assert all("`input_format` lines" in each.error.hint for each in (found[1],))
    assert "line 4 is an array" in found[3].error.message
    assert [text for _, text in told(path, format="lines")][:2] == ['"one"', "What is it?"]


def test_two_records_of_one_id_in_an_array_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('[{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}]')
    with pytest.raises(DuplicateIdError, match=r"record 2 has the id 1 of record 1"):
        read(path)


def test_lines_that_look_like_an_array_are_told_of(tmp_path: Path) -> None:
    path, stats = tmp_path / "p.txt", SourceStats()
    path.write_text('[{"id": 1, "prompt": "a"}]\n')
    assert len(read(path, stats=stats)) == 1
    assert [notice.code for notice in stats.notices] == ["W_LOOKS_LIKE_JSON"]


# --- Ids of prompt records: stable for the same content, duplicates found as early as possible.


def read_ids(data: bytes | str, **options: Any) -> list[PromptRecord | BadRecord]:
    data = data.encode() if isinstance(data, str) else data
    return list(read_prompts(io.BytesIO(data), **options))


def test_id_of_a_record_without_one_is_its_contents_hash() -> None:
    first, second, third = read_ids('{"prompt": "a", "n": 2}\n{ "n":2,"prompt":"a"}\na\n')
    assert isinstance(first.id, str)
    assert len(first.id) == 16
    assert int(first.id, 16) >= 0
    assert second.id == f"{first.id}-1"
    assert third.id != first.id


def test_distinct_records_have_the_same_ids_in_pieces_of_a_file() -> None:
    lines = [json.dumps({"prompt": f"prompt {i}"}) for i in range(50)] + ["text", "{bad"]
    whole = [record.id for record in read_ids("\n".join(lines))]
    assert whole == [read_ids(line)[0].id for line in lines]
    assert len(set(whole)) == len(lines)


def test_many_repeats_of_one_record_are_numbered_in_linear_time() -> None:
    records = read_ids("a\n" * 20_000)
    assert len({record.id for record in records}) == 20_000
    assert str(records[-1].id).endswith("-19999")


DUPLICATE = b'{"id":1,"prompt":"a"}\n{"id":"1","prompt":"c"}\n{"id":1,"prompt":"b"}\n'


def test_duplicate_id_in_a_file_is_found_before_the_first_record(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(DUPLICATE)
    with pytest.raises(DuplicateIdError) as caught:
        next(read_prompts(path))
    assert caught.value.details == {"line": 3, "id": 1}
    assert caught.value.exit_status == 65


def test_duplicate_id_on_stdin_from_a_file_is_found_before_the_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(DUPLICATE)
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(DuplicateIdError):
            next(read_prompts("-"))
    path.write_bytes(DUPLICATE.replace(b'1,"prompt":"b"', b'2,"prompt":"b"'))
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert [record.id for record in read_prompts("-")] == [1, "1", 2]


def test_duplicate_id_in_a_pipe_is_found_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_bytes, args=(DUPLICATE,))
    feeder.start()
    records = read_prompts(path)
    assert [next(records).id, next(records).id] == [1, "1"]
    with pytest.raises(DuplicateIdError):
        next(records)
    feeder.join()


def test_a_record_of_a_pipe_comes_before_the_next_line_is_written(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as sink:
        records = read_prompts(stream)
        sink.write(b"first prompt\n")
        first = next(records)
        assert isinstance(first, PromptRecord)
        assert first.prompt == "first prompt"


# --- Prompt templates: literal fields, literal braces, nothing that could be a program.


def filled(template: str, **fields: object) -> str:
    return PromptTemplate.parse(template).fill(fields, 1)


def test_places_are_filled_and_doubled_braces_are_braces() -> None:
    assert filled('{{"q": "{q}"}} {q}{a}', q="x", a="y") == '{"q": "x"} xy'
    assert PromptTemplate.parse("{b} {a} {b}").fields == ("b", "a", "b")


def test_values_go_in_as_text_and_are_never_read_again() -> None:
    assert filled("<{q}>", q="{a} {{ }} %s $a {q.__class__}") == "<{a} {{ }} %s $a {q.__class__}>"
    assert filled("{a} {b} {c}", a=3, b=[1, "é"], c={"k": None}) == '3 [1,"é"] {"k":null}'
    assert filled("{empty}|", empty="") == "|"


@settings(max_examples=200, deadline=None)
@given(st.text("ab{}\n", max_size=12), st.text("xy{}", max_size=5))
def test_escaping_gives_any_text_back(text: str, value: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert filled(escaped) == text
    assert filled(escaped + "{v}", v=value) == text + value


def test_field_names_are_literal() -> None:
    template = PromptTemplate.parse("{first name} {a.b} {größe} {x-y}")
    fields = {"first name": "1", "a.b": "2", "größe": "3", "x-y": "4", "a": {"b": "no"}}
    assert template.fill(fields, 1) == "1 2 3 4"


@pytest.mark.parametrize("text", ["{", "a}", "{}", "{0}", "{a!r}", "{a[0]}", "{a:>3}", '{"a": 1}'])
def test_braces_that_are_no_place_are_refused_with_their_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        PromptTemplate.parse("fine {q}\n" + text, "t.txt")
    assert caught.value.details["line"] == 2
    assert "t.txt, line 2" in caught.value.message


@pytest.mark.parametrize(("fields", "found"), [({"a": 1}, "missing"), ({"q": None}, "null")])
def test_missing_or_null_field_is_named_with_the_records_line(
    fields: dict[str, object], found: str
) -> None:
    with pytest.raises(FieldError, match=found) as caught:
        PromptTemplate.parse("{q}").fill(fields, 12)
    assert caught.value.details == {"line": 12, "field": "q"}


def test_file_loses_one_final_newline_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbfQ: {q}\r\nA:\r\n")
    assert read_template(path).fill({"q": "x"}, 1) == "Q: x\nA:"
    path.write_bytes(b"{q}\n\n")
    assert read_template(path).fill({"q": "x"}, 1) == "x\n"


def test_file_that_cannot_be_a_template_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    with pytest.raises(InputMissingError):
        read_template(path)
    path.write_bytes(b"a\nb\xff")
    with pytest.raises(EncodingError) as caught:
        read_template(path)
    assert caught.value.details == {"line": 2, "byte_offset": 4}
    with pytest.raises(LimitError):
        read_template("/dev/zero")
