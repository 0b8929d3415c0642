"""Names and items that may not come twice: what a text may still become, token by token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdec.compilers import SchemaOptions, schema_constraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.sessions import state_masks

_PIECES = [b'","', b'ab"', b'a"', b'"}', b'":', b'"]', b"\\u00", b"61", b'"a', b"ab"]
VOCABULARY = Vocabulary(
    [*(bytes([i]) for i in range(256)), *_PIECES, b""], [256 + len(_PIECES)], [256 + len(_PIECES)]
)


def follow(schema: Any, text: str) -> set[bytes]:
    """Return the tokens that may follow a text; nothing where the text has left the schema."""
    options = SchemaOptions(escapes="any")
    session = schema_constraint(json.dumps(schema), VOCABULARY, options).session()
    states = session.advance_bytes(session.start(1), [text.encode()])
    found = state_masks(session, states, VOCABULARY.width)[0].nonzero()[0]
    tokens = VOCABULARY.token_bytes
    return {tokens[i] if i < 266 else b"END" for i in found.tolist()}


OPEN = {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}
LIST = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "text", "may", "may_not"),
    [
        (OPEN, '{"a":1,"', {b'ab"', b"a", b"\\", b'":'}, {b'a"'}),
        (OPEN, '{"a":1,"a', {b"a", b'a"', b'ab"'}, {b'"', b'":'}),
        (OPEN, '{"a":1,"\\u006', {b"2", b"1", b'a"'}, {b'"'}),
        (OPEN, '{"a":1,"\\u0061', {b"b"}, {b'"', b'":'}),
        (OPEN, '{"a":1,"b":2', {b"}", b","}, set()),
        (LIST, '["a","', {b'ab"', b'"'}, {b'a"'}),
        (LIST, '["a","a', {b"b", b'a"'}, {b'"', b'","', b'"]'}),
        (LIST, '["a","b","', {b"a", b'ab"'}, {b'a"'}),
    ],
)
def test_a_remembered_text_is_not_spelled_again(
    schema: Any, text: str, may: set[bytes], may_not: set[bytes]
) -> None:
    tokens = follow(schema, text)
    assert may <= tokens
    assert not may_not & tokens
