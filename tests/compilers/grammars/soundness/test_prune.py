"""What nothing completes is left out: every allowed token has a completion, and no text is lost."""

from __future__ import annotations

from typing import Any

import lark
import numpy as np
import pytest

from cdec.compilers import grammar_constraint
from cdec.compilers.grammars.soundness import split
from cdec.core import Vocabulary
from cdec.core.errors import CdecError
from tests.core.grammars.walks import accepts, alive_bytes, completes, walk
from tests.laws.grammar_cases import byte_vocabulary, random_grammar, texts_over
from tests.laws.sessions import assert_session_laws

VOCABULARY = byte_vocabulary()
LEFT_OUT = "what nothing completes is left out"
ISSUE = 'start: "r:" x | "s:" x ID\nx: ID "and" ID | ID\nID: /[a-z\u03b1-\u03c9]+/\n%ignore " "\n'
UNSOUND = {
    "a stack that nothing completes": ('start: "x" A | "y" A "a" "!"\nA: /a+/\n', "xya!"),
    "a stack deep down": (
        'start: "b" y "ab" | "c" y\ny: x | "b" y "c"\nx: A A?\nA: /a/\n%ignore /c{2}/\n',
        "abc",
    ),
    "half a character": (
        'start: "b" x | "c" x A\nx: A "ba" A | A\nA: /[abé]+/\n%ignore "c"',
        "abcé",
    ),
    "a longer terminal that may not come": ('start: N "." I\nN: /0+(\\.x)?/\nI: /x/\n', "0.x"),
    "what is ignored holds back": ('start: A "b" | "c" A\nA: /a+/\n%ignore /bb?a?/\n', "abc"),
    "ignored text at the start": ('start: "a" "b" | "c"\n%ignore /a{2}|b/\n', "abc"),
}
"""Grammars that are not proved sound, and their letters."""


def made(source: str, lexer: Any = "contextual", **options: Any) -> Any:
    options = {"max_whitespace": None} | options
    return grammar_constraint(source, VOCABULARY, lexer=lexer, **options)


def assert_left_out(constraint: Any, source: str, lexer: str, letters: str, longest: int) -> None:
    """Compare the language with lark's, and look for a completion after every allowed token."""
    parser = lark.Lark(source, parser="lalr", lexer=lexer)
    session = constraint.session("cpu")
    for text in texts_over(letters, longest):
        try:
            parser.parse(text)
            expected = True
        except lark.exceptions.LarkError:
            expected = False
        assert accepts(session, text.encode()) == expected, (text, source)
        for end in range(len(text.encode()) if expected else 0):
            assert alive_bytes(session, text.encode()[:end]), (text, end, source)
    alphabet = np.array(sorted(set(letters.encode())), np.int64)
    states = session.start(1)
    met = set(states.tolist())
    for _ in range(4):
        _, ids = session.allowed(states)
        counts = np.diff(session.allowed(states)[0])
        is_text = ids < VOCABULARY.size - 1
        reached = session.advance(np.repeat(states, counts)[is_text], ids[is_text])
        fresh = sorted(set(reached.tolist()) - met)
        for state in fresh:
            assert completes(session, state, alphabet), source
        met.update(fresh)
        states = np.array(fresh[:100], np.int64)
        if not fresh:
            break


@pytest.mark.parametrize(
    ("source", "example"),
    [
        (ISSUE, rb"r:a and\xce"),
        (UNSOUND["a stack that nothing completes"][0], b"y"),
        (UNSOUND["ignored text at the start"][0], b"ab"),
    ],
)
def test_a_text_that_would_lead_nowhere_is_shown(source: str, example: bytes) -> None:
    constraint = made(source)
    reason = constraint.metadata["cdec.sound_reason"]
    assert reason == f'{LEFT_OUT}, such as texts that begin "{example.decode()}"'


