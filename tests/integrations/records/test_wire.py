"""Calls that are not written as JSON: what is allowed, how it is read, what cannot be written."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jsonschema
import numpy as np
import pytest

from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.tools import CallForm, schema_of_tools
from cdec.core.combine.rewritten import RewrittenConstraint
from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import UsageError
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import first_rejected_byte
from cdec.integrations.records.wire import HARMONY, PYTHONIC, QWEN, Wire
from tests.laws.sessions import (
    assert_batch_is_rows,
    assert_masks_are_steps_along,
    assert_members,
    assert_session_laws,
    assert_states_agree,
    assert_threads_agree,
    random_prefixes,
    states_after,
)

STRING = {"type": "string"}
TREE = {"type": ["array", "object", "null", "boolean"], "items": STRING}
FIND = {
    "name": "find",
    "parameters": {
        "type": "object",
        "properties": {
            "q": {"type": "string", "maxLength": 6},
            "n": {"type": "number"},
            "t": {**TREE, "additionalProperties": {"type": ["string", "boolean", "integer"]}},
        },
        "required": ["q"],
        "additionalProperties": False,
    },
}
FINDER = {
    "name": "finder",
    "parameters": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "some": {"anyOf": [STRING, {"type": "null"}]}},
        "minProperties": 1,
        "additionalProperties": False,
    },
}
ANY = {"name": "any.thing"}
TOOLS = [FIND, FINDER, ANY]
WORDS = ("<|constrain|>", "<|message|>", "<|end|>")
PIECES = (
    *("find", "finder", "<function=", "<parameter=", "</parameter>\n", ">\n", "\n</", "\n\n", "ue"),
    *(
        "(q=",
        "', n",
        "=1",
        ", ",
        ")]",
        '"q"',
        '{"q": "',
        '":"',
        '\\"',
        "\\",
        "'",
        "\\u00",
        "é",
        "e4",
    ),
    *(" js", "json", "True", "None)", "Fal", "[]", "{}", '", ', "\n<", ")", "q>\nab\n"),
)


def vocabulary() -> Vocabulary:
    """Return bytes, pieces that cross what formats are made of, and special tokens."""
    tokens = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in PIECES]
    special = {word: len(tokens) + n for n, word in enumerate(WORDS)}
    ids = list(special.values())
    return Vocabulary([*tokens, b"", b"", b""], [ids[-1]], ids, name="wire", special_tokens=special)


VOCABULARY = vocabulary()


def held(wire: Wire, tools: Sequence[Any] = TOOLS, *, most: int | None = 1) -> RewrittenConstraint:
    is_list = wire is PYTHONIC
    schema = schema_of_tools(json.dumps(tools), form=CallForm(is_list=is_list, most=most))
    inner = schema_constraint(schema, VOCABULARY)
    return RewrittenConstraint(inner, wire.of(tools, VOCABULARY))


def read_xml(text: str) -> list[Any]:
    whole = re.fullmatch(r"<function=(.*?)>\n((?:.|\n)*)</function>", text)
    assert whole
    pattern = r"<parameter=(.*?)>\n((?:.|\n)*?)\n</parameter>\n"
    assert not re.sub(pattern, "", whole[2])
    arguments = {
        key: value if (whole[1], key) in {("find", "q"), ("finder", "kind")} else json.loads(value)
        for key, value in re.findall(pattern, whole[2])
    }
    return [{"name": whole[1], "arguments": arguments}]


def read_harmony(text: str) -> list[Any]:
    name, arguments = re.fullmatch(r"(\S+) json(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return [{"name": name, "arguments": json.loads(arguments)}]


def read_python(text: str) -> list[Any]:
    calls = ast.parse(text, mode="eval").body.elts  # type: ignore[attr-defined]
    return [
        {
            "name": ast.unparse(call.func),
            "arguments": {each.arg: ast.literal_eval(each.value) for each in call.keywords},
        }
        for call in calls
    ]


STYLES: dict[str, tuple[Wire, Callable[[str], list[Any]], dict[str, bool | None]]] = {
    "qwen": (
        QWEN,
        read_xml,
        {
            "<function=find>\n<parameter=q>\na\n\n</parameter>\n</function>": True,
            "<function=find>\n<parameter=q>\n\n</parameter>\n</function>": True,
            '<function=find>\n<parameter=q>\n{"\\\n</parameter>\n</function>': True,
            "<function=find>\n<parameter=n>\n1e4\n</parameter>\n<parameter=q>\n</par\n</parameter>\n"
            "</function>": True,
            "<function=finder>\n<parameter=some>\nnull\n</parameter>\n</function>": True,
            '<function=finder>\n<parameter=some>\n"x"\n</parameter>\n</function>': True,
            "<function=any.thing>\n</function>": True,
            "<function=finder>\n</function>": False,
            "<function=find>\n</function>": False,
            "<function=finder>\n<parameter=some>\nx\n</parameter>\n</function>": False,
            "<function=finder>\n<parameter=kind>\nc\n</parameter>\n</function>": False,
            "<function=find>\n<parameter=q>\nabcdefg\n</parameter>\n</function>": False,
            "<function=find>\n<parameter=n>\n1e\n</parameter>\n<parameter=q>\na\n</parameter>\n"
            "</function>": False,
        },
    ),
    "harmony": (
        HARMONY,
        read_harmony,
        {
            'find json{"q":"a\\"b"}': True,
            'find json{"q": "a", "t": [{}]}': False,
            'find json{"q": "a", "t": ["x", "y"]}': True,
            'find json{"q":"a","t":["x","y"]}': True,
            'find json{"q":"a", "n":1}': None,  # valid, and never written
            "any.thing json{}": True,
            "find json{}": False,
            "fin json{}": False,
            'find json[{"q":"a"}]': False,
        },
    ),
    "pythonic": (
        PYTHONIC,
        read_python,
        {
            "[find(q='a')]": True,
            '[find(n=-1.5, q="it\'s", t=[\'x\', "\\u00e4"])]': True,
            "[find(q='\\'\"\\\\', t={'k': True, \"l\": -3})]": True,
            "[find(t=None, q='é')]": True,
            "[finder(some='x', kind=\"b\")]": True,
            "[any.thing()]": True,
            "[find(t=null, q='a')]": False,
            "[find()]": False,
            "[find(q='a'), any.thing()]": False,
            "[find(q='a', )]": False,
            "[find(q='\\ud83d')]": False,
            "[]": False,
        },
    ),
}


@pytest.fixture(scope="module", params=STYLES)
def style(request: pytest.FixtureRequest) -> Any:
    return request.param, *STYLES[request.param]


def tokens_of(name: str, text: str, rng: np.random.Generator) -> list[int]:
    """Cut a text into tokens at random; special ones stand where the format has them."""
    ids: list[int] = []
    if name == "harmony":
        head, tail = text.split(" json", 1)
        constrain, message = (
            VOCABULARY.special_tokens[WORDS[0]],
            VOCABULARY.special_tokens[WORDS[1]],
        )
        parts: list[Any] = [head + " ", constrain, "json", message, tail]
    else:
        parts = [text]
    for part in parts:
        if isinstance(part, int):
            ids.append(part)
            continue
        data = part.encode()
        while data:
            fits = [t for t, b in enumerate(VOCABULARY.token_bytes) if b and data.startswith(b)]
            token = int(rng.choice(fits))
            ids.append(token)
            data = data[len(VOCABULARY.token_bytes[token]) :]
    return ids


def test_texts_are_allowed_where_their_calls_are(style: Any) -> None:
    name, wire, read, texts = style
    constraint = held(wire)
    session = constraint.session()
    rng = np.random.default_rng(0)
    for text, is_member in texts.items():
        assert bool(constraint.accepts(text.encode())) is (is_member is not False), text
        refusal = constraint._refusal(session, text.encode(), 3)
        assert (refusal is None) is bool(is_member), text
        assert is_member is not None or (refusal and refusal["written"] is False)
        states = session.start(1)
        for token in tokens_of(name, text, rng):
            states = session.advance(states, np.array([token]))
        assert bool(session.is_complete(states)[0]) is bool(is_member), text
        if is_member:
            value = constraint.facts.reader(text)  # type: ignore[misc]
            assert (value if isinstance(value, list) else [value]) == read(text)


def members(style: Any) -> Iterator[list[int]]:
    rng = np.random.default_rng(1)
    for text, is_member in style[3].items():
        if is_member:
            yield tokens_of(style[0], text, rng)


def test_masks_are_steps(style: Any) -> None:
    constraint = held(style[1])
    rng = np.random.default_rng(2)
    documents = list(members(style))
    assert_masks_are_steps_along(constraint.session(), documents, VOCABULARY, rng, detours=6)


def test_sessions_keep_the_laws(style: Any) -> None:
    constraint = held(style[1], [FIND, ANY])
    assert constraint.facts.is_sound
    walked = [ids for ids in members(style) if b"er" not in VOCABULARY.decode(ids)][:3]
    rng = np.random.default_rng(3)
    if style[0] != "harmony":
        assert_session_laws(constraint, walked, rng, walks=4, max_steps=30, max_states=60)
        return
    # Texts do not show special tokens: their bytes alone are no members.
    session = constraint.session()
    assert_members(session, walked)
    prefixes = sorted(random_prefixes(session, rng, 4, 30))
    states = np.append(states_after(session, prefixes), [DONE, DEAD])
    masks = assert_states_agree(session, states, VOCABULARY)
    np.testing.assert_array_equal(masks.any(1), (states != DONE) & (states != DEAD))
    assert_batch_is_rows(session, states[-16:], VOCABULARY)
    assert_threads_agree(constraint, prefixes[-40:], masks[:-2][-40:])


def test_whatever_is_drawn_is_a_call_of_the_tools(style: Any) -> None:
    """Random walks that prefer ends: each text is read by another parser, and its call is valid."""
    _, wire, read, _ = style
    constraint = held(wire, most=None)
    schemas = {tool["name"]: tool.get("parameters", {"maxProperties": 0}) for tool in TOOLS}
    rng = np.random.default_rng(4)
    session, found = constraint.session(), 0
    ends = set(VOCABULARY.eos_token_ids)
    closing = set(map(ord, "'\"]})>\n/")) | {ord("<")}
    for _ in range(150):
        states, ids = session.start(1), []
        while len(ids) < 120:
            allowed = session.allowed(states)[1].tolist()
            assert allowed, VOCABULARY.decode(ids)
            if ends & set(allowed):
                break
            likely = [token for token in allowed if token in closing]
            token = int(rng.choice(likely if likely and rng.random() < 0.6 else allowed))
            states = session.advance(states, np.array([token]))
            ids.append(token)
        if not session.is_complete(states)[0]:
            continue
        found += 1
        text = VOCABULARY.decode(ids)
        assert constraint.accepts(text), text
        for call in read(text.decode()):
            jsonschema.validate(call["arguments"], schemas[call["name"]])
        value = constraint.facts.reader(text.decode())  # type: ignore[misc]
        assert (value if isinstance(value, list) else [value]) == read(text.decode())
    assert found > 20


def test_bytes_that_a_mode_passes_change_nothing(style: Any) -> None:
    """The law by which masks leave tokens of such bytes to the constraint within."""
    seen: set[Any] = set()
    for text, is_member in style[3].items():
        places = {mode for mode, _ in held(style[1]).writing.in_texts().starts()}
        for byte in text.encode() if is_member else b"":
            places = {m for mode in places for m, _ in mode.step(chr(byte), lambda _: True)}
            seen |= places
    passing = [mode for mode in seen if mode.passed]
    assert passing
    for mode in passing:
        for byte in mode.passed:
            assert (mode, bytes([byte])) in list(mode.step(chr(byte), lambda _: True))
            assert len(list(mode.step(chr(byte), lambda _: True))) == 1


def test_several_calls_stand_in_a_list() -> None:
    constraint = held(PYTHONIC, most=None)
    text = b"[any.thing(), find(q='a'), any.thing()]"
    assert constraint.accepts(text)
    assert [call["name"] for call in constraint.facts.reader(text.decode())] == [  # type: ignore[misc]
        *("any.thing", "find", "any.thing")
    ]


@pytest.mark.parametrize(
    ("wire", "tool", "found"),
    [
        (QWEN, {"name": "a b"}, "'a b'"),
        (HARMONY, {"name": 'a"'}, "calls of a function"),
        (PYTHONIC, {"name": "a-b"}, "'a-b'"),
        (QWEN, {"name": "f", "parameters": {"properties": {"a>": {}}}}, "parameter 'a>'"),
        (PYTHONIC, {"name": "f", "parameters": {"properties": {"from": {}}}}, "'from'"),
        (HARMONY, {"name": "f", "parameters": {"type": "array"}}, "no object"),
    ],
)
def test_what_cannot_be_written_is_refused(wire: Wire, tool: Any, found: str) -> None:
    with pytest.raises(UsageError, match=found):
        wire.of([tool], VOCABULARY)


@pytest.mark.parametrize(
    "more", [{"pattern": "<"}, {"enum": ["</parameter>"]}, {"enum": ["a"], "$ref": "#/x"}]
)
def test_strings_that_may_need_a_tag_are_not_proved(more: Any) -> None:
    parameters = {"type": "object", "properties": {"q": {"type": "string", **more}}}
    assert not QWEN.of([{"name": "f", "parameters": parameters}], VOCABULARY).is_sound
    assert HARMONY.of([{"name": "f", "parameters": parameters}], VOCABULARY).is_sound


def test_the_refused_byte_is_shown() -> None:
    constraint = held(HARMONY)
    found = constraint._refusal(constraint.session(), b'find json{"q":1}', 5)
    assert found is not None and found["byte"] == 14
    assert first_rejected_byte(constraint.session(), VOCABULARY, b"x", [(b"", b"")]).byte == 0
