"""Numbers that masks would write otherwise, and texts that cannot be read: verdicts agree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.schemas.schema_constraint import SchemaConstraint
from tests.compilers.schemas.test_compile_schema import BYTES

BOUNDED = {"type": "number", "minimum": 0}
DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


def constraint_of(schema: Any, **options: Any) -> SchemaConstraint:
    return schema_constraint(json.dumps(schema), BYTES, SchemaOptions(**options))


def verdict_of(schema: Any, text: str, **options: Any) -> dict[str, Any]:
    made = constraint_of(schema, **options)
    (said,) = made.verdicts([text.encode()])
    assert said["valid"] is made.accepts(text.encode())
    return said


@pytest.mark.parametrize(
    ("schema", "text", "given", "written", "byte"),
    [
        (BOUNDED, "25e-4", "25e-4", "2.5e-3", 2),
        (BOUNDED, "25e-4 ", "25e-4", "2.5e-3", 2),
        (BOUNDED, "0.1e1", "0.1e1", "1e0", 3),
        (BOUNDED, "1" + "0" * 80, "1" + "0" * 80, "1e80", 64),
        ({"type": "number"}, "100e300", "100e300", "1e302", 6),
        ({"type": "integer"}, "100e1", "100e1", "1e3", 3),
        ({"type": "integer"}, "1e0000001", "1e0000001", "1e1", 7),
        ({"items": BOUNDED}, "[1, 25e-4, 10e1]", "25e-4", "2.5e-3", 6),
        ({"properties": {"a": {"multipleOf": 0.5}}}, '{"a":15e-1}', "15e-1", "1.5e0", 7),
    ],
)
def test_a_number_that_is_spelled_otherwise_is_valid_and_not_written(
    schema: Any, text: str, given: str, written: str, byte: int
) -> None:
    said = verdict_of(schema, text)
    assert (said["valid"], said["written"], said["byte"]) == (True, False, byte)
    assert said["reason"] == (
        f"{given} is a spelling of this number that is not written here; {written} is"
    )
    assert verdict_of(schema, text.replace(given, written).replace("10e1", "1e2"))["valid"]


@pytest.mark.parametrize(
    ("schema", "text", "byte"),
    [
        (BOUNDED, "-25e-4", 1),
        (BOUNDED, "2.5x", 3),
        (BOUNDED, '"25e-4"', 0),
        ({"type": "integer"}, "25e-1", 2),
        ({"items": BOUNDED}, "[25e-4, -1]", 9),
        ({"items": BOUNDED}, "[25e-4, 10e1", 10),
        ({"items": BOUNDED}, '[25e-4,\n 100e1,"a"]', 15),
        ({"const": "25e-3"}, '"25e-4"', 5),
        ({"pattern": "^2\\.5e-3$"}, '"25e-4"', 2),
        ({"const": "1e999"}, '"1e400"', 3),
        (DRAFT4 | {"type": "integer"}, "1.0", 1),
    ],
)
def test_what_else_is_the_matter_is_said_where_it_stands(schema: Any, text: str, byte: int) -> None:
    said = verdict_of(schema, text)
    assert (said["valid"], said["byte"]) == (False, byte)
    assert "written" not in said and "reason" not in said


@pytest.mark.parametrize(
    ("schema", "text", "is_instance"),
    [
        ({}, "1e400", True),
        ({}, "-1e-400", True),
        ({"type": "number"}, "1E-400", True),
        ({"type": "integer"}, "3E81111", True),
        ({"type": "integer"}, "3E-81111", False),
        ({"minimum": -9e99}, "1e0309", True),
        ({"minimum": -9e99}, "-1.0e309", False),
        ({"not": {"multipleOf": 3}}, "1e400", True),
        ({"enum": [1e300, "a"]}, "1e400", False),
    ],
)
def test_numbers_that_doubles_cannot_hold_are_out_unless_asked_for(
    schema: Any, text: str, is_instance: bool
) -> None:
    said = verdict_of(schema, text)
    assert not said["valid"]
    assert said["reason"] == f"{text} is no number that doubles can hold"
    free = verdict_of(schema, text, numbers="any")
    assert (free["valid"], "reason" in free) == (is_instance, False)


@pytest.mark.parametrize("text", ["1.7976931348623157e308", "5e-324", "-0.0e-999", "1e0308"])
def test_numbers_that_doubles_can_hold_are_in(text: str) -> None:
    assert verdict_of({"type": "number"}, text)["valid"]
    assert verdict_of({"minimum": -1e308, "type": "number"}, text)["valid"]


@pytest.mark.parametrize("schema", ['{"minimum": 1e309}', '{"const": 1e400}'])
def test_a_schema_of_numbers_beyond_doubles_has_no_text(schema: str) -> None:
    only = json.dumps({"type": "number"})[:-1] + ", " + schema[1:]
    with pytest.raises(EmptyLanguageError, match="no JSON value"):
        schema_constraint(only, BYTES)
    assert schema_constraint(only, BYTES, SchemaOptions(numbers="any")).accepts(b"1e400")


def test_texts_that_their_reader_refuses_are_not_valid() -> None:
    def refuses(text: str) -> Any:
        value = json.loads(text)
        if value == 3:
            raise TypeError("no three")
        return value

    made = constraint_of({"type": "integer"})
    assert made.accepts(b"3") and made.accepts(b"4")
    typed = made.read_by(refuses)
    assert (typed.accepts(b"3"), typed.accepts(b"4"), typed.accepts(b"x")) == (False, True, False)


def test_artifacts_from_before_there_was_the_option_hold_any_number() -> None:
    made = constraint_of({"type": "number"}, numbers="any")
    options = json.loads(made.metadata["cdec.options"])
    assert options.pop("numbers") == "any"
    metadata = dict(made.metadata) | {"cdec.options": json.dumps(options)}
    older = SchemaConstraint(made.arrays, made.vocabulary, metadata)
    (said,) = older.verdicts([b"1e400"])
    assert said["valid"] and older.accepts(b"1e400")
