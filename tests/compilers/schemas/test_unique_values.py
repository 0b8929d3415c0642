"""uniqueItems over any values: what is equal, that nothing leads nowhere, and masks of tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.compilers.schemas.sets.shapes import canonical
from cdec.core.errors import CdecError
from cdec.core.schemas.validity import parser_of
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.sessions import state_masks

PIECES = [
    *(b"},{", b'{"a":', b'},{"a":', b"true", b'true},{"', b",true", b"],[", b"[],["),
    *(b'":', b'":true,"', b'"},{"', b'{"a":1},', b",1", b"1,1", b"1,", b"10", b".0", b"e0", b'","'),
    *(b'{"b":"x","a":true},', b",{}", b",[]", b'"b":"x"}', b"],", b"null", b",null", b'"a"', b"00"),
]
ALL = [*(bytes([byte]) for byte in range(256)), *PIECES]
WORLD = Vocabulary([*ALL, b""], [len(ALL)], [len(ALL)])


def array_of(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, "items": items} | more


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def session_of(schema: Any, **options: Any) -> Any:
    found = SchemaOptions(**{"whitespace": "compact", **options})
    return schema_constraint(json.dumps(schema), WORLD, found).session()


def accepts(session: Any, text: str) -> bool:
    states = session.advance_bytes(session.start(1), [text.encode()])
    return bool(states[0] >= 0 and session.is_complete(states)[0])


def checked_mask(session: Any, state: int) -> Any:
    """Return where each token leads from a state; the mask must say the same."""
    after = session.advance(np.full(WORLD.width, state), np.arange(WORLD.width))
    mask = state_masks(session, np.array([state]), WORLD.width)[0]
    assert [ALL[i : i + 1] for i in np.flatnonzero(mask != (after != -1))] == []
    assert mask.any()
    return after


def texts_of(schema: Any) -> Iterator[str]:
    """Yield every text; each mask is what its tokens' steps say, and leads on."""
    session = session_of(schema)
    waiting = [(int(session.start(1)[0]), b"")]
    while waiting:
        state, text = waiting.pop()
        after = checked_mask(session, state)
        if after[WORLD.width - 1] != -1:
            yield text.decode()
        waiting += [(int(after[b]), text + bytes([b])) for b in range(256) if after[b] >= 0]


def items_of(text: str) -> tuple[object, ...]:
    found = canonical(json.loads(text, parse_float=Decimal))
    assert isinstance(found, tuple)
    return found


FLAG, NAME = {"type": "boolean"}, {"enum": ["x", "xy"]}
ONE = closed(a=FLAG)
TWO = closed(a={"const": True}, b=NAME)
WORLDS: dict[str, tuple[Any, list[Any], int, int]] = {
    "closed objects": (array_of(ONE), [{}, {"a": True}, {"a": False}], 0, 3),
    "keys in any order": (
        array_of(TWO, maxItems=3),
        [a | b for a in ({}, {"a": True}) for b in ({}, {"b": "x"}, {"b": "xy"})],
        0,
        3,
    ),
    "some must come": (
        array_of(TWO | {"required": ["a"]}, minItems=2),
        [{"a": True}, {"a": True, "b": "x"}, {"a": True, "b": "xy"}],
        2,
        3,
    ),
    "arrays": (
        array_of({"type": "array", "items": FLAG, "maxItems": 1}),
        [[], [True], [False]],
        0,
        3,
    ),
    "unique within": (
        array_of(array_of(FLAG, minItems=2)),
        [[True, False], [False, True]],
        0,
        2,
    ),
    "of several types": (
        array_of({"anyOf": [{"type": "null"}, array_of(ONE, maxItems=1), {"enum": ["a", "ab"]}]}),
        [None, [], [{}], [{"a": True}], [{"a": False}], "a", "ab"],
        0,
        3,
    ),
    "objects within": (
        array_of(closed(a=ONE)),
        [{}, *({"a": x} for x in ({}, {"a": True}, {"a": False}))],
        0,
        4,
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_texts_are_all_whose_items_differ(name: str) -> None:
    schema, values, low, high = WORLDS[name]
    expected = {
        ("array", *map(canonical, items))
        for n in range(low, high + 1)
        for items in permutations(values, n)
    }
    assert {items_of(text) for text in texts_of(schema | {"maxItems": high})} == expected


# --- What is equal.


@pytest.mark.parametrize(
    ("items", "left", "right"),
    [
        ({"type": "number"}, "1", "1.0"),
        ({"type": "number"}, "1", "1e0"),
        ({"type": "number"}, "0", "-0.0"),
        ({"type": "number"}, "100", "1.0E+2"),
        ({"type": "number"}, "0.5", "5e-1"),
        ({"type": "integer"}, "12", "12.00"),
        ({}, '{"a":1,"b":[2]}', '{"b":[2.0],"a":1e0}'),
        ({}, r'"a"', r'"\u0061"'),
        ({}, r'{"a":"/"}', r'{"\u0061":"\/"}'),
        ({}, "[1,[2]]", "[1.0,[2]]"),
        ({}, "[]", "[]"),
    ],
)
def test_values_that_are_equal_stand_once(items: Any, left: str, right: str) -> None:
    session = session_of(array_of(items), escapes="any")
    for first, second in ((left, right), (right, left)):
        assert accepts(session, f"[{first}]")
        assert not accepts(session, f"[{first},{second}]")
        assert accepts(session, f"[{first},null,7]") == accepts(session, f"[{second},null,7]")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", "true"),
        ("0", "false"),
        ("1", '"1"'),
        ("[1]", "[1,1]"),
        ("1", "10"),
        ("1", "-1"),
        ("[]", "{}"),
        ("null", '"null"'),
        ('{"a":1}', '{"a":1,"b":1}'),
        ("0.1", "0.10000000000000001"),
        ('["a",["b"]]', '["a","b"]'),
    ],
)
def test_values_that_differ_stand_beside_each_other(left: str, right: str) -> None:
    session = session_of(array_of({}))
    assert accepts(session, f"[{left},{right}]")
    assert accepts(session, f"[{right},{left}]")


