"""Schemas of numbers against exact fractions, whatever way the numbers are spelled."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.constraint import text_verdicts
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.schemas.schema_constraint import SchemaConstraint
from tests.compilers.schemas.random_schemas import BYTES
from tests.laws.sizes import heavy_or

BOUNDS = [
    "0",
    "1",
    "-1",
    "0.5",
    "10",
    "-3",
    "99.99",
    "1e16",
    "1e20",
    "-0.001",
    "100",
    "1e-7",
    "65535",
]
STEPS = ["1", "2", "3", "0.5", "0.01", "10", "2.5", "7", "60", "1000", "0.25"]
NORMALISED = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?|-?(0(\.0+)?|[1-9](\.\d{1,17})?)[eE][+-]?\d{1,5}")
"""What is written wherever a number is, with no more digits than are written here."""


def random_schema(rng: random.Random) -> dict[str, str]:
    """Return keywords and their values as JSON."""
    made = {
        keyword: rng.choice(BOUNDS)
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        if rng.random() < 0.3
    }
    if rng.random() < 0.4:
        made["multipleOf"] = rng.choice(STEPS)
    return made | {"type": rng.choice(['"integer"', '"number"'])}


def random_number(rng: random.Random, schema: dict[str, str]) -> str:
    """Return a number near one of a schema, or anywhere, in any of JSON's spellings."""
    near = Fraction(rng.choice([v for v in schema.values() if v[0] != '"'] or ["1"]))
    value = near * rng.choice([1, 1, 3, 10, 25, 1000]) + rng.choice([0, 0, 1, Fraction(1, 100)])
    if rng.random() < 0.3:
        value = Fraction(rng.randrange(-500, 5000)) * Fraction(10) ** rng.randrange(-6, 24)
    digits = 0
    while (value * 10**digits).denominator > 1:
        digits += 1
    figures, sign = str(abs(int(value * 10**digits))), "-" * (value < 0)
    power = rng.choice([len(figures) - 1 - digits, -digits, 0, rng.randrange(-5, 8), 320, -330])
    if power in (320, -330):
        return f"{sign}{rng.randrange(1, 99) / 10}e{power}"
    if power == 0 and rng.random() < 0.9:
        return sign + _pointed(figures, digits) + rng.choice(["", "", ".0"]) * (digits == 0)
    zeros = "0" * rng.randrange(3)
    body = _pointed(figures + zeros, digits + power + len(zeros))
    letter = rng.choice("eE") + ("-" if power < 0 else rng.choice(["", "+"]))
    return f"{sign}{body}{letter}{rng.choice(['', '', '0', '00'])}{abs(power)}"


def _pointed(figures: str, places: int) -> str:
    if places <= 0:
        return (figures + "0" * -places).lstrip("0") or "0"
    padded = figures.rjust(places + 1, "0")
    return f"{padded[:-places].lstrip('0') or '0'}.{padded[-places:]}"


def is_instance(schema: dict[str, str], value: Fraction) -> bool:
    """Say whether a number satisfies the keywords, exactly."""
    holds = {
        "minimum": lambda bound: value >= bound,
        "maximum": lambda bound: value <= bound,
        "exclusiveMinimum": lambda bound: value > bound,
        "exclusiveMaximum": lambda bound: value < bound,
        "multipleOf": lambda step: (value / step).denominator == 1,
    }
    is_typed = schema["type"] == '"number"' or value.denominator == 1
    bounds = [key for key in schema if key != "type"]
    return is_typed and all(holds[key](Fraction(schema[key])) for key in bounds)


@cache
def compiled(schema: str) -> SchemaConstraint | None:
    """Return the constraint of a schema, None where it has no value."""
    try:
        return schema_constraint(schema, BYTES, SchemaOptions(whitespace="compact"))
    except EmptyLanguageError:
        return None


def verdicts(schema: dict[str, str], texts: list[str]) -> list[dict[str, Any]]:
    """Return what a schema's constraint says of texts."""
    made = compiled("{" + ", ".join(f'"{key}": {value}' for key, value in schema.items()) + "}")
    if made is None:
        return [{"valid": False} for _ in texts]
    return list(text_verdicts(made, [text.encode() for text in texts]))


@pytest.mark.parametrize("seed", range(heavy_or(40, 400)))
def test_numbers_are_valid_where_exact_fractions_say_so(seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    texts = [random_number(rng, schema) for _ in range(30)]
    for text, said in zip(texts, verdicts(schema, texts), strict=True):
        json.loads(text)
        value = Fraction(text)
        held = value == 0 or 0 < abs(float(text)) < float("inf")
        expected = held and is_instance(schema, value)
        assert said["valid"] is expected, (schema, text, said)
        if expected and NORMALISED.fullmatch(text):
            assert "written" not in said, (schema, text)
        if "written" in said:
            written = said["reason"].split("; ")[1].split()[0]
            assert Fraction(written) == value and verdicts(schema, [written])[0]["valid"]


@pytest.mark.parametrize(
    ("schema", "texts", "expected"),
    [
        ({"type": '"integer"'}, ["1e5", "2.5e1", "2.55e1", "-1E+05"], [True, True, False, True]),
        ({"minimum": "0"}, ["1e5", "2.5e-3", "1e-4", "-1e-4"], [True, True, True, False]),
        ({"multipleOf": "0.01"}, ["1e-2", "2.5e-1", "2.5e-3", "1.0E0"], [True, True, False, True]),
        ({"enum": "[100000, 0.5]"}, ["1e5", "5e-1", "1.00e5", "1e4"], [True, True, True, False]),
        ({"not": '{"minimum": 5}'}, ["4e0", "5e0", "1e1", "4.9e-1"], [True, False, False, True]),
    ],
)
def test_scientific_spellings_are_written_wherever_numbers_are(
    schema: dict[str, str], texts: list[str], expected: list[bool]
) -> None:
    said = verdicts(schema, texts)
    assert [one["valid"] for one in said] == expected
    assert not any("written" in one for one in said)
