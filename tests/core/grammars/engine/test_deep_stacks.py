"""Masks above parser stacks of every height to 400, in grammars whose language is known by hand."""

from __future__ import annotations

import string
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest

from cdec.core.grammars.grammar_constraint import GrammarConstraint
from tests.core.grammars.engine.engine_cases import byte_vocabulary, constraint_of, session_with
from tests.laws.sessions import state_masks

_LETTERS = set(string.ascii_lowercase)
_END = "end"
_HEIGHT = 400
_LEXERS = ("contextual", "basic", "dynamic")

SHAPES = {
    "power": 'start: e "."\ne: "x" "^" e | "x"\n',
    "list": 'start: l "."\nl: /[a-z]+/ "," l | /[a-z]+/\n',
    "prefix": 'start: e "."\ne: "!" e | "x"\n',
    "groups": 'start: t "."\nt: a ">" t | a\na: "x" | "(" t ")"\n',
    "statements": 'start: s "."\ns: "a" ";" s | "a" ";"\n',
    "left": 'start: n "."\nn: n "," "x" | "x"\n',
    "sums": 'start: s "."\ns: s "+" p | p\np: "x" | "[" s "]"\n',
    "ambiguous": 'start: e "."\ne: "-" e | e "+" e | "(" e ")" | "a"\n',
}
"""Name -> grammar; the last one for ``dynamic`` alone."""

TEXTS = {
    "power": ["x^" * _HEIGHT + "x"],
    "list": ["a," * _HEIGHT + "ab", "abc," * (_HEIGHT // 2)],
    "prefix": ["!" * _HEIGHT + "x"],
    "groups": [
        "x>" * _HEIGHT + "x",
        "(" * _HEIGHT + "x" + ")" * _HEIGHT,
        "x>(" * (_HEIGHT // 3) + "x" + ")" * (_HEIGHT // 3),
        "(x>" * (_HEIGHT // 3) + "x" + ")" * (_HEIGHT // 3),
    ],
    "statements": ["a;" * _HEIGHT],
    "left": ["x," * _HEIGHT + "x"],
    "sums": [
        "x+" * _HEIGHT + "x",
        "[" * _HEIGHT + "x" + "]" * _HEIGHT,
        "x+[" * (_HEIGHT // 3) + "x" + "]" * (_HEIGHT // 3),
    ],
    "ambiguous": [
        "-" * _HEIGHT + "a",
        "(" * _HEIGHT + "a" + ")" * _HEIGHT,
        "-(" * (_HEIGHT // 2) + "a" + ")" * (_HEIGHT // 2),
        "a+" * (_HEIGHT // 4) + "a",
    ],
}
"""Name -> what is walked: nested to the right, to the left, and in brackets."""


def expected(shape: str, text: str) -> set[str]:
    """Return what may follow a text, by the last letter and the open brackets."""
    last, is_open = text[-1:], sum(map(text.count, "([")) > sum(map(text.count, ")]"))
    if last == ".":
        return {_END}
    if shape == "power":
        return {"": {"x"}, "x": {"^", "."}, "^": {"x"}}[last]
    if shape == "list":
        return {*_LETTERS, ",", "."} if last in _LETTERS else _LETTERS
    if shape == "prefix":
        return {"."} if last == "x" else {"!", "x"}
    if shape == "statements":
        return {"": {"a"}, "a": {";"}, ";": {"a", "."}}[last]
    if shape == "left":
        return {",", "."} if last == "x" else {"x"}
    begins = {"groups": {"x", "("}, "sums": {"x", "["}, "ambiguous": {"-", "(", "a"}}[shape]
    if last not in ("x", "a", ")", "]"):
        return begins
    onward, closing = {"groups": ">)", "sums": "+]", "ambiguous": "+)"}[shape]
    return {onward, closing if is_open else "."}


@lru_cache(maxsize=32)
def compiled_shape(shape: str, lexer: str) -> GrammarConstraint:
    """Return a shape's constraint, over single bytes."""
    return constraint_of(SHAPES[shape], byte_vocabulary(), lexer)


def walks(shape: str) -> Iterator[tuple[str, int, set[str]]]:
    """Yield a text, a position in it and what may follow there; a dot ends what may end."""
    for text in TEXTS[shape]:
        text += "." if "." in expected(shape, text) else ""
        for position in range(len(text) + 1):
            yield text, position, expected(shape, text[:position])


def as_mask(allowed: set[str], constraint: GrammarConstraint) -> np.ndarray:
    """Return what may follow as a mask, bool[width]; the second id of the last byte is none."""
    row = np.zeros(constraint.vocabulary.width, np.bool_)
    row[[ord(letter) for letter in allowed if letter != _END]] = True
    row[list(constraint.vocabulary.eos_token_ids)] = _END in allowed
    return row


CASES = [(s, lexer) for s in SHAPES for lexer in _LEXERS if s != "ambiguous" or lexer == "dynamic"]


@pytest.mark.parametrize(("shape", "lexer"), CASES)
def test_masks_checks_and_steps_are_right_at_every_height(shape: str, lexer: str) -> None:
    constraint = compiled_shape(shape, lexer)
    session, every = constraint.session(), np.arange(constraint.vocabulary.width)
    state = session.start(1)
    for text, position, allowed in walks(shape):
        state = session.start(1) if position == 0 else state
        row = as_mask(allowed, constraint)
        where = f"after {text[:position][-60:]!r}, {position} bytes"
        masks = state_masks(session, state, len(every))
        np.testing.assert_array_equal(masks[0], row, f"mask {where}")
        np.testing.assert_array_equal(session.check(state, every[None])[0], row, f"check {where}")
        after = session.advance(np.repeat(state, len(every)), every)
        np.testing.assert_array_equal(after != -1, row, f"advance {where}")
        if position < len(text):
            state = after[ord(text[position]) :][:1]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
@pytest.mark.parametrize(("shape", "lexer"), CASES)
def test_masks_do_not_depend_on_how_much_of_a_stack_is_read_at_once(
    shape: str, lexer: str, at_once: int
) -> None:
    constraint = compiled_shape(shape, lexer)
    session = session_with(constraint, at_once=at_once)
    state = session.start(1)
    for text, position, allowed in walks(shape):
        state = session.start(1) if position == 0 else state
        row = state_masks(session, state, constraint.vocabulary.width)[0]
        np.testing.assert_array_equal(row, as_mask(allowed, constraint), f"after {position} bytes")
        if position < len(text):
            state = session.advance(state, np.array([ord(text[position])]))
