"""Whether a text is an instance: exact numbers, formats, drafts, no network, in a process."""

from __future__ import annotations

import json
import socket

import pytest

from cdec.core.child.judge import Judge, TextChecker
from cdec.core.schemas.validity.formats import FORMATS
from cdec.core.schemas.validity.instances import is_multiple, read_json
from cdec.core.schemas.validity.reader import parser_of, schema_language, stored_language
from tests.benchmarks.files import read_jsonl
from tests.conftest import shared_folder


def verdict(schema: object, text: str, formats: str = "enforce") -> bool | None:
    parse = parser_of(schema if isinstance(schema, str) else json.dumps(schema), formats)
    assert parse is not None
    return parse(text, 0.0)


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ('{"multipleOf": 0.01}', "19.99", True),
        ('{"multipleOf": 0.01}', "19.999", False),
        ('{"multipleOf": 0.1}', "0.3", True),
        ('{"multipleOf": 1e-8}', "12391239123", True),
        ('{"multipleOf": 3}', "1e100", False),
        ('{"multipleOf": 3}', "3e100", True),
        ('{"multipleOf": 5}', "1e999999999999", True),
        ('{"multipleOf": 3}', "-0.0", True),
        ('{"maximum": 9007199254740992}', "9007199254740993", False),
        ('{"const": 0.1}', "0.1000000000000000000001", False),
        ('{"const": 0.1}', "1e-1", True),
        ('{"type": "integer"}', "1.0", True),
        ('{"type": "integer"}', "1.5e1", True),
        ('{"type": "integer"}', "1e-1", False),
        ('{"type": "integer"}', "1e99999999999999999999", True),
        ('{"type": "integer"}', "9" * 5000, True),
        ('{"type": "integer"}', "true", False),
        ('{"enum": [1]}', "true", False),
        ('{"uniqueItems": true}', "[1, 1.0]", False),
        ('{"uniqueItems": true}', "[1, true]", True),
    ],
)
def test_numbers_are_exact(schema: str, text: str, expected: bool) -> None:
    assert verdict(schema, text) is expected


@pytest.mark.parametrize(
    "text", ["NaN", "-Infinity", '"\t"', "[1,]", "01", "", '"\\ud800"', '{"\\udc00": 1}', "1 1"]
)
def test_what_is_no_json_is_no_instance(text: str) -> None:
    assert verdict({}, text) is False


def test_escaped_pairs_are_one_character() -> None:
    assert verdict({"maxLength": 1}, '"\\ud83d\\ude00"') is True


def test_names_that_stand_twice_count_once() -> None:
    assert read_json('{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, "1.0", False),
        ({"minimum": 3, "exclusiveMinimum": True}, "3", False),
        ({"items": [{"type": "null"}], "additionalItems": False}, "[null, 1]", False),
        ({"dependencies": {"a": ["b"]}}, '{"a": 1}', False),
        ({"dependentRequired": {"a": ["b"]}}, '{"a": 1}', False),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/x",
                "x": {},
                "not": {},
            },
            "1",
            True,
        ),
        ({"prefixItems": [{"type": "null"}], "items": False}, "[null]", True),
        (True, "[]", True),
        (False, "[]", False),
    ],
)
def test_a_schema_means_what_its_draft_says(schema: object, text: str, expected: bool) -> None:
    assert verdict(schema, text) is expected


def test_formats_are_checked_unless_they_are_annotations() -> None:
    assert verdict({"format": "ipv4"}, '"1.2.3.256"') is False
    assert verdict({"format": "ipv4"}, '"1.2.3.256"', "annotate") is True
    assert verdict({"format": "nowhere"}, '"x"') is True


def test_no_other_document_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert verdict({"$ref": "http://127.0.0.1:9/x.json"}, "1") is None
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert verdict(meta, '{"type": "text"}') is False


@pytest.mark.parametrize("source", ["{", "3", '{"type": "text"}', '{"$schema": 3, "type": 3}'])
def test_what_is_no_schema_has_no_parser(source: str) -> None:
    assert parser_of(source) is None


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$ref": "#/nowhere"}, {"pattern": "\\p{L}"}])
def test_what_the_package_cannot_decide_is_unknown(schema: object) -> None:
    assert verdict(schema, '"x"') is None


@pytest.mark.parametrize(
    ("value", "of", "expected"),
    [("0", "0.5", True), ("0.25", "0.5", False), ("-2.5", "0.5", True), ("1e3", "1e5", False)],
)
def test_multiples_of_decimals(value: str, of: str, expected: bool) -> None:
    assert is_multiple(read_json(value), read_json(of)) is expected


def test_the_official_cases_of_formats_are_judged_as_they_say() -> None:
    path = shared_folder() / "data/json_schema_test_suite/cases.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"no shared data at {shared_folder()}")
    seen = 0
    for case in read_jsonl(path):
        room, _, name = case["file"].rpartition("/")
        if room != "optional/format" or name not in FORMATS or name in ("hostname", "regex"):
            continue
        for test in case["tests"]:
            if isinstance(test["data"], str):
                seen += 1
                assert FORMATS[name](test["data"]) is test["valid"], (name, test)
    assert seen > 600


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-b.example", True),
        ("-a", False),
        ("a" * 64, False),
        ("a.", False),
        ("xn--ihqwcrb4cv8a8dqg056pqjye", True),
        ("ab--c", False),
    ],
)
def test_hosts(text: str, expected: bool) -> None:
    assert FORMATS["hostname"](text) is expected


def test_the_process_judges_instances_under_limits() -> None:
    judge = Judge()
    try:
        metadata = {"cdec.schema": '{"type": "string"}', "cdec.options": '{"formats": "enforce"}'}
        check = TextChecker(stored_language(metadata), judge=judge)
        assert [check(text) for text in (b'"a"', b"1", b"\xff")] == [True, False, False]
        slow = TextChecker(schema_language('{"pattern": "^(a|a)*$"}'), seconds=0.3, judge=judge)
        assert slow(b'"%sb"' % (b"a" * 60)) is None
        assert "0.3 seconds" in judge.take_notices()[0].message
        assert check(b'"b"') is True
        deep = b"[" * 500 + b"]" * 500
        nested = '{"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}'
        assert TextChecker(schema_language(nested), judge=judge)(deep) is True
        assert judge.take_notices() == []
    finally:
        judge.close()
