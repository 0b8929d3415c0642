"""Random small sets and models: every sampler against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.samplers import SAMPLERS
from tests.laws.gtest import g_test
from tests.laws.toys import Toy, random_toy
from tests.samplers.enumeration import disc, log_prob, masked, mass

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(toy=TOYS)
def test_weights_probabilities_and_bracket_are_exact(toy: Toy) -> None:
    exact = masked(toy)
    samples = SAMPLERS["masked"]().draw(
        toy.model(), toy.constraint, "", n=60, rng=np.random.default_rng(1)
    )
    truth = mass(toy)
    for sample in samples:
        row = tuple(sample.token_ids)
        if sample.finish_reason == "dead_end":
            assert exact.stuck > 0
            assert sample.log_weight is None
            continue
        assert row in toy.members
        assert sample.log_weight == pytest.approx(math.log(exact.x[row]), abs=1e-9)
        assert sample.logprob == pytest.approx(log_prob(toy, row), abs=1e-9)
        assert sample.valid
    upper, lower = (samples[0].diagnostics[f"log_mass_{side}"] for side in ("upper", "lower"))
    assert (upper is None and truth < 1e-12) or math.exp(upper) >= truth - 1e-12
    assert lower is None or math.exp(lower) <= truth + 1e-12


@settings(max_examples=8, deadline=None, derandomize=True)
@given(toy=TOYS, tries=st.integers(1, 4), recycle=st.booleans())
def test_disc_follows_its_law(toy: Toy, tries: int, recycle: bool) -> None:
    sampler = SAMPLERS["disc"](K=tries, recycle=recycle, max_walks=1 << 15)
    samples = sampler.draw(
        toy.model(), toy.constraint, "", n=5000, rng=np.random.default_rng(tries)
    )
    outcomes = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
    # 8 examples at 1e-5 each: a correct sampler fails once in 12,500 choices of seeds.
    assert g_test(outcomes, disc(toy, tries, recycle=recycle)) >= 1e-5


@settings(max_examples=25, deadline=None, derandomize=True)
@given(toy=TOYS)
def test_a_wide_beam_finds_the_most_probable_members_in_order(toy: Toy) -> None:
    n = len(toy.members)
    samples = SAMPLERS["beam"](beams=max(8, n)).draw(
        toy.model(), toy.constraint, "", n=n, rng=np.random.default_rng(0)
    )
    found = [s.logprob for s in samples if s.finish_reason == "complete"]
    logs = [log_prob(toy, row) for row in toy.members]
    possible = sorted((p for p in logs if p > -math.inf), reverse=True)
    assert found == pytest.approx(possible, abs=1e-9)
    assert [s.finish_reason for s in samples[len(found) :]] == ["dead_end"] * (n - len(found))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(toy=TOYS)
def test_greedy_takes_the_most_probable_event_everywhere(toy: Toy) -> None:
    sample = SAMPLERS["greedy"]().draw(
        toy.model(), toy.constraint, "", rng=np.random.default_rng(0)
    )[0]
    prefix: tuple[int, ...] = ()
    ends = list(toy.vocabulary.eos_token_ids)
    while True:
        if toy.ends_itself and prefix in toy.members:
            break
        given_here = toy.probabilities(prefix)
        options = {
            row[len(prefix)]: given_here[row[len(prefix)]]
            for row in toy.members
            if row[: len(prefix)] == prefix and row != prefix
        }
        options = {token: p for token, p in options.items() if p > 0}
        end = given_here[ends].sum() if prefix in toy.members else 0.0
        if not options or end > max(options.values()):
            assert sample.finish_reason == ("complete" if end > 0 else "dead_end")
            break
        prefix = (*prefix, max(options, key=lambda token: options[token]))
    assert tuple(sample.token_ids) == prefix
