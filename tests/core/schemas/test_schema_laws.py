"""The laws of every constraint on programs written by hand, and what they say by example."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.artifacts.opened import open_artifact
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import text_verdicts
from cdec.core.schemas.program import OWN_STYLE, USUAL_ESCAPES, arrays_from
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.schemas.programs import (
    Array,
    Automaton,
    Choice,
    Object,
    Text,
    Value,
    anything,
    blanks,
    integers,
    metadata_for,
    program,
    small_vocabulary,
    words,
)
from tests.core.schemas.reference import Reference
from tests.laws.sessions import assert_session_laws

PIECES = [
    b'":',
    b'", "',
    b'{"',
    b'"}',
    b' "',
    b"12",
    b"\\u00",
    b"true",
    b'"a"',
    b"},",
    b"]]",
    b"ab",
    *(b": {", b"\n  ", b",\n    ", b"\n\t", b"[\n"),
]


def vocabulary() -> Vocabulary:
    return small_vocabulary(PIECES)


class _Judged(SchemaConstraint):
    """Programs without a schema are judged by the plain reading."""

    def accepts(self, text: bytes) -> bool:
        return Reference(self.arrays).accepts(text)


def constraint(*values: Value, blank: int = 2, **options: Any) -> SchemaConstraint:
    words = vocabulary()
    arrays = program(values, words, blanks(blank))
    return _Judged(arrays, words, metadata_for(words), **options)


def record() -> SchemaConstraint:
    """An object with a required and two optional keys, and others that begin with "x"."""
    return constraint(
        Value(
            objects=[
                Object(
                    {"a": [Choice(1)], "ab": [Choice(2)], "é": [Choice(3)]},
                    {"x": [Choice(1)]},
                    frozenset({"a"}),
                    high=3,
                )
            ],
            place="",
        ),
        Value(raw=integers()),
        Value(strings=[Text(anything(), 1, 3)], raw=words(["null"])),
        Value(arrays=[Array([[Choice(1)], [Choice(2)]], 1, 3)]),
    )


def accepted(made: SchemaConstraint, text: str) -> bool:
    session = made.session()
    states = session.advance_bytes(session.start(1), [text.encode("utf-8", "surrogatepass")])
    return bool(session.is_complete(states)[0])


def members(made: SchemaConstraint, texts: list[str]) -> list[list[int]]:
    return [[made.vocabulary.token_bytes.index(bytes([b])) for b in t.encode()] for t in texts]


def test_laws_hold_for_objects() -> None:
    texts = ['{"a":1}', '{"xé" : 2, "a":-3}', '{"é":[1,"ab"],"a":0}', '{"ab":null,"a":4,"x":5}']
    made = record()
    assert_session_laws(made, members(made, texts), np.random.default_rng(1), max_states=120)


def test_laws_hold_for_recursive_values() -> None:
    made = constraint(
        Value(
            raw=integers(),
            strings=[Text(anything())],
            arrays=[Array([[Choice(0)]])],
            objects=[Object({}, {"": [Choice(0)]})],
        )
    )
    texts = ['[1, {"a":[]}, "\\u00e9"]', "{}", '"\\ud83d\\ude00"']
    assert_session_laws(made, members(made, texts), np.random.default_rng(2), max_states=120)


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ('{"a":1}', True),
        ('{"ab":"x","a":1}', True),
        ('{"a":1,"a":2}', False),
        ('{"\\u0061":1}', True),
        ('{"a":1,"\\u0061":2}', False),
        ('{"x":1,"x":2,"a":3}', True),
        ('{"x":1,"xx":2,"xxx":3}', False),
        ('{"a":1,"y":2}', False),
        ('{"a":1,"ab":"four"}', False),
        ('{"a":1,"ab":"\\ud83d\\ude00éx"}', True),
        ('{"a":1,"ab":"\\ud83d"}', False),
        ('{"a":1,"ab":""}', False),
        ('{"a":1,"é":[1,"a","b"]}', True),
        ('{"a":1,"é":[1,"a","b","c"]}', False),
        ('{"a":1,"é":[]}', False),
        ('{ "a"  :1\n\n}', True),
        ('{   "a":1}', False),
        ('{"a":1} ', True),
        ('{"a":1}}', False),
        ('{"a":01}', False),
        ('{"a":1,}', False),
        ("{}", False),
    ],
)
def test_objects_and_arrays_by_example(text: str, member: bool) -> None:
    made = record()
    assert accepted(made, text) == member
    assert made.accepts(text.encode()) == member


def test_half_an_escape_is_allowed_where_some_completion_is() -> None:
    made = constraint(Value(strings=[Text(words(["é", "😀"]))]))
    for head in ['"\\u', '"\\u0', '"\\u00', '"\\u00e', '"\\ud8', '"\\uD83d', '"\\ud83d\\ude0']:
        assert reaches(made, head), head
    for head in ['"\\n', '"\\u1', '"\\u00f', '"\\ud83c', '"\\ud83d"', '"\\ud83d\\ude1', '"\\ude00']:
        assert not reaches(made, head), head
    assert not reaches(constraint(Value(strings=[Text(words([""]))])), '"\\')


FEW = [
    *(("\\n", True), ('\\"', True), ("\\\\", True), ("\\u001f", True), ("\\u000A", True)),
    *(("\\u007f", True), ("\\u00e9", True), ("\\ud83d\\ude00", True), ("\\u2028", True)),
    *(("\\u0061", False), ("\\u0020", False), ("\\u007e", False), ("\\u0022", False)),
    *(("\\u005C", False), ("\\/", False), ("\\u002F", False)),
]


@pytest.mark.share(11)
@pytest.mark.parametrize(("escape", "is_usual"), FEW)
def test_usual_escapes_leave_printable_ascii_as_it_is(escape: str, is_usual: bool) -> None:
    value = Value(strings=[Text(anything(), 1, 2)])
    words = vocabulary()
    for layout, is_taken in ((0, True), (USUAL_ESCAPES, is_usual)):
        arrays = program([value], words, blanks(0), layout)
        made = _Judged(arrays, words, metadata_for(words))
        for text in (f'"{escape}"', f'"a{escape}"'):
            assert accepted(made, text) == made.accepts(text.encode()) == is_taken, text
    for text in ("\\u002", "\\u003", "\\u006", "\\u0020", "\\/"):
        assert not reaches(made, f'"{text}')
    assert reaches(made, '"\\u00') and reaches(made, '"\\u007') and reaches(made, '"\\u001')


def test_laws_hold_for_usual_escapes() -> None:
    words, value = vocabulary(), Value(strings=[Text(anything()), Text(words_of())])
    for layout in (USUAL_ESCAPES, USUAL_ESCAPES + OWN_STYLE):
        made = _Judged(program([value], words, blanks(1), layout), words, metadata_for(words))
        texts = ['"\\u00e9"', '"\\ud83d\\ude00"', '"\\n"', '"a"', '"\\\\"']
        assert_session_laws(made, members(made, texts), np.random.default_rng(5), max_states=120)


def test_no_escape_begins_where_only_what_needs_none_may_come() -> None:
    words = vocabulary()
    for plain, is_possible in (("a", False), ("é", True), ('"', True), ("/", False), ("\n", True)):
        arrays = program([Value(strings=[Text(words_of(plain))])], words, blanks(0), USUAL_ESCAPES)
        made = _Judged(arrays, words, metadata_for(words))
        assert reaches(made, '"\\') == is_possible, plain
        assert reaches(made, '"\\u') == (plain in "é\n"), plain


def words_of(*texts: str) -> Automaton:
    return words(texts or ["a", "é", "😀", "\n", "\\", '"', "/"])


def reaches(made: SchemaConstraint, text: str) -> bool:
    session = made.session()
    return int(session.advance_bytes(session.start(1), [text.encode()])[0]) >= 0


def test_distinct_items_are_counted() -> None:
    """uniqueItems over 1, 2, 3: a counter of at most 1 each; at least two items."""
    choices = [Choice(1 + i, (i,)) for i in range(3)]
    made = constraint(
        Value(arrays=[Array([choices], 2, counters=[(0, 1)] * 3)]),
        *(Value(raw=words([text])) for text in ("1", "2", "3")),
    )
    assert [accepted(made, text) for text in ("[1,2]", "[3,1,2]", "[1,1]", "[1]")] == [
        *(True, True, False, False)
    ]
    assert not reaches(made, "[1,2,3,")


def test_what_must_be_contained_keeps_its_place() -> None:
    """At least one "a" among at most two words: the last place is kept for it."""
    made = constraint(
        Value(arrays=[Array([[Choice(1, (0,)), Choice(2)]], 0, 2, counters=[(1, -1)])]),
        Value(strings=[Text(words(["a"]))]),
        Value(strings=[Text(words(["b"]))]),
    )
    assert accepted(made, '["b","a"]') and accepted(made, '["a"]') and accepted(made, '["a","b"]')
    assert not reaches(made, '["b","b') and not accepted(made, "[]")


def test_ordered_objects_take_keys_in_their_order() -> None:
    made = constraint(
        Value(
            objects=[
                Object(
                    {name: [Choice(1)] for name in "abcd"},
                    {"x": [Choice(1)]},
                    frozenset("c"),
                    order=["d", "c", "a", "b"],
                )
            ]
        ),
        Value(raw=integers()),
    )
    assert accepted(made, '{"d":1,"c":2,"b":3,"x":4,"xx":5}') and accepted(made, '{"c":1}')
    for head in ['{"a', '{"x', '{"c":1,"d', '{"c":1,"b":1,"a', '{"c":1,"x":2,"b']:
        assert not reaches(made, head), head


def recursive(layout: int) -> SchemaConstraint:
    """Any value, of which objects have two keys at most, in a layout of json.dumps."""
    value = Value(
        raw=integers(),
        strings=[Text(anything())],
        arrays=[Array([[Choice(0)]])],
        objects=[Object({"a": [Choice(0)]}, {"": [Choice(0)]}, high=2)],
    )
    words = vocabulary()
    arrays = program([value], words, blanks(0), layout)
    return _Judged(arrays, words, metadata_for(words))


NESTED: list[Any] = [
    *(1, "a", [], {}, [[]], [{}], {"a": {}}, [1, 2], {"a": 1, "b": [[], [2]]}),
    [1, [2, {"a": [3], "é": "x, y: z"}, {}]],
]
STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "spaced": {},
    "two": {"indent": 2},
    "four": {"indent": 4},
    "tab": {"indent": "\t"},
}


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_a_fixed_layout_is_that_of_json_dumps(indent: int) -> None:
    made = recursive(indent)
    for value in NESTED:
        text = json.dumps(value, indent=indent, ensure_ascii=False)
        assert accepted(made, text) and made.accepts(text.encode()), text
        for other in (json.dumps(value), json.dumps(value, indent=indent + 1), text + "\n"):
            assert accepted(made, other) == (other == text), other
    assert not reaches(made, '{\n "a": 1, ') and not reaches(made, "[\n" + " " * indent + "]")
    assert_session_laws(made, members(made, []), np.random.default_rng(3), max_states=60)


@pytest.mark.share(16)
@pytest.mark.parametrize("value", NESTED, ids=json.dumps)
@pytest.mark.parametrize("style", STYLES)
def test_a_text_of_its_own_style_is_one_that_json_dumps_writes(style: str, value: Any) -> None:
    made = recursive(OWN_STYLE)
    text = json.dumps(value, ensure_ascii=False, **STYLES[style])
    assert accepted(made, text) and made.accepts(text.encode())
    written = {json.dumps(value, ensure_ascii=False, **style) for style in STYLES.values()}
    for other in one_blank_off(text):
        if re.sub(r'(".*?")|\s', r"\1", other) == re.sub(r'(".*?")|\s', r"\1", text):
            assert accepted(made, other) == (other in written), other
            assert made.accepts(other.encode()) == (other in written), other


def one_blank_off(text: str) -> Iterator[str]:
    """Yield a text with a blank more or less, at each place."""
    for at in range(len(text) + 1):
        yield from (text[:at] + blank + text[at:] for blank in " \t\n\r")
        if text[at : at + 1] in (" ", "\t", "\n"):
            yield text[:at] + text[at + 1 :]


@pytest.mark.parametrize(
    "head",
    [
        *(" ", "\n", '{"a" ', '{"a":1 ', '{"a": 1,"', '{"a":1, ', '{"a":[1, ', '{"a": [1,2'),
        *("[ ", "[\n ]", "[\n1", "[\n 1", "[\n   1", "[\n     ", "[\n\t ", "[\n \t", "[\n\n"),
        *("[\n  1]", "[\n  1, ", "[\n  1,2", "[\n  1,\n   ", "[\n  1,\n\t", '{\n  "a":1'),
        *("[[\n", "[1,\n", "[1\n", "[\n\t1,\n  ", "[\n    [\n      1", "[\n  [\n  ]", "{}\n"),
    ],
)
def test_white_space_of_no_style_or_of_two_is_refused(head: str) -> None:
    assert not reaches(recursive(OWN_STYLE), head)


def test_laws_hold_where_texts_have_a_style_of_their_own() -> None:
    made, value = recursive(OWN_STYLE), [1, [2, {"a": [3], "é": "x"}, {}]]
    texts = [json.dumps(value, ensure_ascii=False, **style) for style in STYLES.values()]
    assert_session_laws(made, members(made, texts), np.random.default_rng(4), max_states=200)


def test_an_artifact_opens_as_the_same_constraint(tmp_path: Path) -> None:
    made = record()
    metadata = metadata_for(made.vocabulary) | {"cdec.options": json.dumps({"formats": "enforce"})}
    path = tmp_path / "record.arrow"
    write_artifact(path, "schema", made.arrays._asdict(), metadata)
    opened = open_artifact(path)
    assert isinstance(opened, SchemaConstraint) and opened.facts.is_sound
    for name, array in arrays_from(made.arrays._asdict())._asdict().items():
        np.testing.assert_array_equal(getattr(opened.arrays, name), array)
    (verdict,) = text_verdicts(opened, [b'{"a":x}'])
    assert (verdict["valid"], verdict["byte"], verdict["column"]) == (False, 5, 6)
    assert opened.accepts(b'{"a":1}') is True, "the judge asks the schema, which allows all"


def test_masks_are_dropped_and_come_again_within_a_small_budget() -> None:
    made = record()
    made.memo_bytes = 1
    session, rng, seen = made.session(), random.Random(0), dict[int, Any]()
    states, ends = session.start(1), made.vocabulary.eos_token_ids
    for _ in range(1500):
        ids = session.allowed(states)[1].tolist()
        assert seen.setdefault(int(states[0]), ids) == ids
        going = [token for token in ids if token not in ends]
        states = session.advance(states, np.array([rng.choice(going)])) if going else states
        states = session.start(1) if not going else states
    assert session.statistics()["epochs"] > 0
