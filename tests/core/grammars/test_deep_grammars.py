"""Random grammars with parser stacks of up to 400 LR states: masks, checks, steps and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core.constraint import DEAD
from tests.core.grammars.engine.plain_engine import (
    byte_vocabulary,
    constraint_of,
    plain_engine,
    session_with,
)
from tests.laws.grammar_cases import deep_grammar
from tests.laws.sessions import assert_masks_are_steps, assert_session_laws, state_masks

_HEIGHTS = (0, 7, 63, 64, 65, 129, 400)


def tokens_of(text: str, limit: int = 40) -> tuple[str, ...]:
    """Return pieces of a text of two and three letters, so that tokens cut it in several ways."""
    pieces = {text[at : at + n] for n in (2, 3) for at in range(len(text) - n + 1)}
    return tuple(sorted(pieces)[:limit])


def session_of(constraint: Any, rng: np.random.Generator) -> Any:
    """Return a session of unusual numbers: pauses, stacks read by pieces, memos dropped."""
    return session_with(
        constraint,
        at_once=int(rng.choice([1, 2, 3, 5, 64])),
        pause_after=int(rng.choice([1, 100, 1 << 18])),
        budget=int(rng.choice([1, 1 << 14, 1 << 18, 1 << 28])),
        a_mask=1 << 40,
    )


def stack_height(session: Any, state: int) -> int:
    """Return how many LR states stand above each other in the first configuration of a state."""
    _, stack = session.configurations(state)[0]
    return int(session.stack(stack, 0)[2])


def places(length: int, rng: np.random.Generator) -> list[int]:
    """Return the positions of a text that are looked at closely, all its beginning and end."""
    some = rng.integers(0, length + 1, 12).tolist()
    return sorted(
        {0, 1, *some, *range(60, min(68, length)), length - 1, length} & {*range(length + 1)}
    )


@pytest.mark.share("seed")
@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("seed", range(12))
def test_masks_above_deep_stacks_are_those_of_the_definition(seed: int, lexer: str) -> None:
    rng = np.random.default_rng([seed, 400])
    grammar = deep_grammar(rng, ambiguous=False)
    text = grammar.member(rng, int(rng.choice(_HEIGHTS)))
    constraint = constraint_of(grammar.source, byte_vocabulary(tokens_of(text)), lexer)
    session, plain = session_of(constraint, rng), plain_engine(constraint)
    state, configurations, close = session.start(1), plain.start(), places(len(text), rng)
    for position in range(len(text) + 1):
        row = state_masks(session, state, constraint.vocabulary.width)[0]
        if position in close:
            allowed = {
                token
                for token, piece in enumerate(plain.token_bytes)
                if piece and plain.advance(configurations, piece)
            }
            allowed |= set(plain.end_ids) if plain.may_end(configurations) else set()
            assert set(row.nonzero()[0].tolist()) == allowed, f"after {position} of {text[:80]}"
            assert_masks_are_steps(session, state, constraint.vocabulary)
        if position < len(text):
            byte = ord(text[position])
            assert row[byte], f"letter {position} of {text[:80]} is refused"
            state = session.advance(state, [byte])
            configurations = plain.advance(configurations, bytes([byte]))
    assert session.is_complete(state)[0]


@pytest.mark.parametrize("seed", range(16))
def test_masks_above_deep_stacks_are_steps_where_texts_have_many_readings(seed: int) -> None:
    rng = np.random.default_rng([seed, 401])
    grammar = deep_grammar(rng, ambiguous=True)
    text = grammar.member(rng, int(rng.choice(_HEIGHTS)))
    constraint = constraint_of(grammar.source, byte_vocabulary(tokens_of("abcabacbb")), "dynamic")
    session, other = session_of(constraint, rng), constraint.session()
    state, usual, close = session.start(1), other.start(1), places(len(text), rng)
    width = constraint.vocabulary.width
    for position in range(len(text) + 1):
        row = state_masks(session, state, width)[0]
        np.testing.assert_array_equal(row, state_masks(other, usual, width)[0])
        if position in close:
            assert_masks_are_steps(session, state, constraint.vocabulary)
        if position < len(text):
            state, usual = (
                s.advance(at, [ord(text[position])]) for s, at in ((session, state), (other, usual))
            )
            assert state[0] != DEAD, f"letter {position} of {text[:80]} is refused"
    assert session.is_complete(state)[0]


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.share(2)
def test_the_laws_hold_for_members_of_height_400(seed: int, lexer: str) -> None:
    rng = np.random.default_rng([seed, 402])
    grammar = deep_grammar(rng, ambiguous=False)
    members = [grammar.member(rng, height) for height in (400, 64, 1)]
    constraint = constraint_of(grammar.source, byte_vocabulary(tokens_of(members[0])), lexer)
    rows = [list(member.encode()) for member in members]
    limits = {"walks": 3, "max_steps": 12, "max_states": 50}
    assert_session_laws(constraint, rows, np.random.default_rng(seed), **limits)


def test_generated_grammars_reach_stacks_of_400() -> None:
    heights = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 400])
        grammar = deep_grammar(rng, ambiguous=False)
        session = constraint_of(grammar.source, byte_vocabulary()).session()
        text = grammar.member(rng, 400).encode()
        beginnings = [text[:length] for length in range(0, len(text), 4)]
        states = session.advance_bytes(session.start(len(beginnings)), beginnings)
        heights.append(max(stack_height(session, state) for state in states.tolist()))
    assert sum(height >= 400 for height in heights) >= 4
