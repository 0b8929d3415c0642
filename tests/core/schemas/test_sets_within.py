"""Sets within schemas: the same as their members written as an enum, whatever their size."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from cdec.compilers import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.artifacts.opened import bind_arrays
from cdec.core.constraint import Constraint, NarrowedSet, text_verdicts
from cdec.core.errors import (
    ArtifactInvalidError,
    EmptySetError,
    EncodingError,
    FieldError,
    SetMissingError,
    UsageError,
)
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.program_checks import check_schema_shape
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.session import DEAD, DONE
from cdec.core.sets.spans import SpanOptions
from cdec.core.sets.spelled import SpelledSet
from cdec.core.tokens.vocabulary import BYTES, Vocabulary
from tests.laws.sessions import assert_masks_are_steps, assert_session_laws, state_masks
from tests.laws.set_cases import (
    BRIDGES,
    CASES,
    HARD,
    MemberCase,
    document_case,
    set_case,
    set_of,
)
from tests.laws.worlds import toy_set

PIECES = (*(bytes([byte]) for byte in range(256)), *BRIDGES, b"")
VOCABULARY = Vocabulary(
    PIECES, eos_token_ids=[len(PIECES) - 1], special_token_ids=[len(PIECES) - 1]
)
CITY = {"type": "string", "x-cdec-set": "cities"}
Pair = tuple[int, int]


def in_object(city: Any) -> Any:
    both = {"c": city, "d": city}
    return {"properties": both, "required": ["c"], "type": "object", "additionalProperties": False}


def in_array(city: Any) -> Any:
    items = {"anyOf": [city, {"type": "null"}, {"type": "number"}]}
    return {"type": "array", "items": items, "maxItems": 3}


def compiled(schema: Any, **options: Any) -> SchemaConstraint:
    return schema_constraint(schema, VOCABULARY, SchemaOptions(**options))


def assert_same_masks(left: Constraint, right: Constraint, rng: np.random.Generator) -> int:
    """Walk two sessions side by side; return how many pairs of states were compared."""
    ours, theirs = left.session(), right.session()
    front: list[Pair] = [(int(ours.start(1)[0]), int(theirs.start(1)[0]))]
    seen = set(front)
    while front and len(seen) < 1500:
        x, y = (np.array(side) for side in zip(*front, strict=True))
        masks = state_masks(ours, x, VOCABULARY.width)
        np.testing.assert_array_equal(masks, state_masks(theirs, y, VOCABULARY.width))
        np.testing.assert_array_equal(ours.is_complete(x), theirs.is_complete(y))
        met: list[Pair] = []
        for row, mask in enumerate(masks):
            ids = np.flatnonzero(mask)
            ids = rng.choice(ids, min(len(ids), 10), replace=False)
            after = ours.advance(np.full(len(ids), x[row]), ids)
            other = theirs.advance(np.full(len(ids), y[row]), ids)
            np.testing.assert_array_equal(after == DONE, other == DONE)
            assert not (after == DEAD).any() and not (other == DEAD).any()
            met += [(p, q) for p, q in zip(after.tolist(), other.tolist(), strict=True) if p >= 0]
        front = list(dict.fromkeys(pair for pair in met if pair not in seen))
        seen.update(front)
    return len(seen)


@pytest.mark.parametrize("escapes", ["usual", "any"])
@pytest.mark.parametrize("around", [in_object, in_array, lambda city: city])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.share(8)
def test_masks_are_those_of_the_members_as_an_enum(
    case: MemberCase, around: Any, escapes: Any
) -> None:
    ours = compiled(around(case.schema), escapes=escapes).with_sets({case.name: case.given})
    enum = compiled(around({"enum": list(case.texts)}), escapes=escapes)
    assert assert_same_masks(ours, enum, np.random.default_rng(1)) > 50


FEW = {
    "set": set_case("Par", "Paris", "Paris 2", "é", 'a"'),
    "document": document_case('éa"'),
    "words of a document": document_case("Par, Par é: Par", SpanOptions("words", longest=2)),
}


@pytest.mark.parametrize("bounds", [{}, {"minItems": 3}, {"maxItems": 2}])
@pytest.mark.parametrize("others", [[], [{"type": "null"}, {"const": 7}]])
@pytest.mark.parametrize("case", FEW.values(), ids=FEW)
@pytest.mark.share(6)
def test_members_that_must_differ_are_those_of_an_enum(
    case: MemberCase, bounds: Any, others: Any
) -> None:
    members = list(case.texts)

    def array(city: Any) -> Any:
        items = {"anyOf": [city, *others]} if others else city
        return {"type": "array", "items": items, "uniqueItems": True, **bounds}

    ours = compiled(array(case.schema)).with_sets({case.name: case.given})
    enum = compiled(array({"enum": members}))
    assert assert_same_masks(ours, enum, np.random.default_rng(9)) > 50
    members_of = [list(json.dumps(members[:3]).encode())] if bounds != {"maxItems": 2} else []
    assert_session_laws(ours, members_of, np.random.default_rng(3), walks=6, max_states=60)


@pytest.mark.parametrize("least", [0, 3])
def test_members_that_must_differ_are_as_many_as_records_leave(least: int) -> None:
    def array(city: Any) -> Any:
        return {"type": "array", "items": city, "uniqueItems": True, "minItems": least}

    ours = compiled(array(CITY)).with_sets({"cities": set_of(*HARD)})
    few = ours.narrowed([NarrowedSet("cities", ("é", "Par"))])
    if least > 2:
        with pytest.raises(UsageError, match="leaves 2"):
            few.session()
    else:
        one = compiled(array({"enum": ["Par", "é"]}))
        assert_same_masks(few, one, np.random.default_rng(10))


def test_two_sets_at_one_place_are_their_union() -> None:
    both = {"anyOf": [CITY, {"type": "string", "x-cdec-set": "towns"}, {"const": "Oz"}]}
    towns = ("Parma", "Par", "Rom", "é!")
    ours = compiled(in_object(both)).with_sets({"cities": set_of(*HARD), "towns": set_of(*towns)})
    union = compiled(in_object({"enum": [*dict.fromkeys((*HARD, *towns, "Oz"))]}))
    assert assert_same_masks(ours, union, np.random.default_rng(2)) > 50


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_laws_of_sessions_and_constraints_hold(case: MemberCase) -> None:
    ours = compiled(in_object(case.schema)).with_sets({case.name: case.given})
    some = case.texts[:: max(1, len(case.texts) // 12)]
    texts = [json.dumps({"c": text, "d": other}) for text, other in itertools.pairwise(some)]
    texts += [json.dumps({"c": text}, ensure_ascii=False) for text in some]
    members = [list(text.encode()) for text in texts]
    assert_session_laws(ours, members, np.random.default_rng(3), walks=4, max_states=60)
    session = ours.session()
    cuts = [text.encode()[: len(text) // 2] for text in texts]
    assert_masks_are_steps(
        session, session.advance_bytes(session.start(len(cuts)), cuts), VOCABULARY
    )


def test_masks_of_many_members_are_steps() -> None:
    rng = np.random.default_rng(4)
    syllables = ("ba", "ri", "to", "né", "sk", " ", "-", '"')
    names = {"".join(rng.choice(syllables, rng.integers(1, 6))) for _ in range(3000)}
    ours = compiled(in_object(CITY)).with_sets({"cities": set_of(*sorted(names))})
    session = ours.session()
    picked = rng.choice(sorted(names), 40)
    begun = [f'{{"c": {json.dumps(name)[:4]}'.encode() for name in picked]
    states = session.advance_bytes(session.start(len(begun)), begun)
    assert_masks_are_steps(session, np.unique(states[states >= 0]), VOCABULARY)


def test_texts_matter_and_not_the_tokens_that_the_set_was_compiled_for() -> None:
    other = Vocabulary([*PIECES[:256][::-1], b""], eos_token_ids=[256], special_token_ids=[256])
    ours = compiled(in_object(CITY)).with_sets({"cities": set_of(*HARD)})
    theirs = compiled(in_object(CITY)).with_sets({"cities": set_of(*HARD, vocabulary=other)})
    assert_same_masks(ours, theirs, np.random.default_rng(5))


def test_members_are_annotated_with_their_places() -> None:
    ours = compiled(in_object({"anyOf": [CITY, {"type": "null"}]}))
    ours = ours.with_sets({"cities": set_of(*HARD)})
    text = b'{"c": "a\\"b", "d": "Z\\u00fcrich"}'
    (verdict,) = text_verdicts(ours, [text])
    assert verdict["valid"] and verdict["members"] == [
        {"set": "cities", "pointer": "/c", "id": "8", "text": 'a"b'},
        {"set": "cities", "pointer": "/d", "id": "4", "text": "Zürich"},
    ]
    (other,) = text_verdicts(ours, [b'{"c": null}'])
    assert other["members"] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"c": "Pari_"}', "no member of cities begins with 'Pari_'; nearest: 'Paris', 'Paris 2'"),
        ('{"c": "Zü"}'.encode(), "no member of cities is 'Zü'; nearest: 'Zürich', 'Z', "),
    ],
)
def test_refusals_name_the_nearest_members(text: bytes, reason: str) -> None:
    ours = compiled(in_object(CITY)).with_sets({"cities": set_of(*HARD)})
    (verdict,) = text_verdicts(ours, [text])
    assert not verdict["valid"] and verdict["reason"].startswith(reason[:-2])
    assert ours.accepts(text) is False


def test_independent_check_knows_the_sets() -> None:
    ours = compiled(in_object(CITY)).with_sets({"cities": set_of("Paris", "Par")})
    assert ours.accepts(b'{"c": "P\\u0061r"}') is True
    assert ours.accepts(b'{"c": "Pa"}') is False
    assert ours.accepts(b'{"c": 1}') is False


def test_records_narrow_the_sets() -> None:
    ours = compiled(in_object(CITY)).with_sets({"cities": set_of(*HARD)})
    few = ours.narrowed([NarrowedSet("cities", ("Par", "é", "1"))])
    enum = compiled(in_object({"enum": ["Par", "é", "Paris"]}))
    assert_same_masks(few, enum, np.random.default_rng(6))
    left = ours.narrowed([NarrowedSet("cities", ("Par", "é", "nowhere"), True)])
    others = [text for text in HARD if text not in ("Par", "é")]
    assert_same_masks(left, compiled(in_object({"enum": others})), np.random.default_rng(7))
    assert left.accepts(b'{"c": "Par"}') is False
    with pytest.raises(FieldError, match="not members"):
        ours.narrowed([NarrowedSet("cities", ("Rome",))])
    with pytest.raises(FieldError, match="holds no set 'towns'"):
        ours.narrowed([NarrowedSet("towns", ("Rome",))])
    with pytest.raises(EmptySetError):
        ours.narrowed([NarrowedSet("cities", HARD, True)])


def test_sets_that_are_not_given_or_not_held_are_refused() -> None:
    ours = compiled(in_object(CITY))
    with pytest.raises(SetMissingError, match="'cities'"):
        ours.session()
    with pytest.raises(SetMissingError):
        ours.accepts(b'{"c": "Paris"}')
    with pytest.raises(UsageError, match="holds no set 'towns'"):
        ours.with_sets({"towns": set_of("Rom")})
    with pytest.raises(UsageError, match="a schema is given"):
        ours.with_sets({"cities": compiled({"const": 1})})


def test_members_that_are_no_texts_are_refused() -> None:
    vocabulary = Vocabulary([b"\xc3", b"\xa9", b""], eos_token_ids=[2], special_token_ids=[2])
    with pytest.raises(EncodingError, match="no UTF-8"):
        SpelledSet.of(toy_set([(0,), (0, 1)], vocabulary))


@pytest.mark.parametrize(
    "schema",
    [
        {"not": CITY},
        {"x-cdec-span-of": "page", "pattern": "a"},
        {"not": {"x-cdec-span-of": "page"}},
        {"anyOf": [{"x-cdec-set": "page"}, {"x-cdec-span-of": "page"}]},
        {"type": "object", "propertyNames": CITY},
        {"type": "array", "items": {"anyOf": [CITY, {"enum": ["x"]}]}, "uniqueItems": True},
    ],
)
def test_what_cannot_be_told_when_compiling_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaUnsupportedError):
        compiled(schema)


def test_what_asks_nothing_of_strings_may_stand_beside() -> None:
    schema = {"allOf": [{"type": ["string", "null"]}, {"x-cdec-set": "cities"}]}
    ours = compiled(schema).with_sets({"cities": set_of(*HARD)})
    assert_same_masks(ours, compiled({"enum": [*HARD, None]}), np.random.default_rng(8))


def test_compiling_depends_on_no_set() -> None:
    assert compiled(in_object(CITY)).statistics()["states"] < 20


@pytest.mark.parametrize(
    "names",
    [
        *("[", '["a", "a"]', '[""]', "[1]", "{}", '[{"field": ""}]', '[{"field": "a", "b": 1}]'),
        *('["a", {"field": "a"}]', '[{"field": "a", "longest": 1.5}]', '[{"whole": "words"}]'),
    ],
)
def test_damaged_names_are_refused(names: str) -> None:
    ours = compiled(in_object(CITY))
    columns = {name: np.asarray(array) for name, array in ours.arrays._asdict().items()}
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.sets"):
        check_schema_shape(columns, {**ours.metadata, "cdec.sets": names})
    with pytest.raises(ArtifactInvalidError, match="string_start"):
        metadata = {**ours.metadata, "cdec.sets": "[]"}
        bind_arrays("schema", columns, metadata, VOCABULARY)


def test_the_trie_of_an_artifact_is_kept_and_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("cdec.core.sets.spelled._FEW_BYTES", 0)
    members = set_of(*HARD)
    first = SpelledSet.of(members)
    (kept,) = (tmp_path / "spelled").iterdir()
    again = SpelledSet.of(members)
    np.testing.assert_array_equal(first.arrays.tokens, again.arrays.tokens)
    np.testing.assert_array_equal(first.sources, again.sources)
    kept.chmod(0o600)
    kept.write_bytes(kept.read_bytes()[:-50])
    np.testing.assert_array_equal(SpelledSet.of(members).arrays.tokens, first.arrays.tokens)
    assert first.n_texts == len(HARD) and BYTES.size == 257
    denied = SpelledSet.of(members.deny_texts([b"Par"]))
    assert denied.n_texts == len(HARD) - 1 and not denied.holds(b"Par")
