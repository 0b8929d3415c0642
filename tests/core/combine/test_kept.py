"""Masks and steps that a session keeps: the newest, each made once while it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.compilers import regex_constraint
from cdec.core.combine import wrapped
from cdec.core.combine.canonical import canonical
from cdec.core.combine.conjunction import ConjunctionConstraint
from cdec.core.combine.wrapped import KeptSession
from cdec.core.constraint import Constraint
from cdec.core.mask import mask_words
from cdec.core.native import library
from cdec.core.session import DEAD, DONE
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.spelling.tokenizers_small import tokenizer_named
from tests.laws.sessions import (
    assert_threads_agree,
    random_prefixes,
    state_masks,
    states_after,
)

WORDS, MASKS, STEPS = 3, 5, 40
VOCABULARY = Vocabulary([b"a", b"b", b""], [2], [2])


def row_of(state: int) -> NDArray[np.int32]:
    return np.arange(WORDS, dtype=np.int32) + 100 * state


def test_the_newest_masks_are_kept_and_the_others_are_listed() -> None:
    memo, rng = library.memo_make(WORDS, MASKS, STEPS), np.random.default_rng(0)
    kept: list[int] = []
    for _ in range(300):
        states = rng.integers(-2, 12, 6)
        mask, missing = np.full((6, WORDS), 7, np.int32), np.empty(6, np.int64)
        found = library.memo_fill_mask(memo, states, mask, missing)
        expected = [row for row, state in enumerate(states) if state >= 0 and state not in kept]
        assert missing[: 6 - found].tolist() == expected
        for row, state in enumerate(states.tolist()):
            if row in expected:
                assert (mask[row] == 7).all()
            else:
                assert mask[row].tolist() == ([0] * WORDS if state < 0 else row_of(state).tolist())
        rows = np.array([row_of(int(state)) for state in states], np.int32)
        library.memo_keep_masks(memo, states, rows)
        for state in states.tolist():
            if state >= 0 and state not in kept:
                kept = [*kept, state][-MASKS:]


def test_steps_are_kept_until_they_are_too_many() -> None:
    memo, rng = library.memo_make(WORDS, MASKS, STEPS), np.random.default_rng(1)
    kept: dict[tuple[int, int], int] = {}
    for _ in range(400):
        states, tokens = rng.integers(-2, 9, 8), rng.integers(-1, 9, 8)
        out, missing = np.empty(8, np.int64), np.empty(8, np.int64)
        found = library.memo_advance(memo, states, tokens, out, missing)
        pairs = list(zip(states.tolist(), tokens.tolist(), strict=True))
        assert out.tolist() == [kept.get(pair, DEAD) for pair in pairs]
        expected = [row for row, pair in enumerate(pairs) if pair[0] >= 0 and pair not in kept]
        assert missing[: 8 - found].tolist() == expected
        after = states * 10 + tokens
        library.memo_keep_steps(memo, states, tokens, after)
        for pair, behind in zip(pairs, after.tolist(), strict=True):
            if min(pair) >= 0:
                if len(kept) >= STEPS:
                    kept.clear()
                kept[pair] = behind


def test_masks_of_another_width_are_refused_and_what_is_dropped_is_forgotten() -> None:
    memo, none = library.memo_make(WORDS, MASKS, STEPS), np.empty(0, np.int64)
    states = np.array([4])
    wide = np.zeros((1, WORDS + 1), np.int32)
    assert library.memo_keep_masks(memo, states, wide) == -1
    assert library.memo_fill_mask(memo, states, wide, none) == -1
    row = row_of(4)[None]
    library.memo_keep_masks(memo, states, row)
    assert library.memo_fill_mask(memo, states, row.copy(), none) == 1
    library.memo_drop(memo)
    assert library.memo_fill_mask(memo, states, row.copy(), none) == 0


class Counting(KeptSession):
    """States of which each allows one token, and counts of what was asked for."""

    def __init__(self) -> None:
        super().__init__(None, VOCABULARY)
        self.held, self.asked = 4, [0, 0]

    def __len__(self) -> int:
        return self.held

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray((states >= 0) & (states < self.held))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        self.asked[0] += 1
        return np.full(self.words, 1 << state % 2, np.int32)

    def own_after(self, state: int, token: int) -> int:
        self.asked[1] += 1
        return state + 1 if token == state % 2 else DEAD


def test_each_mask_and_step_is_made_once() -> None:
    session = Counting()
    states, tokens = np.array([3, 0, 3, DONE, 0, DEAD]), np.array([1, 0, 0, 0, 0, 0])
    mask = np.empty((6, session.words), np.int32)
    for _ in range(3):
        session.fill_mask(states, mask)
        assert mask[:, 0].tolist() == [2, 1, 2, 0, 1, 0]
        assert session.advance(states, tokens).tolist() == [4, 1, DEAD, DEAD, 1, DEAD]
        assert session.advance(states, tokens.astype(np.int32)).tolist()[:2] == [4, 1]
    assert session.asked == [2, 3]
    spread = np.zeros((6, 2 * session.words), np.int32)[:, ::2]
    session.fill_mask(states, spread)
    assert (spread == mask).all()


def test_what_a_number_was_before_it_was_a_state_is_not_kept() -> None:
    session = Counting()
    mask = np.empty((2, session.words), np.int32)
    for _ in range(2):
        session.fill_mask(np.array([5, 1]), mask)
        assert mask[:, 0].tolist() == [0, 2]
        assert session.advance(np.array([5]), np.array([1])).tolist() == [DEAD]
        session.held = 6
        session.fill_mask(np.array([5, 1]), mask)
        assert mask[:, 0].tolist() == [2, 2]
        assert session.advance(np.array([5]), np.array([1])).tolist() == [6]
        session.held = 4
        session.forget()


def spelled(vocabulary: Vocabulary) -> Constraint:
    return canonical(regex_constraint("(name|the|[0-9]+| )+", vocabulary))


def met(vocabulary: Vocabulary) -> Constraint:
    sides = [regex_constraint(p, vocabulary) for p in ("[a-z0-9 ]+", "(name|the|[0-9]+| )+")]
    return ConjunctionConstraint(*sides)


def beside_any(inner: Constraint) -> Constraint:
    return ConjunctionConstraint(inner, regex_constraint("[a-z0-9 ]+", inner.vocabulary))


@pytest.mark.parametrize("make", [canonical, beside_any])
def test_what_is_kept_is_counted_and_no_more_than_the_sides_may_keep(
    make: Callable[[Constraint], Constraint],
) -> None:
    whole: Any = regex_constraint("(name|the|[0-9]+| )+", tokenizer_named("gpt2"))
    held, sizes = 1 << 10, {}
    for most in (held, whole.memo_bytes):
        inner = type(whole)(whole.arrays, whole.vocabulary, whole.metadata, memo_bytes=most)
        session: Any = make(inner).session()
        prefixes = sorted(random_prefixes(session, np.random.default_rng(2), n=200, steps=12))
        state_masks(session, states_after(session, prefixes), whole.vocabulary.width)
        found = session.statistics()
        sizes[most] = found["memo_bytes"]
        # The product counts its states as well.
        assert sizes[held] <= held + 200 * found["states"] + (1 << 13)
    assert sizes[held] < sizes[whole.memo_bytes]


@pytest.mark.share(3)
@pytest.mark.parametrize("make", [spelled, met])
@pytest.mark.parametrize("masks", [1, 7, 1 << 20])
def test_sessions_are_the_same_whatever_they_keep(
    make: Callable[[Vocabulary], Constraint], masks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = tokenizer_named("gpt2")
    session: Any = make(vocabulary).session()
    prefixes = sorted(random_prefixes(session, np.random.default_rng(2), n=10, steps=8))
    expected = state_masks(session, states_after(session, prefixes), vocabulary.width)
    monkeypatch.setattr(wrapped, "_KEPT_BYTES", masks * 4 * mask_words(vocabulary.width))
    monkeypatch.setattr(wrapped, "_KEPT_STEPS", masks)
    few = make(vocabulary)
    own: Any = few.session()
    for _ in range(2):
        found = state_masks(own, states_after(own, prefixes), vocabulary.width)
        assert (found == expected).all()
    assert_threads_agree(few, prefixes, expected)
