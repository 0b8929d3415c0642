"""Strict JSON: what two readers could take differently is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import EncodingError, JsonError
from cdec.data.input.json_text import MAX_DEPTH, field_with_changed_integer, parse_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('a"\\\n\u00e9', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def parse(data: bytes) -> object:
    return parse_json(data, "x.jsonl", 7, 0)


@settings(max_examples=300, deadline=None)
@given(JSON, st.booleans())
def test_every_valid_value_is_read(value: Any, ascii: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii).encode()) == value


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.text('k"\\', max_size=2), JSON), min_size=1, max_size=4))
def test_an_object_is_refused_exactly_when_a_key_stands_twice(pairs: list[tuple[str, Any]]) -> None:
    text = ",".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs)
    for data in (f"{{{text}}}", f'[1, {{"o": {{{text}}}}}]'):
        if len({key for key, _ in pairs}) == len(pairs):
            assert parse(data.encode()) == json.loads(data)
        else:
            with pytest.raises(JsonError, match="twice"):
                parse(data.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"{oops",
        b"",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"a": 1} x',
        b'{"a": 1}\x00',
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
    ],
)
def test_what_json_does_not_allow_is_refused(data: bytes) -> None:
    with pytest.raises(JsonError) as caught:
        parse(data)
    assert caught.value.details["line"] == 7
    assert "x.jsonl, line 7" in caught.value.message


def test_invalid_utf8_is_an_encoding_error() -> None:
    with pytest.raises(EncodingError) as caught:
        parse_json(b'{"a": "\xff"}', "x", 3, 100)
    assert caught.value.details == {"line": 3, "byte_offset": 108}


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
def test_deep_nesting_is_refused_and_moderate_nesting_is_not(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * depth + "1" + closing * depth
        with pytest.raises(JsonError, match=r"nesting|depth"):
            parse(deep.encode())
        fine = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
        assert parse(fine.encode()) == json.loads(fine)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b'{"seed": 1180591620717411303424}', "seed"),
        (b'{"a": 1, "b": {"c": [-9223372036854775809]}}', "b"),
        (b'{"a": 18446744073709551615}', None),
        (b'{"a": -9223372036854775808}', None),
        (b'{"mass": 1.989e30, "b": 1e300}', None),
    ],
)
def test_integers_that_became_floats_are_found(data: bytes, field: str | None) -> None:
    record = parse(data)
    assert isinstance(record, dict)
    assert field_with_changed_integer(record, data) == field
