"""Where a text leaves a schema: in the text, in the schema, and what could have stood there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdec.compilers import schema_constraint
from cdec.core.schemas.levels import json_pointer
from tests.laws.grammar_cases import byte_vocabulary

INVOICE = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
        "note": {"type": ["string", "null"]},
    },
    "required": ["id", "lines"],
    "additionalProperties": False,
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"a/b": {"enum": ["x"]}},
            "required": ["a/b"],
            "additionalProperties": False,
        }
    },
}


A_B = "/$defs/line/properties/a~1b"


def refused(text: str, schema: Any = INVOICE) -> dict[str, Any]:
    constraint = schema_constraint(json.dumps(schema), byte_vocabulary())
    (verdict,) = constraint.verdicts([text.encode()])
    assert not verdict["valid"]
    return verdict


@pytest.mark.parametrize(
    ("text", "json_path", "schema_path", "expected"),
    [
        ("[", "", [""], ["object"]),
        ('{"id": "1"', "/id", ["/properties/id"], ["number"]),
        ('{"id": 1.5', "/id", ["/properties/id"], []),
        ('{"note": 1', "/note", ["/properties/note"], ["null", "string"]),
        ('{"idd": 1', "", [""], ['key "id"', 'key "lines"', 'key "note"']),
        ('{"id": 1, "id": 1', "", [""], ['key "lines"', 'key "note"']),
        ('{"id": 1}', "", [""], ['key "lines"']),
        ('{"lines": []', "/lines", ["/properties/lines"], []),
        ('{"lines": [{"a/b": "x"}, {"a/b": "y"', "/lines/1/a~1b", [A_B], []),
        ('{"lines": [7', "/lines/0", ["/$defs/line", "/properties/lines/items"], ["object"]),
        ('{"lines": [{}', "/lines/0", ["/$defs/line", "/properties/lines/items"], ['key "a/b"']),
    ],
)  # fmt: skip
def test_a_refusal_names_both_places(
    text: str, json_path: str, schema_path: list[str], expected: list[str]
) -> None:
    found = refused(text)
    assert found["json_path"] == json_path
    assert set(found["schema_path"]) & set(schema_path)
    assert found["expected"] == expected


def test_other_keys_and_longer_lists_are_said_in_short() -> None:
    many = {"properties": {f"k{i:02}": {} for i in range(15)}, "required": ["k14"]}
    found = refused('{"\u0001', many | {"type": "object"})
    assert found["expected"][0] == 'key "k14"' and len(found["expected"]) == 12
    assert found["expected"][-2:] == ["5 more keys", "another key"]


@pytest.mark.parametrize(
    ("text", "within", "pointer"),
    [
        ("", True, ""),
        ('{"a": [1, {"b\\"c": ', True, '/a/1/b"c'),
        ('{"a": [1, {"b": 2}, ', True, "/a/2"),
        ('{"a": [1, {"b": 2}', False, "/a"),
        ('{"a": "x", "b', False, ""),
        ('{"a": "x:,]}", "~": "y', True, "/~0"),
    ],
)
def test_the_pointer_of_a_text_that_breaks_off(text: str, within: bool, pointer: str) -> None:
    assert json_pointer(text.encode(), within=within) == pointer
