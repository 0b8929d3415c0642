"""Python types as schemas, with pydantic and without it, and texts as their values."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from annotated_types import Ge, Len, Lt, MultipleOf

from cdec.compilers import compile_schema, grammar_constraint, schema_constraint, typed
from cdec.compilers.schemas.typed.kinds import is_type, schema_of, value_parser
from cdec.compilers.schemas.typed.standard import standard_schema, standard_value
from cdec.core import open_artifact
from cdec.core.constraint import text_verdicts
from cdec.core.errors import DataError, UsageError
from cdec.core.schemas.validity import parser_of
from tests.laws.grammar_cases import byte_vocabulary

pydantic = pytest.importorskip("pydantic")


class Colour(enum.Enum):
    RED = "red"
    TWO = 2
    YES = True


@dataclasses.dataclass
class Node:
    name: str
    size: Annotated[int, Ge(0), Lt(10)] = 3
    below: list[Node] = dataclasses.field(default_factory=list)


class Film(TypedDict):
    title: Annotated[str, Len(1, 5)]
    year: NotRequired[int | None]


CASES: list[tuple[Any, list[tuple[str, Any]], list[str]]] = [
    (bool, [("true", True)], ["1", '"true"', "null"]),
    (int, [("3", 3)], ["3.5", '"3"']),
    (float, [("3", 3.0), ("2.5", 2.5)], ["true", '"2.5"']),
    (None, [("null", None)], ["0"]),
    (Colour, [('"red"', Colour.RED), ("2", Colour.TWO), ("true", Colour.YES)], ["1", '"x"']),
    (Literal["a", 3], [('"a"', "a"), ("3", 3)], ["4", "true"]),
    (int | None, [("null", None), ("1", 1)], ['"1"']),
    (list[int], [("[]", []), ("[1, 2]", [1, 2])], ["[1, null]", "{}"]),
    (Sequence[bool], [("[true]", [True])], ["[1]"]),
    (tuple[int, str], [('[1, "a"]', (1, "a"))], ["[1]", '[1, "a", 2]', '["a", 1]']),
    (tuple[int, ...], [("[1, 2, 3]", (1, 2, 3))], ['["a"]']),
    (set[Literal[1, 2]], [("[2, 1]", {1, 2})], ["[1, 1]", "[3]"]),
    (dict[str, int], [('{"a": 1}', {"a": 1})], ['{"a": "b"}', "[]"]),
    (Mapping[str, Any], [('{"a": [null]}', {"a": [None]})], ["1"]),
    (Annotated[int, MultipleOf(5)], [("15", 15)], ["16"]),
    (Annotated[list[int], Len(2, 2)], [("[1, 2]", [1, 2])], ["[1]"]),
    (datetime.date, [('"2024-02-29"', datetime.date(2024, 2, 29))], ['"2023-02-29"']),
    (
        datetime.datetime,
        [('"2024-02-29T12:30:00.5"', datetime.datetime(2024, 2, 29, 12, 30, 0, 500_000))],
        ['"2024-02-29"', '"2024-02-29T24:00"'],
    ),
    (datetime.time, [('"12:30"', datetime.time(12, 30))], ['"12:30:60"', '"12"']),
    (float, [("1e-5", 1e-5)], ["1e400", "1e-400"]),
    (int, [("-7", -7)], ["1e3", "1.0"]),
    (uuid.UUID, [(f'"{uuid.UUID(int=7)}"', uuid.UUID(int=7))], ['"7"']),
    (
        Node,
        [
            ('{"name": "a"}', Node("a")),
            ('{"name": "a", "size": 0, "below": [{"name": ""}]}', Node("a", 0, [Node("")])),
        ],
        ['{"size": 1}', '{"name": "a", "size": 10}', '{"name": "a", "more": 1}'],
    ),
    (
        Film,
        [
            ('{"title": "M"}', {"title": "M"}),
            ('{"title": "M", "year": null}', {"title": "M", "year": None}),
        ],
        ['{"title": ""}', '{"year": 1}', '{"title": "M", "year": "1931"}'],
    ),
]


@pytest.mark.parametrize(("kind", "members", "others"), CASES)
def test_a_type_has_the_texts_of_its_values(
    kind: Any, members: list[tuple[str, Any]], others: list[str]
) -> None:
    ways = [
        (schema_of(kind), value_parser(kind)),
        (standard_schema(kind), lambda text: standard_value(kind, json.loads(text))),
    ]
    for schema, parse in ways:
        validates = parser_of(json.dumps(schema))
        assert validates is not None
        for text, value in members:
            assert validates(text, 0.0) is True
            assert (parse(text), type(parse(text))) == (value, type(value))
    validates = parser_of(json.dumps(schema_of(kind)))
    assert validates is not None
    assert [validates(text, 0.0) for text in others] == [False] * len(others)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Node, '{"size": 1}'),
        (Node, '{"name": "a", "more": 1}'),
        (int, '"3"'),
        (int | None, "[]"),
        (tuple[int, str], "[1]"),
        (Colour, "3"),
        (Colour, "[]"),
        (datetime.date, '"2023-02-29"'),
    ],
)
def test_what_is_no_value_is_refused_without_pydantic(kind: Any, text: str) -> None:
    with pytest.raises(DataError):
        standard_value(kind, json.loads(text))


def test_models_are_closed_unless_they_say_otherwise() -> None:
    class Plain(pydantic.BaseModel):
        a: int

    class Open(pydantic.BaseModel, extra="allow"):
        a: int

    assert schema_of(Plain)["additionalProperties"] is False
    assert schema_of(Open)["additionalProperties"] is True
    assert value_parser(Plain)('{"a": 1}') == Plain(a=1)
    with pytest.raises(pydantic.ValidationError):
        value_parser(Plain)('{"a": "x"}')


def test_values_within_a_schema_are_left_alone() -> None:
    value = {"type": "object", "properties": 1}

    class Model(pydantic.BaseModel):
        a: dict[str, Any] = pydantic.Field(default=value)

    assert schema_of(Model)["properties"]["a"]["default"] == value


@pytest.mark.parametrize("kind", [complex, object(), dict[int, complex]])
def test_a_type_without_a_schema_is_named(kind: Any) -> None:
    with pytest.raises(UsageError):
        standard_schema(kind)


def test_types_are_told_from_schemas() -> None:
    assert [is_type(source) for source in ("{}", b"{}", True, {"type": "null"})] == [False] * 4
    assert all(is_type(kind) for kind in (Node, Film, int, list[int], int | None, Colour))


def test_samples_texts_are_values_of_the_type(tmp_path: Path) -> None:
    vocabulary = byte_vocabulary()
    constraint = schema_constraint(Node, vocabulary)
    assert constraint.facts.reader('{"name": "a"}') == Node("a")
    assert schema_constraint({"const": [1]}, vocabulary).facts.reader("[1]") == [1]
    path = tmp_path / "node.arrow"
    compile_schema(Node, vocabulary, path)
    opened = open_artifact(path, vocabulary=vocabulary)
    (verdict,) = text_verdicts(opened, [b'{"name": "a", "below": [{"name": "b"}]}'])
    assert verdict["valid"] is True
    assert typed(opened, Node).facts.reader('{"name": "a"}') == Node("a")
    with pytest.raises(UsageError):
        typed(grammar_constraint('start: "a"', vocabulary), Node)
