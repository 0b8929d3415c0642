"""Constraints by their source in Python: made for the model that draws, values of their texts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import pytest

import cdec
from cdec.compilers import one_line
from cdec.core.constraint import Constraint
from cdec.core.constraint_source import ConstraintSource
from cdec.core.errors import EncodingError, InputMissingError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sets.spans import SpanConstraint, SpanOptions
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.set_cases import set_of

PUBLIC: Any = cdec
"""As it is at run time."""
LETTERS = Vocabulary([b"a", b"b", b"1", b'"', b"{", b"}", b":", b""], [7], [7])


@pytest.fixture
def model() -> TabularModel:
    return TabularModel(lambda prefix: [1 / 8] * 8, LETTERS)


def drawn(model: Any, source: Any, **options: Any) -> list[Any]:
    """Return the samples of one prompt, as dicts."""
    found = PUBLIC.sample(model, source, "x", "exact", n=3, max_new_tokens=8, **options)
    return [each.to_json() for each in found]


@pytest.mark.parametrize(
    ("source", "made"),
    [
        (one_line.regex("a|b1"), lambda v: PUBLIC.regex_constraint("a|b1", v)),
        (one_line.grammar('start: "a" | "b"'), lambda v: PUBLIC.grammar_constraint(
            'start: "a" | "b"', v)),
        (one_line.grammar('root: "a"', start="root"), lambda v: PUBLIC.grammar_constraint(
            'root: "a"', v, start="root")),
        (one_line.schema({"enum": ["a", 1]}), lambda v: PUBLIC.schema_constraint(
            {"enum": ["a", 1]}, v)),
        (one_line.spans("a 1ab", whole="words"), lambda v: SpanConstraint(
            "a 1ab", v, SpanOptions("words"))),
        (one_line.spans(["a 1ab", "b"], longest=1), lambda v: PUBLIC.corpus_constraint(
            ["a 1ab", "b"], v, longest=1)),
        (one_line.schema('{"const": "b"}'), lambda v: PUBLIC.schema_constraint(
            {"const": "b"}, v)),
    ],
)  # fmt: skip
def test_draws_are_those_of_the_constraint(model: TabularModel, source: Any, made: Any) -> None:
    constraint = made(model.vocabulary)
    assert drawn(model, source) == drawn(model, constraint)
    assert drawn(model, source, temperature=0.5) == drawn(model, constraint, temperature=0.5)
    for method in ("masked", "greedy", "disc", "topn"):
        one, other = (
            PUBLIC.sample(model, each, ["x", "y"], method, max_new_tokens=8)
            for each in (source, constraint)
        )
        assert [s.to_json() for each in one for s in each] == [
            s.to_json() for each in other for s in each
        ]


def test_choices_are_a_set(embedded_model: Any) -> None:
    source = one_line.choices(each for each in ("red", "green", "red"))
    constraint = PUBLIC.set_constraint(["red", "green", "red"], embedded_model.vocabulary)
    for method in ("masked", "exact", "topn"):
        one, other = (
            PUBLIC.sample(embedded_model, each, "Grass is", method, n=2)
            for each in (source, constraint)
        )
        assert [s.to_json() for s in one] == [s.to_json() for s in other]
        assert one[0].value() == one[0].text in ("red", "green")
    found = PUBLIC.classify(embedded_model, source, "The colour of grass is")
    assert {label.text for label in found.labels} == {"red", "green"}
    ids = one_line.choices([{"id": "R", "text": "red"}], suffix="!")
    assert PUBLIC.sample(embedded_model, ids, "x")[0].entity_ids == ["R"]


def test_a_source_is_made_once_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    source = one_line.regex("a+")
    letters, others = LETTERS, byte_vocabulary()
    first = source.of(letters)
    assert isinstance(first, Constraint) and source.of(letters) is first
    assert source.of(others) is not first
    assert source.of(others).vocabulary is others and source.of(letters) is first
    model = TabularModel(lambda prefix: [1 / 8] * 8, letters)
    assert PUBLIC.sample(model, [source, None, source], ["x", "y", "z"], "unconstrained")


def test_each_prompt_may_have_a_source_of_its_own(model: TabularModel) -> None:
    given = [one_line.regex("a"), PUBLIC.regex_constraint("b", LETTERS), one_line.regex("1")]
    found = PUBLIC.sample(model, given, ["x", "y", "z"], "masked")
    assert [each[0].text for each in found] == ["a", "b", "1"]


@dataclasses.dataclass
class City:
    name: Literal["a", "b"]


class Town(TypedDict):
    a: Literal[1]


def test_values_are_of_the_type(model: TabularModel) -> None:
    vocabulary = byte_vocabulary()
    width = vocabulary.width
    options = PUBLIC.SchemaOptions(whitespace="compact")
    bytewise = TabularModel(lambda prefix: np.full(width, 1 / width), vocabulary)
    (city,) = PUBLIC.sample(bytewise, one_line.schema(City, options), "x", "greedy")
    assert isinstance(city.value(), City) and city.value() == city.parsed
    (town,) = PUBLIC.sample(bytewise, one_line.schema(Town, options), "x", "greedy")
    assert town.value() == {"a": 1}
    (number,) = PUBLIC.sample(model, one_line.schema({"const": 1}), "x", "greedy")
    assert number.value() == 1
    pydantic = pytest.importorskip("pydantic")
    kind = pydantic.create_model("Place", name=(Literal["b"], ...))
    (place,) = PUBLIC.sample(bytewise, one_line.schema(kind, options), "x", "greedy")
    assert isinstance(place.value(), kind) and place.value().name == "b"


def test_a_text_without_end_has_no_value(model: TabularModel) -> None:
    (cut,) = PUBLIC.sample(model, one_line.regex("aaaa"), "x", "masked", max_new_tokens=2)
    with pytest.raises(UsageError, match="not finished: length"):
        cut.value()


def test_files_are_named_by_paths(tmp_path: Path, model: TabularModel) -> None:
    (tmp_path / "g.lark").write_text('start: "a"')
    (tmp_path / "g.gbnf").write_text('root ::= "b"')
    (tmp_path / "s.json").write_text("\ufeff" + '{"const": 1}')
    found = [
        PUBLIC.sample(model, source, "x", "greedy")[0].text
        for source in (
            one_line.grammar(tmp_path / "g.lark"),
            one_line.grammar(tmp_path / "g.gbnf"),
            one_line.schema(tmp_path / "s.json"),
        )
    ]
    assert found[:2] == ["a", "b"] and float(found[2]) == 1
    with pytest.raises(InputMissingError, match="nowhere"):
        one_line.schema(tmp_path / "nowhere.json")
    (tmp_path / "g.lark").write_bytes(b"start: \xff")
    with pytest.raises(EncodingError, match="byte 8"):
        one_line.grammar(tmp_path / "g.lark")


def test_sources_say_what_they_are() -> None:
    assert repr(one_line.choices(["a", "b"])) == "choices('2 texts')"
    assert repr(one_line.regex("a+")) == "regex('a+')"
    assert repr(one_line.schema(City)) == "schema('City')"
    assert isinstance(one_line.grammar('start: "a"'), ConstraintSource)


def test_what_is_no_source_is_refused(model: TabularModel) -> None:
    with pytest.raises(UsageError, match="texts"):
        one_line.choices("red")
    with pytest.raises(UsageError, match="`constraint`"):
        PUBLIC.sample(model, "a|b", "x")
    with pytest.raises(cdec.core.CdecError):
        PUBLIC.sample(model, one_line.regex("(a"), "x")


def test_tools_are_calls_of_them() -> None:
    vocabulary = Vocabulary([bytes([byte]) for byte in range(128)] + [b""], eos_token_ids=[128])
    model = TabularModel(lambda prefix: [1 / 129] * 129, vocabulary)
    named = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    closed = {**named, "additionalProperties": False}
    defined = [
        {"type": "function", "function": {"name": "add", "parameters": closed}},
        {"name": "now"},
    ]
    known = ({"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": {"a": 2}})
    known = (*known, {"name": "now", "arguments": {}})
    for source in (one_line.tools(defined), one_line.tools(json.dumps(defined))):
        assert all(s.value() in known for s in PUBLIC.sample(model, source, "x", "masked", n=4))
    (several,) = PUBLIC.sample(model, one_line.tools(defined, parallel=True), "x", "greedy")
    assert several.value() and all(call in known for call in several.value())
    only = one_line.tools(defined, only="now")
    assert PUBLIC.sample(model, only, "x", "masked")[0].value() == known[2]
    with pytest.raises(cdec.core.CdecError, match="no function 'cold'"):
        one_line.tools(defined, only="cold")
    with pytest.raises(cdec.core.CdecError, match="is no list of tools"):
        one_line.tools({})


def test_sets_stand_within_sources(tmp_path: Path) -> None:
    vocabulary = Vocabulary([bytes([byte]) for byte in range(128)] + [b""], eos_token_ids=[128])
    model = TabularModel(lambda prefix: [1 / 129] * 129, vocabulary)
    names = {"names": set_of("Ann", "Bo")}
    given = one_line.schema({"type": "string", "x-cdec-set": "names"}, sets=names)
    for drawn in PUBLIC.sample(model, given, "x", "masked", n=3):
        assert drawn.value() in ("Ann", "Bo") and drawn.members[0]["text"] == drawn.value()
    held = one_line.grammar('start: "<" NAME ">"\n%declare NAME\n', sets={"NAME": names["names"]})
    (drawn,) = PUBLIC.sample(model, held, "x", "masked")
    assert drawn.text in ("<Ann>", "<Bo>") and drawn.valid
