"""Memory of grammar sessions: exact after everything was dropped, flat over many documents."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from cdec.core.mask import allocate_mask
from tests.benchmarks.grammars.fresh_workloads import fresh_workloads
from tests.core.grammars.engine.engine_cases import JSON, byte_vocabulary, case, constraint_of, walk
from tests.core.grammars.engine.test_grammar_masks import uniform_prefixes
from tests.laws.memory import pieces_of, with_fewer_steps
from tests.laws.sessions import state_masks, states_after


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
    state = walk(old, b"[" * 40_000)
    engine = weakref.ref(old._engine)
    fresh = constraint.session()
    assert fresh._engine is not old._engine
    assert old.advance(np.array([state]), np.array([93]))[0] >= 0
    del old
    gc.collect()
    assert engine() is None and walk(fresh, b"[1]") >= 0


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
