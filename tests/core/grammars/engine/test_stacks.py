"""Deep and wide parser stacks, and their memory."""

from __future__ import annotations

import gc
import string
import threading
import weakref
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.grammars.columns import arrays_from
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.mask import allocate_mask
from tests.core.grammars.engine.plain_engine import (
    JSON,
    byte_vocabulary,
    case,
    constraint_of,
    session_with,
)
from tests.core.grammars.engine.plain_engine import walk as remembered_walk
from tests.core.grammars.engine.test_grammar_masks import uniform_prefixes
from tests.core.grammars.finite_language import walk
from tests.laws.memory import pieces_of, with_fewer_steps
from tests.laws.sessions import assert_masks_are_steps, state_masks, states_after
from tools.benchmarks.grammars.fresh_workloads import fresh_workloads

# --- Masks above parser stacks of every height to 400, in grammars whose language is known by
# hand.

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


@pytest.mark.share(2)
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


@pytest.mark.share(8)
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


# --- Grammars that are ambiguous in all of their rules: hundreds of stacks side by side.

_TOKENS = ("aa", "aaa", "ab", "ba", "aba", "bb", "abc", "cc", "acb")


def chained(count: int, precompute: int) -> GrammarConstraint:
    """Compile rules each of which is the next one, or two of it, or one between letters."""
    rules = [f'r{i}: r{i + 1} | r{i + 1} r{i + 1} | "b" r{i + 1} "c"' for i in range(count)]
    source = "start: r0\n" + "\n".join(rules) + f'\nr{count}: "a"\n'
    vocabulary = byte_vocabulary(_TOKENS)
    arrays, metadata, _ = build_grammar(
        source,
        vocabulary,
        GrammarOptions(lexer="dynamic", precompute=precompute),
        Path("unwritten"),
    )
    return GrammarConstraint(arrays_from(arrays), vocabulary, metadata)


def test_masks_above_very_wide_stacks_are_steps() -> None:
    for precompute in (0, 60):
        constraint = chained(80, precompute)
        session = constraint.session("cpu")
        for text in (b"aaa", b"baac", b"aabaca"):
            for length in range(len(text) + 1):
                states = walk(session, list(text[:length]))
                assert_masks_are_steps(session, states, constraint.vocabulary)


def test_stacks_above_an_ambiguous_text_grow_by_one_state_each_with_its_length() -> None:
    constraint = chained(80, 0)
    session = constraint.session("cpu")
    states, stacks, states_of_parser = session.start(1), [], len(constraint.arrays.action_offsets)
    for _ in range(12):
        states = session.advance(states, np.array([ord("a")]))
        assert session.is_complete(states)[0]
        stacks.append(session.statistics()["stacks"])
    assert np.diff(stacks).max() <= 2 * states_of_parser


# --- Memory of grammar sessions: exact after everything was dropped, flat over many documents.


@pytest.mark.parametrize(("lexer", "name"), [("contextual", "json"), ("dynamic", "comments")])
def test_masks_are_exact_after_everything_was_dropped(lexer, name):
    roomy = case(name, lexer)
    tight = type(roomy)(roomy.arrays, roomy.vocabulary, roomy.metadata, memo_bytes=1)
    session, other = roomy.session(), tight.session()
    prefixes = uniform_prefixes(session, np.random.default_rng(3), walks=10, steps=12)
    expected = state_masks(session, states_after(session, prefixes), 300)
    states = states_after(other, prefixes)
    for _ in range(2):
        np.testing.assert_array_equal(state_masks(other, states, 300), expected)
        order = np.random.default_rng(4).permutation(len(states))
        np.testing.assert_array_equal(state_masks(other, states[order], 300), expected[order])
        offsets, ids = other.allowed(states)
        assert ids.tolist() == expected.nonzero()[1].tolist()
        assert np.diff(offsets).tolist() == expected.sum(1).tolist()
    assert other.statistics()["epochs"] > 3 and session.statistics()["epochs"] == 0


def test_masks_do_not_depend_on_who_asked_first():
    """What links the parts of a tree is made when it is first asked for, whoever asks."""
    load, rng = fresh_workloads()["graphql"], np.random.default_rng(1)
    vocabulary = pieces_of(load["docs"], 250, rng)
    whole = constraint_of(load["lark"], vocabulary, "contextual")
    session = whole.session()
    prefixes = uniform_prefixes(session, rng, walks=6, steps=60)
    expected = state_masks(session, states_after(session, prefixes), vocabulary.width)
    for share in (0.2, 0.5):
        fresh = with_fewer_steps(whole, share, rng).session()
        order = rng.permutation(len(prefixes))
        states = states_after(fresh, prefixes)
        masks = state_masks(fresh, states[order], vocabulary.width)
        np.testing.assert_array_equal(masks, expected[order])


