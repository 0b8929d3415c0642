"""Strings of the format ``regex``: ECMA-262's expressions, whole and as far as they are written.

``regex_verdicts.json`` has random texts and whether V8 11.3 (Unicode 17) takes them, flag u:
``new RegExp(text, "u")``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import schema_constraint
from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.options import SchemaOptions
from cdec.compilers.schemas.sets.regexes import REGEXES
from cdec.core.artifacts.opened import bind_arrays
from cdec.core.constraint import text_verdicts
from cdec.core.errors import ArtifactInvalidError
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.regexes import is_regex, properties, tables
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.session import FAR
from cdec.core.sets.chosen import MEMBERS_KEY
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sessions import assert_masks_are_steps
from tests.laws.set_cases import set_case

VERDICTS = json.loads(Path(__file__).with_name("regex_verdicts.json").read_text())
VALID, OTHERS = VERDICTS["valid"], VERDICTS["other"]
REGEX = {"type": "string", "format": "regex"}
TOKENS = (
    "(?",
    "(?<",
    "a>",
    "\\k<",
    '")',
    "\\\\",
    "\\\\k",
    "\\\\u",
    "[^",
    "a-",
    "{2",
    ",1",
    "ab",
    '",',
)
VOCABULARY = byte_vocabulary(TOKENS)


def compiled(more: Any = None, **options: Any) -> SchemaConstraint:
    return schema_constraint(REGEX | (more or {}), VOCABULARY, SchemaOptions(**options))


def taken(constraint: SchemaConstraint, texts: list[str]) -> list[bool]:
    """Say which strings are members, by the states that their JSON texts lead to."""
    session = constraint.session()
    spelled = [json.dumps(text, ensure_ascii=i % 2 == 0).encode() for i, text in enumerate(texts)]
    states = session.advance_bytes(session.start(len(texts)), spelled)
    ends = np.zeros(len(texts), bool)
    ends[states >= 0] = session.is_complete(states[states >= 0])
    return [bool(end) for end in ends]


def test_texts_are_judged_as_an_engine_of_ecmascript_does() -> None:
    assert [text for text in VALID if not is_regex(text)] == []
    assert [text for text in OTHERS if is_regex(text)] == []
    assert len(VALID) == 700 and len(OTHERS) == 500


def test_masks_hold_what_is_judged_to_be_one() -> None:
    ours = compiled()
    assert [text for text, held in zip(VALID, taken(ours, VALID), strict=True) if not held] == []
    assert [text for text, held in zip(OTHERS, taken(ours, OTHERS), strict=True) if held] == []


LIMITS = {
    "a{99999999999999999999,99999999999999999998}": False,
    "a{00012,000000000000000000013}": True,
    "\\4294967295": False,
    "(" * 5000 + ")" * 5000: True,
    "(" * 5000: False,
    "(a)" * 11 + "\\11": True,
    "(a)" * 11 + "\\12": False,
    "[\\ud83d\\ude05-\\ud83d]": False,
    "[\\ud83d-\\ude00]": True,
    "[\\ude00-\\ud83d\\ude00]": True,
    "\\u{" + "0" * 5000 + "41}": True,
}


def test_numbers_and_depth_have_no_limit_but_the_standard_s() -> None:
    assert [is_regex(text) for text in LIMITS] == list(LIMITS.values())
    assert taken(compiled(), list(LIMITS)) == list(LIMITS.values())


def prefixes(texts: list[str], seed: int) -> Iterator[bytes]:
    """Yield JSON texts of strings, some characters spelled by their numbers."""
    rng = np.random.default_rng(seed)
    for text in texts:
        spelled = b""
        for character in text:
            units = character.encode("utf-16-be")
            if rng.random() < 0.2:
                spelled += b"".join(
                    b"\\u%b" % units[i : i + 2].hex().encode() for i in (0, 2)[: len(units) // 2]
                )
            else:
                spelled += json.dumps(character, ensure_ascii=False).encode()[1:-1]
        yield b'"' + spelled


CONDITIONS: dict[str, tuple[Any, Any]] = {
    "alone": ({}, lambda text: True),
    "long": ({"minLength": 6}, lambda text: len(text) >= 6),
    "digits": ({"pattern": r"\b\d{2}\b"}, lambda text: re.search(r"\b\d{2}\b", text)),
    "both": (
        {"pattern": "a.b", "minLength": 5},
        lambda text: re.search("a.b", text) and len(text) > 4,
    ),
}


def assert_no_dead_ends(texts: list[str], more: Any, holds: Any) -> int:
    """From every state on the way of a text an end is reached; return how many states were met."""
    ours = compiled(more, escapes="any")
    session, met = ours.session(), set[int]()
    for text, spelled in zip(texts, prefixes(texts, len(texts)), strict=True):
        state = session.start(1)
        for byte in spelled + b'"':
            state = session.advance_bytes(state, [bytes([byte])])
            if state[0] < 0:
                break
            if int(state[0]) not in met:
                assert session.fewest_tokens(state)[0] < FAR, spelled
            met.add(int(state[0]))
        is_whole = state[0] >= 0 and bool(session.is_complete(state)[0])
        assert is_whole == bool(is_regex(text) and holds(text)), text
    return len(met)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_beginning_can_be_completed(condition: str) -> None:
    texts = [*VALID[::25], *OTHERS[::25]]
    assert assert_no_dead_ends(texts, *CONDITIONS[condition]) > 200


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_beginning_of_all_texts_can_be_completed(condition: str) -> None:
    assert assert_no_dead_ends([*VALID, *OTHERS], *CONDITIONS[condition]) > 4000


BEGINNINGS = (
    *("", "a", "(", "(?<a", "(?<a>)(?<a", "\\k<b>", "[a-", "[\\d-", "[\\ud83d", "[b-\\ud83d"),
    *("a{2,", "\\1", "\\u{1", "\\p{L", "\\", "(?", "[^", "a*"),
)


@pytest.mark.parametrize("more", [{}, {"minLength": 9}, {"pattern": "é1"}])
def test_masks_are_steps(more: Any) -> None:
    """Where tokens run across quotes, escapes and characters; in arrays of strings that differ."""
    for around in (
        lambda one: one,
        lambda one: {"type": "array", "items": one, "uniqueItems": True},
    ):
        ours = schema_constraint(around(REGEX | more), VOCABULARY)
        session = ours.session()
        opening = b"[" if isinstance(around(1), dict) else b""
        texts = [opening + json.dumps(begun)[:-1].encode() for begun in BEGINNINGS]
        states = session.advance_bytes(session.start(len(texts)), texts)
        assert (states >= 0).all()
        assert_masks_are_steps(session, states, VOCABULARY)


def test_items_that_must_differ_do() -> None:
    ours = schema_constraint({"type": "array", "items": REGEX, "uniqueItems": True}, VOCABULARY)
    session = ours.session()
    texts = [b'["a+","a+', b'["a+","a+"', b'["a+","a+b"]', b'["a+","(a+"']
    states = session.advance_bytes(session.start(4), texts)
    assert (states >= 0).tolist() == [True, False, True, False]


COMBINED: dict[str, tuple[Any, list[str], list[str]]] = {
    "few strings of a pattern": ({"pattern": r"^(a|\(|b\))$"}, ["a"], ["(", "b)", "c"]),
    "an enum": ({"enum": ["a", "(a", 1]}, ["a"], ["(a", "b"]),
    "a constant": ({"const": "[a]"}, ["[a]"], ["a"]),
    "another format": (
        {"allOf": [{"format": "regex"}, {"minLength": 2}, {"format": "regex"}]},
        ["ab"],
        ["a", "(a"],
    ),
    "a default is a comment": ({"default": "("}, ["a"], ["("]),
}


@pytest.mark.parametrize("name", COMBINED)
def test_what_stands_beside_the_format_holds_too(name: str) -> None:
    more, inside, outside = COMBINED[name]
    ours = compiled(more)
    assert taken(ours, [*inside, *outside]) == [True] * len(inside) + [False] * len(outside)
    verdicts = [ours.accepts(json.dumps(text).encode()) for text in (*inside, *outside)]
    assert verdicts == [True] * len(inside) + [False] * len(outside)


@pytest.mark.parametrize(
    "more",
    [{"maxLength": 5}, {"pattern": "^a"}, {"pattern": "^[^b]*$"}, {"pattern": r"\($"}],
    ids=str,
)
def test_what_may_lead_to_a_dead_end_is_refused_by_name(more: Any) -> None:
    with pytest.raises(SchemaUnsupportedError, match="regex"):
        compiled(more)


def test_strings_that_are_no_expressions_are_refused_by_name() -> None:
    with pytest.raises(SchemaUnsupportedError, match="format"):
        schema_constraint({"not": REGEX}, VOCABULARY)
    loose = schema_constraint(
        {"not": REGEX, "type": "string"}, VOCABULARY, SchemaOptions(lenient=True)
    )
    assert loose.facts.unenforced


def test_formats_that_are_comments_hold_nothing() -> None:
    assert taken(compiled(formats="annotate"), ["("]) == [True]


def test_a_refusal_says_that_it_is_no_expression() -> None:
    ours = schema_constraint({"properties": {"p": REGEX}, "type": "object"}, VOCABULARY)
    (refusal,) = text_verdicts(ours, [b'{"p": "(a))"}'])
    assert refusal["byte"] == 10
    said = "no regular expression of ECMA-262 (flag u) that may stand here begins with '(a))'"
    assert said in refusal["reason"]


def test_starts_of_an_artifact_are_states_of_its_program() -> None:
    ours = compiled()
    for start in (-1, len(ours.arrays.state_label)):
        metadata = dict(ours.metadata) | {
            MEMBERS_KEY: json.dumps([{"format": "regex", "start": start}])
        }
        with pytest.raises(ArtifactInvalidError, match="states"):
            bind_arrays("schema", ours.arrays._asdict(), metadata, VOCABULARY)


def test_names_hold_the_characters_that_unicode_lets_them() -> None:
    held = tables()
    for ranges, first in ((held.starts, "a"), (held.continues, "a")):
        assert (np.diff(ranges) >= 0).all() and len(ranges) % 2 == 0 and ord(first) >= ranges[0]
    for character in "aé中𝒜$_ªↈ℘":
        assert is_regex(f"(?<{character}>)")
    for character in "1-·\u200dⸯ😀 ":
        assert not is_regex(f"(?<{character}>)")
        assert is_regex(f"(?<a{character}>)") == (character in "1·\u200d")
    assert unicodedata.category("ⸯ") == "Lm"
    assert {"L", "gc=Lu", "Script=Greek", "scx=Grek", "Alphabetic", "Emoji"} <= properties()
    assert not {"Greek", "Script", "L=Lu", "", "greek"} & properties()


def test_conditions_are_joined_before_they_are_judged() -> None:
    both = Strings.pattern("^[a(]*$") & Strings.pattern("^.{0,2}$")
    assert sorted(REGEXES.among(both).finite(9) or ()) == ["", "a", "aa"]
    joined = compiled({"allOf": [{"pattern": "^[a(]*$"}, {"pattern": "^.{0,2}$"}]})
    assert taken(joined, ["a", "aa", "(", "aaa"]) == [True, True, False, False]


def test_expressions_stand_beside_sets_but_are_no_members_of_them() -> None:
    case = set_case("(", "b")
    cities = {"type": "string", "x-cdec-set": case.name}
    either = schema_constraint({"anyOf": [REGEX | {"minLength": 3}, cities]}, VOCABULARY)
    held = either.with_sets({case.name: case.given})
    assert taken(held, ["a*b", "(", "b", "(b", "(b)"]) == [True, True, True, False, True]
    with pytest.raises(SchemaUnsupportedError, match="format"):
        schema_constraint({"allOf": [REGEX, cities]}, VOCABULARY)
