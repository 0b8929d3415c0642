"""Programs of schemas: their engine, masks, spellings, places."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from cdec.compilers import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.constraint import text_verdicts
from cdec.core.errors import ArtifactInvalidError, LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.mask import allocate_mask
from cdec.core.native import library
from cdec.core.schemas import session as schema_engine
from cdec.core.schemas.levels import json_pointer
from cdec.core.schemas.program import COLUMNS, OWN_STYLE, USUAL_ESCAPES
from cdec.core.schemas.program_checks import check_schema, check_schema_shape
from cdec.core.schemas.schema_constraint import SchemaConstraint
from tests.compilers.schemas.random_schemas import BYTES
from tests.core.schemas.programs import (
    Array,
    Choice,
    Object,
    Text,
    Value,
    anything,
    as_numpy,
    integers,
    metadata_for,
    program,
    small_vocabulary,
)
from tests.core.schemas.random_programs import pieces, random_program
from tests.core.schemas.reference import Reference
from tests.core.schemas.test_schema_laws import constraint, record
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import state_masks
from tests.laws.sizes import heavy_or

# --- The columns of schemas: what is refused of mutated ones, by name.


@pytest.fixture
def columns() -> dict[str, np.ndarray]:
    values = [
        Value(
            raw=integers(),
            strings=[Text(anything())],
            arrays=[Array([[Choice(0, (0,))], [Choice(1)]], counters=[(0, 3)])],
            objects=[
                Object({"a": [Choice(1)], "b": [Choice(0)]}, {"": [Choice(0)]}, counters=[(0, 2)])
            ],
        ),
        Value(raw=integers()),
    ]
    return as_numpy(program(values, small_vocabulary())._asdict())


def check(columns: dict[str, np.ndarray], **metadata: str) -> None:
    said = metadata_for(small_vocabulary()) | metadata
    check_schema_shape(columns, said)
    check_schema(columns, said)


def test_a_program_keeps_its_own_rules(columns: dict[str, np.ndarray]) -> None:
    check(columns)
    assert {name: str(array.dtype) for name, array in columns.items()} == dict(COLUMNS)


@pytest.mark.parametrize("layout", [-1, 65, 127, 129, 130, 256 + 65, 256 + 129, 512, 1 << 30])
def test_a_layout_that_does_not_exist_is_refused(
    layout: int, columns: dict[str, np.ndarray]
) -> None:
    for known in (0, 1, 64, OWN_STYLE, USUAL_ESCAPES, USUAL_ESCAPES + 4, USUAL_ESCAPES + OWN_STYLE):
        columns["indent"][0] = known
        check(columns)
    columns["indent"][0] = layout
    with pytest.raises(ArtifactInvalidError):
        check(columns)


_FREE = ("place_bytes", "key_bytes", "vocabulary_bytes", "edge_low", "edge_high", "slot_rank")


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in _FREE])
def test_a_value_out_of_range_is_refused(name: str, columns: dict[str, np.ndarray]) -> None:
    largest = np.iinfo(columns[name].dtype).max
    if name in ("state_label", "state_shortest", "state_low", "state_high"):
        largest = -2
    columns[name][-1] = largest
    if not name.startswith("vocabulary"):
        with pytest.raises(ArtifactInvalidError):
            check(columns)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "place_bytes"])
def test_a_column_of_another_length_is_refused(name: str, columns: dict[str, np.ndarray]) -> None:
    columns[name] = np.append(columns[name], columns[name][-1:])
    with pytest.raises(ArtifactInvalidError):
        check(columns)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cdec.options", "[]"),
        ("cdec.unenforced", '[{"path": 1}]'),
        ("cdec.sound", "yes"),
        ("cdec.vocabulary_size", "12"),
    ],
)
def test_metadata_that_say_nothing_are_refused(
    key: str, value: str, columns: dict[str, np.ndarray]
) -> None:
    with pytest.raises(ArtifactInvalidError):
        check(columns, **{key: value})


def test_edges_that_overlap_are_refused(columns: dict[str, np.ndarray]) -> None:
    first = int(np.flatnonzero(np.diff(columns["state_edges"]) > 1)[0])
    at = columns["state_edges"][first]
    columns["edge_high"][at] = columns["edge_low"][at + 1]
    with pytest.raises(ArtifactInvalidError, match="edge_low"):
        check(columns)


def test_regions_before_named_keys_are_refused(columns: dict[str, np.ndarray]) -> None:
    columns["slot_single"][:] = [0, 1, 1]
    with pytest.raises(ArtifactInvalidError, match="slot_single"):
        check(columns)


# --- Where a text leaves a schema: in the text, in the schema, and what could have stood there.

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
    (verdict,) = text_verdicts(constraint, [text.encode()])
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


# --- The engine that sessions of a schema share: long calls, its bounds, and several threads.


def test_a_call_on_very_many_rows_comes_back_and_is_continued() -> None:
    session = record().session()
    states, n = session.start(1), 5_000_000
    brace = np.array([session.allowed(states)[1][0]], np.int64)
    many, tokens, out = np.repeat(states, n), np.repeat(brace, n), np.zeros(n, np.int64)
    done = library.schema_engine_advance(session._handle, many, tokens, out)
    after = session.advance(states, brace)[0]
    assert 0 < done < n and (out[:done] == after).all() and not out[done:].any()
    assert (session.advance(many, tokens) == after).all()


def test_one_mask_that_takes_long_is_worked_on_in_several_calls() -> None:
    made, n = constraint(Value(strings=[Text(anything(), 0, 2)])), 60_000
    made.arrays = made.arrays._replace(
        string_offsets=np.array([0, n]),
        string_start=np.repeat(made.arrays.string_start, n),
        string_min=np.repeat(made.arrays.string_min, n),
        string_max=np.repeat(made.arrays.string_max, n),
    )
    session = made.session()
    states = session.advance_bytes(session.start(1), [b'"'])
    mask = allocate_mask(1, made.vocabulary.width)
    calls = 1
    while not library.schema_engine_fill_mask(session._handle, states, mask):
        calls += 1
    assert calls > 1
    every = np.arange(made.vocabulary.width)[None]
    found = state_masks(session, states, made.vocabulary.width)
    np.testing.assert_array_equal(found, session.check(states, every))


def test_states_beyond_their_bound_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_engine, "_MOST_BYTES", 1 << 17)
    session = constraint(Value(strings=[Text(anything(), 0, 100_000)])).session()
    with pytest.raises(LimitError, match="states of the schema's texts take") as raised:
        session.advance_bytes(session.start(1), [b'"' + b"a" * 5000])
    assert raised.value.details["limit"] == "memo_bytes"


def test_a_maximum_beyond_32_bits_is_as_none() -> None:
    bounded = constraint(Value(strings=[Text(anything(), 0, (1 << 33) + 5)]))
    free = constraint(Value(strings=[Text(anything())]))
    masks = []
    for made in (bounded, free):
        session = made.session()
        states = session.advance_bytes(session.start(2), [b'"', b'"\\u00e9ab'])
        masks.append(state_masks(session, states, made.vocabulary.width))
    np.testing.assert_array_equal(*masks)


def test_threads_that_share_an_engine_are_told_the_same() -> None:
    made = record()
    made.memo_bytes = 1 << 12

    def walked(seed: int) -> list[list[int]]:
        session, rng, told = made.session(), np.random.default_rng(seed), []
        states = session.start(1)
        for _ in range(300):
            before, ids = states, session.allowed(states)[1]
            told.append(ids.tolist())
            going = ids[~np.isin(ids, made.vocabulary.eos_token_ids)]
            states = session.start(1)
            if len(going):
                states = session.advance(before, rng.choice(going, 1))
        return told

    alone = [walked(seed) for seed in range(4)]
    made._engine = None
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(walked, range(4))) == alone


# --- Masks of random programs against the plain reading, token by token, along random walks.

_MOST_STACKS = 40
"""Where alternatives overlap level by level, the plain reading grows beyond measure."""


@pytest.mark.share(16)
@pytest.mark.parametrize("seed", range(heavy_or(40, 2000)))
def test_masks_are_those_of_the_plain_reading(seed: int) -> None:
    rng, vocabulary = random.Random(seed), pieces()
    arrays = random_program(rng, vocabulary)
    reference = Reference(arrays)
    session = SchemaConstraint(arrays, vocabulary, metadata_for(vocabulary)).session()
    for _ in range(4):
        states, stacks, text = session.start(1), reference.start(), b""
        for _ in range(30):
            row = state_masks(session, states, vocabulary.width)[0]
            found = set(row.nonzero()[0].tolist())
            expected = reference.mask(stacks, vocabulary)
            assert found == expected, (text, {vocabulary.token_bytes[t] for t in found ^ expected})
            going = sorted(expected - set(vocabulary.eos_token_ids))
            if not going or len(stacks) > _MOST_STACKS:
                break
            # Tokens that close and go on are as likely as the many that only open further.
            token = min(rng.sample(going, min(3, len(going))), key=lambda t: _opens(vocabulary, t))
            states = session.advance(states, np.array([token]))
            text += vocabulary.token_bytes[token]
            stacks = reference.follow(stacks, vocabulary.token_bytes[token])


def _opens(vocabulary: object, token: int) -> int:
    text = vocabulary.token_bytes[token]  # type: ignore[attr-defined]
    return sum(text.count(c) for c in b"[{") - sum(text.count(c) for c in b"]}")


# --- Numbers that masks would write otherwise, and texts that cannot be read: verdicts agree.

BOUNDED = {"type": "number", "minimum": 0}
DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


def constraint_of(schema: Any, **options: Any) -> SchemaConstraint:
    return schema_constraint(json.dumps(schema), BYTES, SchemaOptions(**options))


def verdict_of(schema: Any, text: str, **options: Any) -> dict[str, Any]:
    made = constraint_of(schema, **options)
    (said,) = text_verdicts(made, [text.encode()])
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
    (said,) = text_verdicts(older, [b"1e400"])
    assert said["valid"] and older.accepts(b"1e400")