def test_a_member_of_a_value_stands_once() -> None:
    session = session_of(array_of({"type": "object"}))
    assert not accepts(session, '[{"a":1,"a":2}]')
    assert accepts(session_of({"type": "array"}), '[{"a":1,"a":2}]')


def test_numbers_run_out_without_leading_nowhere() -> None:
    session = session_of(array_of({"type": "integer", "minimum": 0, "maximum": 65535}))
    text = b"[65535,6553"
    state = session.advance_bytes(session.start(1), [text])
    assert session.advance_bytes(state, [b"5"])[0] < 0
    assert session.advance_bytes(state, [b","])[0] >= 0
    assert session.advance_bytes(state, [b"4,"])[0] >= 0
    checked_mask(session, int(state[0]))


# --- Walks over random schemas: what is finished is valid, what is valid is finished.

SCHEMAS = [
    array_of({"type": "object"}),
    array_of(
        {"anyOf": [{"type": "string"}, closed(name={"type": "string"}, n={"type": "integer"})]}
    ),
    array_of({"type": "integer"}, minItems=2),
    array_of({"type": "number", "maximum": 3}),
    array_of(array_of({"type": "integer", "minimum": 0, "maximum": 700}), minItems=1),
    array_of({}, contains={"type": "object"}, minContains=2),
    array_of({"type": ["integer", "string"]}, contains={"const": "a"}),
    array_of({"type": "integer"}, prefixItems=[FLAG, {"type": "string"}], minItems=3),
    array_of(FLAG, prefixItems=[{"type": "string", "minLength": 1}], maxItems=3),
    {"type": "object", "properties": {"a": array_of(TWO), "b": array_of(ONE)}, "minProperties": 1},
    {"$defs": {"t": array_of({"$ref": "#/$defs/t"})}, "$ref": "#/$defs/t"},
    array_of(closed(tags=array_of({"enum": ["p", "q"]}), ok=FLAG) | {"required": ["ok"]}),
]


def walked(session: Any, random_: random.Random, prefer: bytes, most: int = 90) -> bytes | None:
    """Draw a text; some bytes are preferred, and tokens of many bytes are taken as they come."""
    state, text = int(session.start(1)[0]), b""
    for _ in range(most):
        after = checked_mask(session, state)
        if after[WORLD.width - 1] != -1:
            return text
        allowed = np.flatnonzero(after >= 0)
        liked = [t for t in allowed.tolist() if all(byte in prefer for byte in ALL[t])]
        token = random_.choice(liked or allowed.tolist())
        state, text = int(after[token]), text + ALL[token]
    return None


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
@pytest.mark.share(4)
def test_what_is_finished_is_valid_and_its_spellings_are_taken(number: int) -> None:
    schema = SCHEMAS[number]
    session, validates = session_of(schema), parser_of(json.dumps(schema))
    assert validates is not None
    random_, finished = random.Random(number), 0
    for _ in range(12):
        text = walked(session, random_, b'[]{}",:ab01txeruflsn')
        if text is None:
            continue
        finished += 1
        assert validates(text.decode(), 0.0), text
        value = json.loads(text)
        for spelled in (value, _reversed(value)):
            assert accepts(session, json.dumps(spelled, separators=(",", ":"))), text
    assert finished


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reversed(value[name]) for name in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def test_that_items_are_equal_is_asked_only_of_arrays_that_are_left() -> None:
    branches = [array_of({"type": "string"}), array_of({"type": "integer"})]
    session = session_of({"oneOf": branches})
    taken = {
        text: accepts(session, text) for text in ('["a"]', "[1,2]", "[]", '["a","a"]', "[1,1]")
    }
    assert taken == {'["a"]': True, "[1,2]": True, "[]": False, '["a","a"]': False, "[1,1]": False}
    short = session_of({"type": "array", "maxItems": 1, "not": array_of({"type": "integer"})})
    assert accepts(short, '["a"]') and not accepts(short, "[1]")


# --- What stays refused.


def test_items_that_may_have_been_used_up_are_refused_by_name() -> None:
    schema = array_of({"const": 2}, prefixItems=[{"enum": [1, 2]}, {"const": 1}], minItems=2)
    with pytest.raises(CdecError, match="/uniqueItems cannot be enforced") as error:
        session_of(schema)
    assert error.value.details["keyword"] == "uniqueItems"
