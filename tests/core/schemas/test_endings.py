"""Ends of a schema's texts: from every state a way is known, and texts can be held to tokens."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cdec.compilers import SchemaOptions, schema_constraint
from cdec.core.combine.fitting import fit
from cdec.core.combine.healing import HealedConstraint
from cdec.core.combine.prefill import begin
from cdec.core.constraint import CONSERVATIVE, EXACT
from cdec.core.errors import FitError
from cdec.core.models.tabular import TabularModel
from cdec.core.session import FAR
from cdec.samplers.masked import MaskedSampler
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import (
    assert_ends_are_near,
    assert_session_laws,
    random_prefixes,
    states_after,
)
from tests.laws.set_cases import HARD, set_of

BRIDGES = ['": ', '","', '"}', '"]', "},", "null", "true", "fal", '":', '{"', "[]", "  ", "\n  "]
VOCABULARY = byte_vocabulary([*BRIDGES, "\\u", "00", "ab", "abc", '."}'])
TREE = {
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                "value": {"type": "integer"},
            },
            "required": ["left", "value"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/tree",
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "person": PERSON,
    "tree": TREE,
    "any": {},
    "open object": {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]},
    "keys": {"type": "object", "minProperties": 2},
    "keys of a pattern": {
        "type": "object",
        "patternProperties": {"^x": {"type": "number"}},
        "minProperties": 1,
        "additionalProperties": False,
    },
    "a needs b": {
        "type": "object",
        "dependentRequired": {"a": ["b"]},
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "distinct strings": {
        "type": "array",
        "items": {"type": "string", "minLength": 2},
        "minItems": 2,
        "uniqueItems": True,
    },
    "distinct values": {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "integer"},
                {
                    "type": "object",
                    "properties": {"a": {"type": "boolean"}, "b": {"enum": ["x", "xy"]}},
                    "additionalProperties": False,
                },
            ]
        },
        "minItems": 3,
        "uniqueItems": True,
    },
    "contains": {"type": "array", "contains": {"const": 5}, "items": {"type": "integer"}},
    "contains two": {"type": "array", "contains": {"const": 5}, "minContains": 2, "maxItems": 6},
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "minItems": 2,
        "items": False,
    },
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"},
    "long": {"type": "string", "minLength": 3, "maxLength": 40},
    "date": {"type": "string", "format": "date"},
    "enum": {"enum": ["red", "green", 12, None, {"a": [1, 2]}]},
    "foreign": {"enum": ["\u00e9", "\u65e5\u672c"]},
    "object or array": {"anyOf": [{"required": ["q"]}, {"type": "array", "minItems": 3}]},
}


def constraint_of(name: str, whitespace: Any = "usual") -> Any:
    options = SchemaOptions(whitespace=whitespace)
    return schema_constraint(json.dumps(SCHEMAS[name]), VOCABULARY, options)


@pytest.mark.share("name")
@pytest.mark.parametrize("whitespace", ["usual", "any", "compact", "pretty"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_from_every_state_a_way_to_the_end_is_known(name: str, whitespace: str) -> None:
    constraint, rng = constraint_of(name, whitespace), np.random.default_rng(3)
    session = constraint.session()
    prefixes = sorted(random_prefixes(session, rng, 4, 30))
    assert_ends_are_near(session, states_after(session, prefixes[-60:]), VOCABULARY)
    states = states_after(session, prefixes)
    assert (session.fewest_tokens(states[states >= 0]) < FAR).all()
    # What is known of a state does not depend on what was asked before.
    other = constraint_of(name, whitespace).session()
    backwards = states_after(other, prefixes[::-1])
    live = states >= 0
    ours, theirs = states[live], backwards[::-1][live]
    np.testing.assert_array_equal(session.fewest_tokens(ours), other.fewest_tokens(theirs))
    np.testing.assert_array_equal(session.fewest_ahead(ours), other.fewest_ahead(theirs))


@pytest.mark.parametrize("name", ["person", "tree", "distinct values", "contains two", "long"])
@pytest.mark.share(1)
def test_every_text_of_a_schema_ends_in_time(name: str) -> None:
    constraint, rng = constraint_of(name), np.random.default_rng(5)
    with pytest.raises(FitError) as found:
        fit(constraint, 0, max_steps=0)
    shortest = found.value.details["shortest"]
    model = TabularModel(lambda _: np.full(VOCABULARY.width, 1 / VOCABULARY.width), VOCABULARY)
    for most in (shortest, shortest + 1, shortest + 9, 90):
        fitted = fit(constraint, most, max_steps=0)
        assert fitted.facts.fit == CONSERVATIVE
        assert_session_laws(fitted, [], rng, walks=2, max_states=20)
        drawn = MaskedSampler().draw(model, fitted, [0], n=8, rng=rng, max_new_tokens=most)
        for sample in drawn:
            assert (sample.finish_reason, sample.valid) == ("complete", True), sample
            assert len(sample.token_ids) <= most


@pytest.mark.parametrize("name", ["enum", "foreign", "date"])
def test_bounds_are_no_less_than_what_a_search_finds(name: str) -> None:
    constraint, rng = constraint_of(name, "compact"), np.random.default_rng(7)
    exact, bounded = (fit(constraint, 30, max_steps=steps) for steps in (1 << 24, 0))
    assert (exact.facts.fit, bounded.facts.fit) == (EXACT, CONSERVATIVE)
    tight = fit(constraint, 12, max_steps=0)
    session, whole = tight.session(), fit(constraint, 12, max_steps=1 << 24).session()
    for prefix in sorted(random_prefixes(session, rng, 10, 12)):
        own, wide = states_after(session, [prefix]), states_after(whole, [prefix])
        assert set(session.allowed(own)[1].tolist()) <= set(whole.allowed(wide)[1].tolist())


def test_begun_and_healed_texts_of_a_schema_end_in_time() -> None:
    constraint, rng = constraint_of("person"), np.random.default_rng(11)
    begun = begin(constraint, '{"name": "A', into_prompt=False)
    healed = HealedConstraint(constraint, b'As JSON: {"na')
    for whole in (begun, healed):
        with pytest.raises(FitError) as found:
            fit(whole, 0, max_steps=0)
        fitted = fit(whole, found.value.details["shortest"] + 3, max_steps=0)
        assert_session_laws(fitted, [], rng, walks=4, max_states=40)
        assert fitted.facts.prefill == whole.facts.prefill


def test_members_of_sets_within_a_schema_end_in_time() -> None:
    rng = np.random.default_rng(13)
    city = {"type": "string", "x-cdec-set": "cities"}
    town = {"anyOf": [{"type": "string", "x-cdec-set": "towns"}, city, {"const": "Oz"}]}
    schema = {"type": "object", "properties": {"c": city, "t": town}, "required": ["c", "t"]}
    closed = json.dumps(schema | {"additionalProperties": False})
    sets = {"cities": set_of(*HARD), "towns": set_of("Parma", "Par", "Rom", "\u00e9!")}
    constraint = schema_constraint(closed, VOCABULARY).with_sets(sets)
    session = constraint.session()
    prefixes = sorted(random_prefixes(session, rng, 20, 40))
    states = states_after(session, prefixes)
    assert (session.fewest_tokens(states[states >= 0]) < FAR).all()
    assert_ends_are_near(session, states[-60:], VOCABULARY)
    with pytest.raises(FitError) as found:
        fit(constraint, 0, max_steps=0)
    fitted = fit(constraint, found.value.details["shortest"] + 4, max_steps=0)
    assert_session_laws(fitted, [], rng, walks=6, max_states=60)


@pytest.mark.parametrize("least", [0, 4])
def test_members_that_must_differ_are_chosen_among_those_left(least: int) -> None:
    rng = np.random.default_rng(17)
    schema = {"type": "array", "items": {"type": "string", "x-cdec-set": "cities"}}
    distinct = json.dumps(schema | {"uniqueItems": True, "minItems": least})
    cities = set_of("Paris", "Par", "Paris 2", "Oslo", "Z\u00fc")
    constraint = schema_constraint(distinct, VOCABULARY).with_sets({"cities": cities})
    session = constraint.session()
    states = states_after(session, sorted(random_prefixes(session, rng, 15, 40)))
    assert (session.fewest_tokens(states[states >= 0]) < FAR).all()
    assert_ends_are_near(session, states[-60:], VOCABULARY)
