"""Masks of the engine, and work that ends in time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import CdecError, DataError, LimitError
from cdec.core.grammars.errors import GrammarError
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from tests.core.grammars.engine.plain_engine import (
    GENERAL,
    LEXED,
    byte_vocabulary,
    case,
    constraint_of,
    plain_engine,
    session_with,
)
from tests.core.grammars.finite_language import walk
from tests.laws.sessions import (
    assert_allowed_is,
    assert_batch_is_rows,
    assert_masks_are_steps,
    assert_session_laws,
    assert_states_agree,
    state_masks,
    states_after,
)
from tests.laws.sizes import heavy_or

# --- Masks and steps of grammars: the laws, and a plain engine that steps every token.

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


@pytest.mark.share(40)
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


@pytest.mark.slow
@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_random_grammars_agree_with_stepping_every_token(lexer):
    vocabulary = byte_vocabulary(("ab", "aa", "bb", "abc", "bab", "aaaa", "cab"))
    letters = [97, 98, 99, *range(256, vocabulary.size - 2)]
    compiled = 0
    for seed in range(heavy_or(12, 40)):
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
            configurations = plain.after(prefix)
            expected = {t for t in letters if plain.advance(configurations, plain.token_bytes[t])}
            if plain.may_end(configurations):
                expected |= set(plain.end_ids)
            assert set(ids.tolist()) == expected, f"{grammar!r} after {prefix}"
    assert compiled >= 4


# --- Masks that take long: kernels come back in between, Ctrl-C is heard, and there is a limit.

_CASES = [("contextual", name) for name in LEXED] + [("dynamic", name) for name in GENERAL]


def assert_pauses_change_nothing(
    constraint: GrammarConstraint, rng: np.random.Generator, **options: int
) -> None:
    """Compare a session that pauses again and again with one that does not."""
    roomy = constraint.session()
    paused = session_with(constraint, a_mask=1 << 40, **options)
    prefixes = uniform_prefixes(roomy, rng, walks=4, steps=8)
    width = constraint.vocabulary.width
    expected = state_masks(roomy, states_after(roomy, prefixes), width)
    states = states_after(paused, prefixes)
    every = np.tile(np.arange(width), (len(states), 1))
    np.testing.assert_array_equal(paused.check(states, every), expected)
    np.testing.assert_array_equal(state_masks(paused, states, width), expected)
    assert_states_agree(paused, np.append(states, [DONE]), constraint.vocabulary)


@pytest.mark.share(18)
@pytest.mark.parametrize("pause_after", [0, 3, 40])
@pytest.mark.parametrize(("lexer", "name"), _CASES)
def test_pauses_change_nothing(lexer: str, name: str, pause_after: int) -> None:
    rng = np.random.default_rng(pause_after)
    constraint = case(name, lexer)
    assert_pauses_change_nothing(constraint, rng, pause_after=max(pause_after, 1))
    assert_pauses_change_nothing(constraint, rng, pause_after=max(pause_after, 1), budget=1)
    assert_pauses_change_nothing(constraint.with_lookahead(0), rng, pause_after=5)


def test_pauses_change_nothing_in_random_grammars() -> None:
    vocabulary, compared = byte_vocabulary(("ab", "aa", "bb", "abc", "bab", "aaaa", "cab")), 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 24])
        try:
            constraint = constraint_of(random_grammar(rng), vocabulary, "dynamic")
        except CdecError:
            continue
        pause_after = int(rng.choice([1, 2, 10, 100]))
        budget = int(rng.choice([1, 1 << 16, 1 << 28]))
        assert_pauses_change_nothing(constraint, rng, pause_after=pause_after, budget=budget)
        compared += 1
    assert compared > 15


def chained(count: int, tokens: tuple[str, ...] = ("xx", "xxx", "xxxx")) -> GrammarConstraint:
    """Compile rules each of which is the next one, twice or once, or behind a letter."""
    rules = [f'a{i}: a{i + 1} a{i + 1}? | "x" a{i + 1}?' for i in range(count)]
    source = "start: a0\n" + "\n".join(rules) + f'\na{count}: "x" | "y"\n'
    limits = GrammarLimits(max_ambiguity=1 << 20)
    vocabulary = byte_vocabulary(tokens)
    return constraint_of(source, vocabulary, "dynamic", precompute=0, limits=limits)


def test_a_mask_that_an_automaton_would_work_on_for_long_is_stepped() -> None:
    constraint = chained(100)
    session = constraint.session()
    for length in range(4):
        states = walk(session, b"x" * length)
        assert_masks_are_steps(session, states, constraint.vocabulary)


def test_the_limit_on_a_mask_is_an_error_and_the_session_goes_on() -> None:
    constraint = chained(100)
    tight = session_with(constraint, a_mask=100_000, pause_after=2000)
    states, width = tight.start(1), constraint.vocabulary.width
    assert state_masks(tight, states, width)[0].any()
    assert walk(constraint.session(), b"xxxx")[0] >= 0
    with pytest.raises(LimitError) as raised:
        for _ in range(6):
            states = tight.advance(states, np.array([ord("x")]))
            state_masks(tight, states, width)
    assert raised.value.code == "E_LIMIT" and raised.value.details["limit"] == "mask_work"
    assert "mask_work" in str(raised.value.hint)
    again = tight.start(1)
    assert tight.check(again, np.array([[ord("x"), ord("y"), ord("z")]])).tolist() == [
        [True, True, False]
    ]
    wide = state_masks(constraint.session(), constraint.session().start(1), width)
    np.testing.assert_array_equal(state_masks(tight, again, width), wide)


@pytest.mark.share(2)
@pytest.mark.parametrize("question", ["advance", "check", "advance_bytes", "allowed"])
def test_the_limit_holds_for_whatever_is_asked(question: str) -> None:
    session = session_with(chained(100), a_mask=400, pause_after=100)
    asked = {
        "advance": lambda at: session.advance(at, np.array([258])),
        "check": lambda at: session.check(at, np.array([[256, 257, 258]])),
        "advance_bytes": lambda at: session.advance_bytes(at, [b"xxxxxxxx"]),
        "allowed": lambda at: session.allowed(at),
    }[question]
    with pytest.raises(LimitError):
        asked(session.start(1))
    assert session.is_complete(session.start(1)).tolist() == [False]


_LONG = """
import signal
import numpy as np
from tests.core.grammars.engine.test_grammar_masks import chained
from tests.core.grammars.engine.plain_engine import session_with
constraint = chained(260)
session = session_with(constraint, a_mask=1 << 50)
states = session.start(1)
# Who runs the tests in the background may have told all to ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
while True:
    states = session.advance(states, np.array([120]))
"""


def test_an_interrupt_is_heard_while_a_kernel_works() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        try:
            _, said = child.communicate(timeout=60)
        finally:
            child.kill()
    assert "KeyboardInterrupt" in said
    print(f"heard after {time.monotonic() - begun:.2f} s")
