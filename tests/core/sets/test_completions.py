"""Completions of sets by scores of single tokens, against all members."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.session import DONE
from tests.laws.toys import Toy, random_toy

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())


def scored(toy: Toy, prefix: tuple[int, ...], scores: np.ndarray, ends: np.ndarray) -> float:
    """Return the best score of what members have after ``prefix``."""
    best = -np.inf
    for row in toy.members:
        if row[: len(prefix)] == prefix:
            rest = sum(scores[t] for t in row[len(prefix) :])
            end = 0.0 if toy.ends_itself or not row else ends[row[-1]]
            best = max(best, rest + end)
    return float(best)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(toy=TOYS, seed=st.integers(0, 99))
def test_completions_are_the_best_members_and_lead_to_the_end(
    device: str, toy: Toy, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    width = toy.vocabulary.width
    scores, ends = -rng.exponential(size=width), -rng.exponential(size=width)
    session = toy.constraint.session(device)
    completions = session.completions(scores, ends)
    assert completions is not None
    for prefix in sorted({row[:depth] for row in toy.members for depth in range(len(row))}):
        state = session.start(1)
        for token in prefix:
            state = session.advance(state, _like(state, token))
        at = np.asarray(state)
        expected = scored(toy, prefix, scores, ends)
        assert completions.totals(at)[0] == pytest.approx(expected, abs=1e-12)
        tokens = [t for t in completions.tokens(at, 12)[0].tolist() if t >= 0]
        member = (*prefix, *tokens)
        assert scored(toy, member, scores, ends) + sum(scores[t] for t in tokens) == (
            pytest.approx(expected, abs=1e-12)
        )
        for token in tokens:
            state = session.advance(state, _like(state, token))
        assert int(state[0]) == DONE or bool(session.is_complete(state)[0])
        assert completions.tokens(at, 1).shape == (1, 1)


def test_a_filter_leaves_the_best_member_that_is_kept() -> None:
    toy = random_toy(5)
    width = toy.vocabulary.width
    flat = np.full(width, -1.0)
    for row in toy.members:
        text = toy.vocabulary.decode(row).decode()
        kept = toy.constraint.candidates([text]).session()
        found = kept.completions(flat, flat)
        assert found is not None
        tokens = [t for t in found.tokens(kept.start(1), 12)[0].tolist() if t >= 0]
        assert tuple(tokens) == row


def _like(state: object, token: int) -> object:
    values = np.array([token], np.int64)
    if isinstance(state, np.ndarray):
        return values
    import torch

    return torch.from_numpy(values)
