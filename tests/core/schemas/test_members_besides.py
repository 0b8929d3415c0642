"""Members of sets that must satisfy something else: the same as those that do, as an enum."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import compile_schema, verify_artifact
from cdec.core.artifacts.opened import bind_arrays, open_artifact, read_artifact
from cdec.core.constraint import NarrowedSet, text_verdicts
from cdec.core.errors import ArtifactInvalidError, EmptySetError, UsageError
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.program_checks import check_schema_shape
from cdec.core.sets import known_rows
from cdec.core.sets.spelled import SpelledSet
from tests.core.schemas.test_sets_within import (
    CITY,
    VOCABULARY,
    assert_same_masks,
    compiled,
    in_array,
    in_object,
)
from tests.laws.sessions import assert_session_laws
from tests.laws.set_cases import corpus_case, set_of

HARD = ("Paris", "Paris 2", "Par", "Z", "é", 'a"b', "", "/x")
TOWN = {"type": "string", "x-cdec-set": "towns"}
TOWNS = ("Parma", "Par", "Z", "é!", "é", "")
SETS = {"cities": set_of(*HARD), "towns": set_of(*TOWNS)}
Keeps = Callable[[str], bool]
CASES: dict[str, tuple[Any, Keeps]] = {
    "pattern": (
        {**CITY, "pattern": "^(P|Z).*[sh]$"},
        lambda t: t[:1] in ("P", "Z") and t[-1] in "sh",
    ),
    "longest": ({**CITY, "maxLength": 2}, lambda t: len(t) <= 2),
    "lengths": ({**CITY, "minLength": 1, "maxLength": 5}, lambda t: 1 <= len(t) <= 5),
    "enum": ({**CITY, "enum": ["Par", "é", "Rome", 3]}, lambda t: t in ("Par", "é")),
    "const": ({"allOf": [CITY, {"const": 'a"b'}]}, lambda t: t == 'a"b'),
    "all but one": ({**CITY, "not": {"const": "Par"}}, lambda t: t != "Par"),
    "either": (
        {**CITY, "anyOf": [{"pattern": "^Par"}, {"maxLength": 0}]},
        lambda t: t[:3] == "Par" or not t,
    ),
    "another set": ({"allOf": [CITY, TOWN]}, lambda t: t in TOWNS),
    "not another set": ({"allOf": [CITY, {"not": TOWN}]}, lambda t: t not in TOWNS),
    "all of it": (
        {"allOf": [CITY, {"not": TOWN}, {"pattern": "^P"}], "minLength": 6},
        lambda t: t not in TOWNS and t[:1] == "P" and len(t) >= 6,
    ),
}


@pytest.mark.parametrize("around", [in_object, pytest.param(in_array, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.share(5)
def test_masks_are_those_of_the_members_that_satisfy_it(
    case: tuple[Any, Keeps], around: Any
) -> None:
    schema, keeps = case
    ours = compiled(around(schema))
    ours = ours.with_sets({name: SETS[name] for name in ours.set_names})
    enum = compiled(around({"enum": list(filter(keeps, HARD))}))
    assert assert_same_masks(ours, enum, np.random.default_rng(1)) > 50


def test_one_of_two_sets_is_what_stands_in_one_alone() -> None:
    ours = compiled(in_object({"oneOf": [CITY, TOWN]})).with_sets(SETS)
    alone = sorted(set(HARD) ^ set(TOWNS))
    assert_same_masks(ours, compiled(in_object({"enum": alone})), np.random.default_rng(2))
    # Of two sets, one within the other, one alternative has no members and the other has some.
    within = {"cities": SETS["cities"], "towns": set_of("Par", "é")}
    ours = compiled(in_object({"oneOf": [CITY, TOWN]})).with_sets(within)
    left = [text for text in HARD if text not in ("Par", "é")]
    assert_same_masks(ours, compiled(in_object({"enum": left})), np.random.default_rng(3))


def test_members_that_differ_are_as_many_as_satisfy_it() -> None:
    array = {"type": "array", "items": {**CITY, "maxLength": 2}, "uniqueItems": True, "minItems": 2}
    ours = compiled(array).with_sets({"cities": SETS["cities"]})
    short = [text for text in HARD if len(text) <= 2]
    enum = compiled({**array, "items": {"enum": short}})
    assert_same_masks(ours, enum, np.random.default_rng(4))
    many = compiled({**array, "minItems": 9}).with_sets({"cities": SETS["cities"]})
    with pytest.raises(UsageError, match=f"leaves {len(short)}"):
        many.session()


@pytest.mark.slow
def test_laws_of_sessions_hold() -> None:
    schema, keeps = CASES["all but one"]
    ours = compiled(in_object(schema)).with_sets({"cities": SETS["cities"]})
    members = [list(json.dumps({"c": text}).encode()) for text in filter(keeps, HARD)]
    assert_session_laws(ours, members, np.random.default_rng(5), walks=4, max_states=60)


def test_records_narrow_what_satisfies_it() -> None:
    ours = compiled(in_object({"allOf": [CITY, TOWN], "maxLength": 3})).with_sets(SETS)
    few = ours.narrowed([NarrowedSet("cities", ("Par", "Paris", "é"))])
    enum = compiled(in_object({"enum": ["Par", "é"]}))
    assert_same_masks(few, enum, np.random.default_rng(6))
    left = ours.narrowed([NarrowedSet("towns", ("Par",), True)])
    enum = compiled(in_object({"enum": ["", "Z", "é"]}))
    assert_same_masks(left, enum, np.random.default_rng(7))
    assert left.accepts(b'{"c": "Par"}') is False and left.accepts(b'{"c": "Z"}') is True
    with pytest.raises(EmptySetError, match="'cities' and 'towns' and satisfies"):
        ours.narrowed([NarrowedSet("cities", ("Paris",))]).session()


def test_a_filter_asks_the_texts_once_a_trie(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    asked = known_rows._accepted
    monkeypatch.setattr(
        known_rows, "_accepted", lambda *given: (found.append(asked(*given)), found[-1])[1]
    )
    cities = SpelledSet.of(SETS["cities"])
    schema = compiled(in_object({**CITY, "maxLength": 3}))
    first = schema.with_sets({"cities": cities})
    schema.with_sets({"cities": cities})
    first.narrowed([NarrowedSet("cities", ("Par",), True)]).session()
    (kept,) = found
    assert kept.sum() == sum(len(text) <= 3 for text in HARD)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({**CITY, "pattern": "^Q"}, "'cities' and satisfies the keywords beside it"),
        ({"allOf": [CITY, TOWN], "const": "Paris"}, "'cities' and 'towns' and satisfies"),
        ({"allOf": [CITY, {"not": TOWN}], "const": "é"}, "'cities' but of none of 'towns'"),
    ],
)
def test_no_member_is_an_error_with_the_names_of_the_sets(schema: Any, said: str) -> None:
    with pytest.raises(EmptySetError, match=said):
        ours = compiled(in_object(schema))
        ours.with_sets({name: SETS[name] for name in ours.set_names})


def test_an_alternative_without_members_is_none() -> None:
    schema = {"anyOf": [{**CITY, "pattern": "^Q"}, {"type": "null"}, {"const": "x"}]}
    ours = compiled(in_object(schema)).with_sets({"cities": SETS["cities"]})
    assert_same_masks(ours, compiled(in_object({"enum": [None, "x"]})), np.random.default_rng(8))


def test_a_set_within_the_other_is_looked_up() -> None:
    many = set_of(*(f"{number}" for number in range(300)))
    ours = compiled(in_object({"allOf": [CITY, TOWN]}))
    ours = ours.with_sets({"cities": many, "towns": set_of("7", "x", "299")})
    assert_same_masks(ours, compiled(in_object({"enum": ["7", "299"]})), np.random.default_rng(9))


def test_members_are_annotated_with_all_their_sets() -> None:
    schema = {"anyOf": [{"allOf": [CITY, TOWN]}, {**CITY, "maxLength": 2}]}
    ours = compiled(in_object(schema)).with_sets(SETS)
    (verdict,) = text_verdicts(ours, [b'{"c": "Par", "d": "/x"}'])
    said = [(one["set"], one["pointer"], one["text"]) for one in verdict["members"]]
    assert said == [("cities", "/c", "Par"), ("towns", "/c", "Par"), ("cities", "/d", "/x")]


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ("pattern", "Par", "'Par' is a member of cities, and the keywords beside it refuse it"),
        ("pattern", "/x", "'/x' is a member of cities, and the keywords beside it refuse it"),
        ("pattern", "Paris 3", "no member of cities begins with 'Paris '; nearest: 'Paris'"),
        (
            "another set",
            "Paris",
            "no member of cities and towns begins with 'Pari'; nearest: 'Par'",
        ),
        ("not another set", "Par", "'Par' is a member of cities without towns, and a set beside"),
    ],
)
def test_refusals_say_what_a_member_lacks(schema: str, text: str, reason: str) -> None:
    ours = compiled(in_object(CASES[schema][0]))
    ours = ours.with_sets({name: SETS[name] for name in ours.set_names})
    data = json.dumps({"c": text}).encode()
    (verdict,) = text_verdicts(ours, [data])
    assert not verdict["valid"] and verdict["reason"].startswith(reason)
    assert ours.accepts(data) is False


def test_artifacts_are_verified(tmp_path: Path) -> None:
    compile_schema(in_object(CASES["all of it"][0]), VOCABULARY, tmp_path / "s.arrow")
    file = read_artifact(tmp_path / "s.arrow")
    compared = verify_artifact(file)
    assert not compared.differing and "cdec.members" in compared.same
    opened = open_artifact(tmp_path / "s.arrow", sets=SETS)
    assert opened.accepts(b'{"c": "Paris"}') is False
    assert opened.accepts(b'{"c": "Paris 2"}') is True


def test_pieces_of_a_corpus_are_filtered_by_nothing() -> None:
    case = corpus_case("Par", "Paris")
    ours = compiled(in_object({**case.schema, "maxLength": 3}))
    with pytest.raises(UsageError, match="given as a corpus"):
        ours.with_sets({case.name: case.given})


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"type": "string"}, {"not": CITY}]},
        {"not": CITY},
        {**CITY, "x-cdec-max-tokens": 3},
        {"x-cdec-span-of": "page", "pattern": "a"},
        {"allOf": [CITY, {"x-cdec-span-of": "page"}]},
    ],
)
def test_what_no_filter_decides_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaUnsupportedError):
        compiled(in_object(schema))


def test_strings_that_are_no_members_are_let_pass_where_that_is_recorded() -> None:
    ours = compiled(in_object({"enum": ["Par", "x"], "not": CITY}), lenient=True)
    unenforced = json.loads(ours.metadata["cdec.unenforced"])
    assert [entry["keyword"] for entry in unenforced] == ["x-cdec-set"]
    enum = compiled(in_object({"enum": ["Par", "x"]}))
    assert_same_masks(ours, enum, np.random.default_rng(10))


@pytest.mark.parametrize(
    "members",
    [
        *("{", "{}", "[1]", '[{"sets": []}]', '[{"sets": ["towns"]}]', '[{"sets": [1]}]'),
        *('[{"sets": ["cities"], "parts": [[0, 0]]}]', '[{"sets": ["cities"], "more": 1}]'),
        *('[{"sets": ["cities"], "without": ["x"]}]', '[{"sets": ["cities"], "parts": 1}]'),
    ],
)
def test_damaged_choices_are_refused(members: str) -> None:
    ours = compiled(in_object({**CITY, "maxLength": 3}))
    columns = {name: np.asarray(array) for name, array in ours.arrays._asdict().items()}
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.members"):
        check_schema_shape(columns, {**ours.metadata, "cdec.members": members})
    far = '[{"sets": ["cities"], "parts": [[99999, 0, -1]]}]'
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.members"):
        metadata = {**ours.metadata, "cdec.members": far}
        bind_arrays("schema", columns, metadata, VOCABULARY)
