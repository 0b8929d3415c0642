"""Strings of so many tokens: no other texts are lost, and every string ends in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import SchemaOptions, compile_schema, schema_constraint
from cdec.core import open_artifact
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.fitting import fit
from cdec.core.constraint import CONSERVATIVE, EXACT, Constraint, text_verdicts, token_verdicts
from cdec.core.errors import ArtifactInvalidError, FitError, UsageError
from cdec.core.schemas.errors import SchemaInvalidError, SchemaUnsupportedError
from cdec.core.session import DEAD
from cdec.core.token_budgets import budgets_of
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import (
    assert_allowed_is,
    assert_session_laws,
    random_prefixes,
    state_masks,
    states_after,
    token_rows,
)
from tests.laws.set_cases import set_case
from tests.laws.worlds import Row

BRIDGES = [
    *("ab", "abc", 'c"', '"}', '":"', '":', '","', '",', 'a","b', '{"', '"x"', '"x', "\\n", '\\"'),
    *('"]', "é", "日"),
]
VOCABULARY = byte_vocabulary(BRIDGES)
NOT_CLOSED = byte_vocabulary([*BRIDGES, 'bc"', 'aa"}'])


def held(most: int, **keywords: Any) -> dict[str, Any]:
    return {"type": "string", "x-cdec-max-tokens": most, **keywords}


def made(schema: Any, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> Constraint:
    return schema_constraint(schema, vocabulary, SchemaOptions(whitespace="compact", **options))


def rows_of(constraint: Constraint, most: int = 40) -> list[Row]:
    """Return all token sequences of a finite constraint."""
    return token_rows(constraint, most, finite=True)


def without_budgets(schema: Any) -> Any:
    if isinstance(schema, dict):
        kept = {name: without_budgets(value) for name, value in schema.items()}
        kept.pop("x-cdec-max-tokens", None)
        return kept
    return [*map(without_budgets, schema)] if isinstance(schema, list) else schema


def tokens_of_strings(row: Row, vocabulary: Vocabulary) -> list[int]:
    """Count the tokens of each string of a text, keys included, by where its bytes lie."""
    owners = [n for n, token in enumerate(row) for _ in vocabulary.token_bytes[token]]
    text, counts, inside, at = vocabulary.decode(row), [], set[int](), 0
    is_open = False
    while at < len(text):
        if text[at] == 0x22:
            if is_open:
                counts.append(len(inside))
            is_open, inside = not is_open, set()
        elif is_open:
            inside.add(owners[at])
            if text[at] == 0x5C:
                at += 1
                inside.add(owners[at])
        at += 1
    return counts


def allowed_by(rows: list[Row], ends: tuple[int, ...]) -> Any:
    def allowed(prefix: Row) -> set[int]:
        longer = {row[len(prefix)] for row in rows if row[: len(prefix)] == prefix != row}
        return longer | (set(ends) if prefix in rows else set())

    return allowed


def assert_is_these(constraint: Constraint, rows: list[Row]) -> None:
    """Compare the masks along all allowed ways with what some rows allow."""
    rng, vocabulary = np.random.default_rng(0), constraint.vocabulary
    prefixes = random_prefixes(constraint.session(), rng, 60, 24)
    ends = tuple(vocabulary.eos_token_ids)
    live = [prefix for prefix in prefixes if not set(ends) & set(prefix)]
    assert_allowed_is(constraint.session(), live, allowed_by(rows, ends), vocabulary.width)
    assert_session_laws(constraint, rows[:12], rng, max_states=60)


NAMED = {"type": "object", "additionalProperties": False, "required": ["x"]}
SMALL = "^[ab]{0,2}c?$"
CASES: dict[str, Any] = {
    "string": held(2, pattern="^[abc]{1,3}$"),
    "length": held(2, pattern="^[ab]*$", minLength=2, maxLength=4),
    "enum": held(2, enum=["abc", "ab\n", "aéb", 'c"c', "日本", "abcabcabc", ""]),
    "property": {**NAMED, "properties": {"x": held(1, pattern=SMALL)}},
    "two": {
        **NAMED,
        "properties": {"x": held(1, pattern="^a?b?$"), "y": held(2, enum=["abc", "aab", "b"])},
    },
    "items": {"type": "array", "items": held(1, pattern="^[abc]{1,2}$"), "maxItems": 2},
    "nullable": {"anyOf": [held(1, pattern=SMALL), {"type": "null"}]},
    "some held": {"anyOf": [held(1, pattern=SMALL), {"enum": ["aaa", "cab"]}]},
    "two numbers": {"anyOf": [held(1, pattern=SMALL), held(2, enum=["aab", "aaac", "bbb"])]},
    "both": {"allOf": [held(3, pattern="^[abc]*$"), held(2, maxLength=4)]},
    "told later": {
        "anyOf": [
            {**NAMED, "properties": {"x": held(1, pattern="^a?bc?$"), "k": {"const": "a"}}},
            {**NAMED, "properties": {"x": {"enum": ["abc", "aa"]}, "k": {"const": "b"}}},
        ]
    },
}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["string", "length", "enum", "property", "items", "both"])
@pytest.mark.parametrize("vocabulary", [VOCABULARY, NOT_CLOSED], ids=["closed", "not closed"])
def test_strings_are_those_of_so_many_tokens(name: str, vocabulary: Vocabulary) -> None:
    schema = CASES[name]
    most = 1 if name in ("property", "items") else 2
    keys = 1 if name == "property" else 0  # tokens of keys are not held
    limited, whole = made(schema, vocabulary), made(without_budgets(schema), vocabulary)
    rows = [
        row
        for row in rows_of(whole)
        if max(tokens_of_strings(row, vocabulary)[keys:], default=0) <= most
    ]
    found = rows_of(limited)
    if vocabulary is VOCABULARY:
        assert found == rows and len(rows) < len(rows_of(whole))
        assert_is_these(limited, rows)
    else:
        assert set(found) <= set(rows)
        assert_is_these(limited, found)
    is_exact = vocabulary is VOCABULARY
    assert limited.facts.budgets == (EXACT if is_exact else CONSERVATIVE)
    assert limited.facts.is_sound and not limited.facts.takes_bytes
    assert whole.facts.budgets is None


@pytest.mark.slow
def test_of_alternatives_each_has_its_own_number() -> None:
    def holds(name: str, row: Row) -> bool:
        text, counts = VOCABULARY.decode(row), tokens_of_strings(row, VOCABULARY)
        value = json.loads(text)
        if name == "nullable":
            return max(counts, default=0) <= 1
        if name == "some held":
            return counts[0] <= 1 or value in ("aaa", "cab")
        if name == "two numbers":
            return counts[0] <= (2 if value in ("aab", "aaac", "bbb") else 1)
        if name == "two":
            strings = {key: counts[2 * n + 1] for n, key in enumerate(value)}
            return strings["x"] <= 1 and strings.get("y", 0) <= 2
        own = counts[2 * [*value].index("x") + 1]
        return (value.get("k") != "a" and value["x"] in ("abc", "aa")) or own <= 1

    for name in ("nullable", "some held", "two numbers", "two", "told later"):
        limited, whole = (
            made(schema, property_order="declared")
            for schema in (CASES[name], without_budgets(CASES[name]))
        )
        rows = [row for row in rows_of(whole) if holds(name, row)]
        assert rows_of(limited) == rows, name
        assert_is_these(limited, rows)


def test_strings_of_any_content_end_in_time() -> None:
    schema = {
        "type": "object",
        "properties": {"x": held(3), "y": {"type": "string"}, "z": held(20, minLength=3)},
        "required": ["x", "z"],
        "additionalProperties": False,
    }
    limited, rng = made(schema), np.random.default_rng(1)
    assert limited.facts.is_sound
    assert_session_laws(limited, [], rng, walks=24, max_steps=60, max_states=120)
    session = limited.session()
    start = b'{"x":"'
    ids = {piece: token for token, piece in enumerate(VOCABULARY.token_bytes) if piece}
    row = [ids[bytes([byte])] for byte in start]
    a, escape, quote = ids[b"a"], ids[b"\\"], ids[b'"']
    for said, token, is_allowed in [
        ([a, a], a, True),
        ([a, a, a], a, False),
        ([a, a, a], quote, True),
        ([a, a], escape, False),
        ([a], escape, True),
        ([a, a], ids[b"\\n"], True),
        ([a, a], ids["é".encode()], True),
        ([a, a], ids["é".encode()[:1]], False),
        ([a], ids["é".encode()[:1]], True),
        ([a, a, a], ids[b'"}'], False),  # z is required
    ]:
        state = states_after(session, [(*row, *said)])
        assert (session.advance(state, np.array([token]))[0] != DEAD) == is_allowed


def test_masks_are_steps_where_few_tokens_are_left() -> None:
    limited = made({"type": "array", "items": held(3, maxLength=9, minLength=2)})
    session, rng = limited.session(), np.random.default_rng(3)
    prefixes = random_prefixes(session, rng, 12, 20)
    states = states_after(session, sorted(prefixes)[:150])
    states = np.unique(states[states >= 0])
    width = VOCABULARY.width
    masks = state_masks(session, states, width)
    every = np.tile(np.arange(width), len(states))
    after = session.advance(np.repeat(states, width), every).reshape(len(states), width)
    np.testing.assert_array_equal(masks, after != DEAD)


# --- What cannot be.


@pytest.mark.parametrize("most", [0, -1, 1.5, "3", None, True])
def test_a_number_of_tokens_is_at_least_one(most: Any) -> None:
    with pytest.raises(SchemaInvalidError, match=r"/x-cdec-max-tokens is .*at least 1"):
        made({"type": "string", "x-cdec-max-tokens": most})


def test_a_number_below_the_shortest_string_is_an_error_with_that_number(tmp_path: Path) -> None:
    schema = {"properties": {"x": held(2, minLength=5, pattern="^a*b$")}, "type": "object"}
    with pytest.raises(FitError, match=r"string at /properties/x has at most 2 tokens.* 4") as info:
        compile_schema(schema, VOCABULARY, tmp_path / "s.arrow")
    assert info.value.details["shortest"] == 4  # a, a, a, ab
    assert info.value.hint == "raise x-cdec-max-tokens to 4 or more"
    assert not (tmp_path / "s.arrow").exists()
    schema["properties"]["x"]["x-cdec-max-tokens"] = 4
    assert made(schema).facts.budgets == EXACT


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"allOf": [held(3), {"x-cdec-set": "cities"}]}, "x-cdec-set 'cities' must satisfy"),
        ({"not": held(3)}, "many spellings"),
        ({"type": "object", "propertyNames": held(3)}, "not of names"),
        ({"type": "array", "uniqueItems": True, "items": held(3)}, "differ from those before"),
        (
            {
                "type": "array",
                "uniqueItems": True,
                "items": {"type": "object", "properties": {"x": {"items": held(3)}}},
            },
            "differ from those before",
        ),
    ],
)
def test_what_is_not_known_is_refused_by_name(schema: Any, said: str) -> None:
    with pytest.raises(SchemaUnsupportedError, match=said):
        made(schema)
    if "cities" not in said:
        lenient = made(schema, lenient=True)
        assert lenient.facts.unenforced
        assert_session_laws(lenient, [], np.random.default_rng(0), max_states=40, max_steps=20)


def test_strings_beside_items_that_differ_are_held() -> None:
    schema = {
        **NAMED,
        "properties": {
            "x": held(1, pattern="^a?b$"),
            "u": {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b"]}},
        },
        "required": ["u", "x"],
    }
    limited, whole = (
        made(one, property_order="declared") for one in (schema, without_budgets(schema))
    )
    every = rows_of(whole)
    places = [tokens_of_strings(row, VOCABULARY) for row in every]
    rows = [row for row, counts in zip(every, places, strict=True) if counts[1] <= 1]
    assert 0 < len(rows) < len(every)
    assert_is_these(limited, rows)


# --- Beside what else holds texts.


@pytest.mark.parametrize("most", [6, 7, 9])
def test_a_whole_text_fits_and_its_strings_as_well(most: int) -> None:
    schema = {"type": "array", "items": held(2, pattern="^[ab]*c$", minLength=3), "maxItems": 2}
    limited = made(schema)
    whole = rows_of(limited)
    fitted, nearly = fit(limited, most), fit(limited, most, max_steps=0)
    rows = [row for row in whole if len(row) <= most]
    assert rows_of(fitted) == rows
    assert set(rows_of(nearly)) <= set(rows)
    assert fitted.facts.fit == EXACT == fitted.facts.budgets and nearly.facts.fit == CONSERVATIVE
    assert_is_these(fitted, rows)
    assert_is_these(nearly, rows_of(nearly))


def test_a_text_of_any_length_fits() -> None:
    schema = {
        "type": "object",
        "properties": {
            "x": held(4, minLength=6, maxLength=40),
            "y": held(9),
            "z": held(2, pattern="b$"),
        },
        "required": ["x", "y", "z"],
    }
    limited = made(schema)
    shortest = int(limited.session().fewest_tokens(limited.session().start(1))[0])
    for most in (shortest, shortest + 1, shortest + 7):
        fitted = fit(limited, most)
        assert fitted.facts.fit == CONSERVATIVE and fitted.facts.is_sound
        laws = {"max_states": 80, "max_steps": most + 1, "walks": 12}
        assert_session_laws(fitted, [], np.random.default_rng(most), **laws)
    with pytest.raises(FitError, match=f"the shortest has {shortest}"):
        fit(limited, shortest - 1)


def test_both_of_two_constraints_hold_it() -> None:
    limited, other = made(held(1, pattern=SMALL)), made({"enum": ["ab", "aac", "b"]})
    both = conjoin(limited, other)
    assert both.facts.budgets == EXACT and not both.facts.takes_bytes
    assert_is_these(both, [row for row in rows_of(limited) if row in set(rows_of(other))])


@pytest.mark.parametrize("texts", [[b'"ab"'], [b'"abc"', b'"ab"', b'"a"']])
def test_what_is_denied_is_left_out(texts: list[bytes]) -> None:
    limited = made(held(1, pattern=SMALL))
    rows = [row for row in rows_of(limited) if VOCABULARY.decode(row) not in texts]
    assert_is_these(deny(limited, texts), rows)


def test_strings_beside_members_of_sets_are_held() -> None:
    case = set_case("a", "cab", "b")
    properties = {"x": held(1, pattern="^a?b$"), "c": {"type": "string", "x-cdec-set": case.name}}
    schema = {**NAMED, "properties": properties, "required": ["c", "x"]}
    limited, whole = (
        made(one, property_order="declared").with_sets({case.name: case.given})
        for one in (schema, without_budgets(schema))
    )
    every = rows_of(whole)
    rows = [row for row in every if tokens_of_strings(row, VOCABULARY)[1] <= 1]
    assert 0 < len(rows) < len(every) and rows_of(limited) == rows
    assert_is_these(limited, rows)


# --- Verdicts, artifacts.


def test_a_text_with_too_many_tokens_is_refused_where_it_has_them() -> None:
    limited = made({**NAMED, "properties": {"x": held(2, pattern="^[abc]*$")}})
    texts = [b'{"x":"abcab"}', b'{"x":"abcabca"}', b'{"x":"ad"}', b'{"x":"' + b"abc" * 40 + b'"}']
    good, long, wrong, longer = text_verdicts(limited, texts)
    assert good["valid"]
    assert not long["valid"] and (long["byte"], long["max_tokens"]) == (12, 2)
    assert long["json_path"] == "/x" and "/properties/x" in long["schema_path"]
    assert long["reason"] == "no way to spell it in 2 tokens leads further"
    assert not wrong["valid"] and "max_tokens" not in wrong
    assert longer["byte"] == 12
    row = [list(VOCABULARY.token_bytes).index(piece) for piece in (b'{"', b"x", b'":"', b"a", b"b")]
    refused, allowed = token_verdicts(limited, [[*row, row[3]], [*row, 261 + 3, 0]])
    assert refused["position"] == 5 and not allowed["valid"]


def test_an_artifact_records_its_numbers_and_one_without_opens_as_before(tmp_path: Path) -> None:
    path = tmp_path / "held.arrow"
    compile_schema(CASES["two"], VOCABULARY, path, whitespace="compact")
    opened = open_artifact(path, vocabulary=VOCABULARY)
    assert rows_of(opened) == rows_of(made(CASES["two"]))
    pairs = json.loads(opened.facts.metadata["cdec.budgets"])
    assert sorted(most for _, most in pairs) == [1, 2]
    whole = made(without_budgets(CASES["two"]))
    assert "cdec.budgets" not in whole.facts.metadata and whole.facts.takes_bytes


@pytest.mark.parametrize(
    "said", ["[[0, 0]]", "[[9, 1]]", "[[1, 2], [0, 2]]", "[0]", "{", '"x"', "[[0, 4294967296]]"]
)
def test_numbers_that_are_none_are_refused(said: str) -> None:
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.budgets"):
        budgets_of({"cdec.budgets": said}, 2)


def test_bytes_are_no_tokens() -> None:
    with pytest.raises(UsageError, match="token by token"):
        made(held(2)).session().advance_bytes(np.zeros(1, np.int64), [b'"'])
