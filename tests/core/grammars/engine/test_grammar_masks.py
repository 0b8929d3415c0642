"""Masks and steps of grammars: the laws, and a plain engine that steps every token."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import DataError
from cdec.core.grammars.errors import GrammarError
from tests.core.grammars.engine.engine_cases import (
    GENERAL,
    LEXED,
    byte_vocabulary,
    case,
    constraint_of,
    plain_engine,
)
from tests.laws.sessions import (
    assert_allowed_is,
    assert_batch_is_rows,
    assert_session_laws,
    assert_states_agree,
    states_after,
)

CASES = [("contextual", name) for name in LEXED] + [("dynamic", name) for name in GENERAL]


def uniform_prefixes(session, rng, walks=6, steps=10):
    """Prefixes along walks over allowed tokens; a walk into a dead end stops there."""
    found = {()}
    for _ in range(walks):
        state, path = session.start(1), ()
        for _ in range(steps):
            _, ids = session.allowed(state)
            if not len(ids):
                break
            token = int(ids[rng.integers(len(ids))])
            state, path = session.advance(state, np.array([token])), (*path, token)
            found.add(path)
            if state[0] == DONE:
                break
    return sorted(found)


@pytest.mark.parametrize("lookahead", [None, 0, 1])
@pytest.mark.parametrize(("lexer", "name"), CASES)
def test_masks_are_what_stepping_every_token_says(lexer, name, lookahead):
    constraint = case(name, lexer).with_lookahead(lookahead)
    session, rng = constraint.session(), np.random.default_rng(0)
    prefixes = uniform_prefixes(session, rng)[:40]
    width = constraint.vocabulary.width
    assert_allowed_is(session, prefixes, plain_engine(constraint).allowed, width)
    states = states_after(session, prefixes)
    assert_states_agree(session, np.append(states, [DEAD, DONE]), constraint.vocabulary)
    assert_batch_is_rows(session, states[-8:], constraint.vocabulary)


@pytest.mark.parametrize(("lexer", "name"), CASES)
def test_laws_hold_on_every_device(lexer, name):
    constraint = case(name, lexer)
    members = {
        "json": ['{"a": [1, -2.5, "x"]}', "[[]]", "null"],
        "range": ["1..2", "1.5..2"],
        "leftmost": ["ac", "abbc"],
        "overlap": ["abc", "abbb"],
        "right": ["aab", "b"],
        "comments": ["a/b;c/* x */ / d;"],
        "keywords": ["if a then b", "if iff then thenx"],
        "nested": ["xx", "xaayx"],
        "empty": ["", "abb"],
        "ambiguous": ["aaaa"],
        "palindromes": ["abbba", "a"],
        "cycle": ["xxx"],
        "nullable": ["", "xxxxxy"],
        "hidden": ["zyxx", "y", "zyx"],
        "expression": ["1+(2*3)", "12"],
    }[name]
    rng = np.random.default_rng(1)
    rows = [list(member.encode()) for member in members]
    assert_session_laws(constraint, rows, rng, max_steps=10, walks=4, max_states=30)


@pytest.mark.parametrize(
    ("lexer", "name", "text", "accepted"),
    [
        ("contextual", "range", b"1..2", True),
        ("contextual", "range", b"1...2", False),
        ("contextual", "leftmost", b"abc", True),
        ("contextual", "leftmost", b"bc", False),
        ("dynamic", "overlap", b"abc", True),
        ("contextual", "keywords", b"ifa then b", True),
        ("dynamic", "keywords", b"ifa then b", True),
        ("contextual", "keywords", b"if if then b", True),
        ("contextual", "comments", b"a/b;/* */", True),
        ("contextual", "comments", b"a/*b;", False),
        ("dynamic", "palindromes", b"abab", False),
        ("dynamic", "hidden", b"zzyx", False),
        ("dynamic", "hidden", b"zzyxx", True),
    ],
)
def test_texts_are_accepted_as_the_lexer_reads_them(lexer, name, text, accepted):
    constraint = case(name, lexer)
    session = constraint.session()
    state = session.advance_bytes(session.start(1), [text])
    assert bool(session.is_complete(state)[0]) == accepted
    assert constraint.accepts(text) == accepted


def random_grammar(rng):
    """Write a random grammar over few letters; it may be ambiguous, nullable, cyclic or empty."""
    literals = ['"a"', '"b"', '"ab"', "/b+/", "/a(b|c)?/", "/c*?a/"]
    rules = [f"r{i}" for i in range(int(rng.integers(1, 4)))]
    lines = []
    for name in ["start", *rules]:
        alternatives = []
        for _ in range(int(rng.integers(1, 4))):
            symbols = [
                str(rng.choice(rules + literals * 2)) + str(rng.choice(["", "", "", "?", "*"]))
                for _ in range(int(rng.integers(1, 4)))
            ]
            alternatives.append(" ".join(symbols))
        lines.append(f"{name}: {' | '.join(alternatives)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_random_grammars_agree_with_stepping_every_token(lexer):
    vocabulary = byte_vocabulary(("ab", "aa", "bb", "abc", "bab", "aaaa", "cab"))
    letters = [97, 98, 99, *range(256, vocabulary.size - 2)]
    compiled = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        grammar = random_grammar(rng)
        try:
            constraint = constraint_of(grammar, vocabulary, lexer)
        except (GrammarError, DataError):
            continue
        compiled += 1
        session, plain = constraint.session(), plain_engine(constraint)
        for prefix in uniform_prefixes(session, rng, walks=3, steps=5)[:8]:
            states = states_after(session, [prefix])
            _, ids = session.allowed(states)
            readings = plain.after(prefix)
            expected = {t for t in letters if plain.advance(readings, plain.token_bytes[t])}
            if plain.may_end(readings):
                expected |= set(plain.end_ids)
            assert set(ids.tolist()) == expected, f"{grammar!r} after {prefix}"
    assert compiled >= 10
