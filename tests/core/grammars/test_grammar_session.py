"""A grammar session at its edges: odd arguments, bytes, descriptions, keys, deep stacks."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import UsageError
from cdec.core.grammars.state_view import describe_state
from cdec.core.mask import allocate_mask
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.engine.engine_cases import JSON, byte_vocabulary, case, constraint_of, walk
from tests.laws.sessions import state_masks


def test_states_and_tokens_may_be_any_integers():
    session = case("json", "contextual").session()
    odd = np.array([-(2**63), -3, DONE, DEAD, 1, 2**31, 2**40, 2**63 - 1])
    assert (session.advance(odd, np.full(8, 91)) == DEAD).all()
    assert session.is_complete(odd).tolist() == [False, False, True] + [False] * 5
    assert not state_masks(session, odd, 300).any()
    assert not session.check(odd, np.full((8, 2), 91)).any()
    assert len(session.allowed(odd)[1]) == 0 and len(session.forced(odd)[1]) == 0
    start = session.start(8)
    ids = np.array([-(2**63), -1, 271, 300, 2**31, 2**32 + 91, 2**40, 2**63 - 1])
    assert (session.advance(start, ids) == DEAD).all()
    assert not session.check(start, ids[:, None]).any()
    assert (session.advance_bytes(odd, [b"["] * 8) == DEAD).all()


def test_arguments_of_other_types_and_layouts_are_taken():
    session = case("json", "contextual").session()
    state = session.advance([int(session.start(1)[0])], [91])
    assert session.advance(session.start(1), np.array([91], np.int32)).tolist() == state.tolist()
    frozen = state.copy()
    frozen.flags.writeable = False
    assert session.advance(frozen, np.array([93]))[0] >= 0
    mask = np.full((2, 20), -1, np.int32)[:, ::2]
    session.fill_mask(np.repeat(state, 2), mask)
    expected = allocate_mask(1, 300)
    session.fill_mask(frozen, expected)
    assert (mask == expected).all() and mask.any()


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.advance(s.start(2), np.array([91])),
        lambda s: s.advance(s.start(1), np.array([1.5])),
        lambda s: s.check(s.start(2), np.array([[91]])),
        lambda s: s.fill_mask(s.start(2), allocate_mask(1, 300)),
        lambda s: s.fill_mask(s.start(1), allocate_mask(1, 400)),
        lambda s: s.fill_mask(s.start(1), np.zeros((1, 10), np.int64)),
        lambda s: s.advance_bytes(s.start(1), [b"a", b"b"]),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call):
    with pytest.raises(UsageError):
        call(case("json", "contextual").session())


def test_a_vocabulary_without_end_is_refused():
    vocabulary = Vocabulary([bytes([i]) for i in range(256)], [])
    with pytest.raises(UsageError, match="end-of-sequence"):
        constraint_of('start: "a"', vocabulary)


def test_a_negative_lookahead_is_refused():
    with pytest.raises(UsageError, match="lookahead"):
        case("right", "contextual").with_lookahead(-1)


def test_bytes_lead_where_tokens_lead():
    session = case("json", "contextual").session()
    whole = session.advance_bytes(session.start(1), [b'{"a": 1.'])
    split = session.advance_bytes(session.advance_bytes(session.start(1), [b'{"a"']), [b": 1."])
    assert whole[0] == split[0] == walk(session, b'{"a": 1.')
    assert session.advance_bytes(whole, [b""])[0] == whole[0]
    assert session.advance_bytes(whole, [b"}"])[0] == DEAD
    assert session.advance_bytes(np.array([DONE, DONE]), [b"", b"x"]).tolist() == [DONE, DEAD]


def test_equal_texts_give_equal_states_whatever_their_tokens():
    session = case("json", "contextual").session()
    vocabulary = case("json", "contextual").vocabulary
    token = vocabulary.token_bytes.index(b'{"')
    assert session.advance(session.start(1), np.array([token]))[0] == walk(session, b'{"')


def test_forced_is_the_only_event():
    session = constraint_of('start: "ab"', byte_vocabulary()).session()
    states = np.array([walk(session, text) for text in (b"", b"a", b"ab")])
    offsets, ids = session.forced(states)
    assert offsets.tolist() == [0, 1, 2, 3] and ids.tolist() == [97, 98, 257]


def test_speculation_keys_are_stable_and_local():
    first, second = case("json", "contextual").session(), case("json", "contextual").session()
    texts = [b"[", b'{"a":', b'[{"a":', b'{"a": 1, "b":', b"[1", b"[12"]
    keys = first.speculation_keys(np.array([walk(first, text) for text in texts]))
    again = second.speculation_keys(np.array([walk(second, text) for text in reversed(texts)]))
    assert keys.tolist() == again.tolist()[::-1]
    assert keys[4] == keys[5] and len(set(keys.tolist())) >= 3
    assert (first.speculation_keys(np.array([DEAD, DONE])) < 0).all()


def test_description_shows_readings_and_rules():
    session, names = case("json", "contextual").session(), case("json", "contextual").names
    view = describe_state(session, walk(session, b'{"a": [1'), names)
    assert not view.complete
    assert view.readings[0].under_way == ["NUMBER"] and view.readings[0].viable == ["NUMBER"]
    assert view.readings[1].stack[-1] == "NUMBER" and view.readings[1].under_way == []
    assert '"]"' in view.readings[1].viable and '"}"' not in view.readings[1].viable
    assert any("•" in item for item in view.readings[0].items)
    done = describe_state(session, DONE, names)
    assert done.readings == [] and done.complete
    after_key = describe_state(session, walk(session, b'{"a"'), names)
    viable = {name for reading in after_key.readings for name in reading.viable}
    assert viable == {'":"', "WS"}


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('start: "[" start "]" | "x"', b"[" * 50_000 + b"x" + b"]" * 50_000),
        ('start: "[" list "]"\nlist: "a" "," list | "a"', b"[" + b"a," * 50_000 + b"a]"),
        ('start: "a" start | "b"', b"a" * 100_000 + b"b"),
    ],
)
def test_deep_stacks_cost_their_length(lexer, grammar, text):
    session = constraint_of(grammar, byte_vocabulary(), lexer).session()
    state, mask = session.start(1), allocate_mask(1, 258)
    for byte in text:
        session.fill_mask(state, mask)
        assert mask[0, byte >> 5] >> (byte & 31) & 1
        state = session.advance(state, np.array([byte]))
    assert session.is_complete(state)[0]
    # Quadratic work would leave hundreds of millions of memos; it would also never get here.
    assert session.statistics()["shifts"] < 20 * len(text)


def test_ambiguous_stacks_stay_small():
    session = constraint_of('start: start start | "a"', byte_vocabulary(), "dynamic").session()
    assert session.is_complete(np.array([walk(session, b"a" * 2000)]))[0]
    statistics = session.statistics()
    assert statistics["stacks"] < 10 * 2000 and statistics["stack_sets"] < 10 * 2000


def test_a_chain_of_unit_rules_is_followed():
    chain = "".join(f"r{i}: r{i + 1}\n" for i in range(3000))
    for lexer in ("contextual", "dynamic"):
        session = constraint_of(
            f'start: r0 ";"\n{chain}r3000: "x"\n', byte_vocabulary(), lexer
        ).session()
        assert session.is_complete(np.array([walk(session, b"x;")]))[0]


def test_width_beyond_the_vocabulary_is_never_allowed():
    constraint = constraint_of(JSON, byte_vocabulary((), 1000))
    session = constraint.session()
    assert state_masks(session, session.start(3), 1000)[:, 258:].sum() == 0
