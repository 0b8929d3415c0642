"""Slips in the names of record fields are refused; data of one's own is not."""

from __future__ import annotations

import io
import json

import pytest

from cdec.core.errors import CdecError
from cdec.core.record_fields import RECORD_FIELDS
from cdec.data.input.source import SourceStats
from cdec.data.prompts.names import OtherFields, near_name
from cdec.data.prompts.read import read_prompts
from cdec.data.prompts.record import OWN_FIELDS, BadRecord
from cdec.data.prompts.score_records import read_scored
from cdec.data.prompts.templates import PromptTemplate
from cdec.data.prompts.text_records import read_texts

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


@pytest.mark.parametrize("name", ["promt", "stop", "json_schema", "candidate"])
def test_what_a_template_or_a_reward_reads_is_no_slip(name: str) -> None:
    template = PromptTemplate.parse(f"Q: {{{name}}}")
    (record,) = _read({name: "x"}, template=template)
    assert not isinstance(record, BadRecord)
    for read in (frozenset({name}), None):
        (record,) = _read({"prompt": "p", name: "x"}, others=OtherFields(read))
        refused = isinstance(record, BadRecord)
        assert refused == (read is None and name in ("stop", "json_schema"))


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