@pytest.mark.share(1)
@pytest.mark.parametrize("held", [0, 1 << 14, 1 << 18])
def test_what_is_kept_after_each_call_is_within_memo_bytes(held):
    """The session's own table of steps as well: a quarter, or the least it can be."""
    load, rng = fresh_workloads()["sql"], np.random.default_rng(3)
    vocabulary = pieces_of(load["docs"], 150, rng)
    whole = constraint_of(load["lark"], vocabulary, "contextual")
    constraint = with_fewer_steps(whole, 0.2, rng, memo_bytes=held)
    session, most = constraint.session(), 0
    begins_with = session.statistics()["bytes"]
    for _ in range(3):
        states = session.start(1)
        for _ in range(40):
            _, ids = session.allowed(states)
            if ids[-1] in vocabulary.eos_token_ids:
                break
            states = session.advance(states, rng.choice(ids, 1).astype(np.int64))
            found = session.statistics()
            assert found["memo_bytes"] <= held
            most = max(most, found["bytes"] - begins_with)
            # Of a table that is half full at most, 16 bytes a place.
            assert 32 * found["steps"] <= max(held // 4, 1024)
    index = 16 * 4 * 2 * len(whole.arrays.automaton_offsets)
    assert most <= held + index + (1 << 17)


def test_memory_is_flat_over_many_documents():
    constraint = constraint_of(JSON, byte_vocabulary(), memo_bytes=1 << 20)
    mask, sizes = allocate_mask(1, 258), []
    for i in range(400):
        session = constraint.session()
        state = session.start(1)
        for byte in f'{{"a": {"[" * (i % 50)}{i}{"]" * (i % 50)}}}'.encode():
            session.fill_mask(state, mask)
            state = session.advance(state, np.array([byte]))
        assert session.is_complete(state)[0]
        sizes.append(session.statistics()["bytes"])
    assert max(sizes[200:]) <= max(sizes[:200]) <= 4 << 20


def test_an_engine_full_of_stacks_is_kept_by_its_sessions_alone():
    constraint = constraint_of(JSON, byte_vocabulary(), memo_bytes=1 << 20)
    old = constraint.session()
    state = remembered_walk(old, b"[" * 40_000)
    engine = weakref.ref(old._engine)
    fresh = constraint.session()
    assert fresh._engine is not old._engine
    assert old.advance(np.array([state]), np.array([93]))[0] >= 0
    del old
    gc.collect()
    assert engine() is None and remembered_walk(fresh, b"[1]") >= 0


def test_steps_that_were_dropped_are_made_again():
    constraint = case("json", "contextual")
    session = constraint.session()
    states = states_after(session, uniform_prefixes(session, np.random.default_rng(0), 8, 12))
    every = np.arange(300)
    first = [session.advance(np.full(300, state), every).tolist() for state in states]
    # More steps than the table of steps keeps.
    deep = session.start(1)
    for _ in range(600):
        session.advance(np.full(300, deep[0]), every)
        deep = session.advance(deep, np.array([91]))
    assert [session.advance(np.full(300, state), every).tolist() for state in states] == first


def test_threads_may_share_an_engine():
    constraint = constraint_of(JSON, byte_vocabulary(), memo_bytes=200_000)
    texts = [f'{{"k{i}": [{i}, [{"[" * (i % 7)}{"]" * (i % 7)}]]}}'.encode() for i in range(60)]
    failures = []

    def run(part):
        mask = allocate_mask(1, 258)
        for text in part:
            session = constraint.session()
            state = session.start(1)
            for byte in text:
                session.fill_mask(state, mask)
                if not mask[0, byte >> 5] >> (byte & 31) & 1:
                    failures.append((text, byte))
                state = session.advance(state, np.array([byte]))
            if not session.is_complete(state)[0]:
                failures.append((text, None))

    threads = [threading.Thread(target=run, args=(texts[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_may_share_a_session():
    constraint = constraint_of(JSON, byte_vocabulary())
    session, expected = constraint.session(), constraint.session()
    text, found = b'[{"a": [1, 22, 333]}, ' * 40, []
    start = threading.Barrier(3)

    def run():
        start.wait()
        found.append(state_masks(session, states_after(session, [list(text)]), 258))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    masks = state_masks(expected, states_after(expected, [list(text)]), 258)
    assert len(found) == 3 and all((each == masks).all() for each in found)