def test_bytes_of_a_longer_terminal_that_the_parser_refuses_are_not_allowed() -> None:
    constraint = made(ISSUE)
    assert constraint.is_sound
    session = constraint.session("cpu")
    after = {
        text: {VOCABULARY.token_bytes[t] for t in session.allowed(walk(session, text.encode()))[1]}
        for text in ("r:ab and", "r:ab and ", "s:ab and")
    }
    assert after["r:ab and"] == {b" ", b" a"}
    assert {b"\xce", b"\xcf"} <= after["r:ab and "] & after["s:ab and"]


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", UNSOUND)
def test_every_allowed_token_has_a_completion(name: str, lexer: str) -> None:
    source, letters = UNSOUND[name]
    try:
        constraint = made(source, lexer)
    except CdecError as error:
        assert (lexer, error.code) == ("basic", "E_EMPTY_LANGUAGE")
        return
    assert constraint.is_sound
    if lexer == "contextual":
        assert constraint.metadata["cdec.sound_reason"].startswith(LEFT_OUT)
    assert_left_out(constraint, source, lexer, letters, 5)


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
def test_random_grammars_lose_no_text_and_keep_no_dead_end(lexer: str) -> None:
    rng = np.random.default_rng(len(lexer))
    compared = 0
    for _ in range(100):
        source = random_grammar(rng, nullable=True).replace("b", "é" if rng.random() < 0.5 else "b")
        try:
            lark.Lark(source, parser="lalr", lexer=lexer)
        except (lark.exceptions.LarkError, AssertionError):
            continue
        try:
            constraint = made(source, lexer)
        except CdecError as error:
            assert error.code == "E_EMPTY_LANGUAGE", source
            continue
        assert constraint.is_sound, source
        if constraint.metadata["cdec.sound_reason"].startswith(LEFT_OUT):
            compared += 1
            assert_left_out(constraint, source, lexer, "abcé", 4)
    assert compared >= 5


def test_what_is_too_large_to_tell_apart_is_said_to_be_unproved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(split, "MAX_STATES", 3)
    constraint = made(ISSUE)
    assert not constraint.is_sound
    assert "not left out: more than 3 states" in constraint.metadata["cdec.sound_reason"]
    assert accepts(constraint.session("cpu"), b"s:ab and cd ef")


@pytest.mark.parametrize(("pattern", "is_sound"), [("[ab]+", True), ("a+(b!)?", False)])
def test_a_byte_without_a_token_matters_where_no_other_does(pattern: str, is_sound: bool) -> None:
    tokens = [bytes([byte]) for byte in range(256) if byte != ord("b")] + [b"ab", b""]
    end = len(tokens) - 1
    vocabulary = Vocabulary(tokens, [end], [end], name="no b")
    source = f'start: "x" A | "y" A "a" "?"\nA: /{pattern}/\n'
    constraint = grammar_constraint(source, vocabulary, lexer="contextual", max_whitespace=None)
    assert constraint.is_sound == is_sound
    assert constraint.metadata["cdec.sound_reason"].startswith(
        LEFT_OUT if is_sound else "soundness unproved: tokens can run out inside A"
    )


@pytest.mark.parametrize("name", ["half a character", "what is ignored holds back"])
def test_the_laws_of_sessions_hold_without_what_nothing_completes(name: str) -> None:
    source, _ = UNSOUND[name]
    constraint, again = made(source), made(source)
    assert all(map(np.array_equal, constraint.arrays, again.arrays))
    assert_session_laws(constraint, [], np.random.default_rng(5), walks=6, max_steps=12)


def test_copies_of_a_terminal_have_one_name() -> None:
    constraint = made(ISSUE)
    inside = constraint.tree(state=0, width=80).live
    assert inside is not None and len(inside) == len(set(inside))
    *_, last = constraint.explain(list(b"s:ab and c"))
    viable = [name for reading in last["readings"] for name in reading["viable"]]
    assert len(viable) == len(set(viable)) > 1
