"""Best-first search under a budget of evaluations and under length limits."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.toys import Toy, random_toy, toy_a, toy_b
from tests.samplers.enumeration import mass
from tests.samplers.search.topn_cases import (
    ROUNDING,
    assert_best,
    best_members,
    calls,
    search,
)

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(toy=TOYS, n=st.integers(1, 6), budget=st.integers(1, 12), round=st.sampled_from([1, 4]))
def test_a_budget_is_kept_and_what_is_proved_stays_true(
    toy: Toy, n: int, budget: int, round: int
) -> None:
    truth = best_members(toy)
    total = mass(toy)
    samples = search(toy, n, max_evaluations=budget, round=round)
    assert calls(samples) <= budget
    for i, sample in enumerate(samples):
        # Without any member there is nothing to prove.
        proved = sample.diagnostics["proved"] is not False
        assert sample.exactness == ("exact" if proved else "heuristic")
        is_found = sample.logprob is not None
        assert (sample.finish_reason == "budget") == (not proved and not is_found)
        assert (sample.text is None) == (sample.finish_reason == "budget")
        if proved:
            expected = truth[i][0] if i < len(truth) else None
            assert sample.logprob == (expected and pytest.approx(expected, abs=ROUNDING))
        if sample.finish_reason != "dead_end" and sample.token_ids:
            q = math.exp({r: p for p, r in truth}[tuple(sample.token_ids)]) / total
            assert sample.diagnostics["probability_lower"] <= q + ROUNDING
            assert sample.diagnostics["probability_upper"] >= q - ROUNDING


def test_a_budget_cuts_a_search_off() -> None:
    samples = search(toy_a(), 5, max_evaluations=3)
    reasons = [s.finish_reason for s in samples]
    assert reasons[-1] == "budget"
    assert calls(samples) <= 3 < calls(search(toy_a(), 5))


def test_a_text_found_before_a_better_one_is_not_proved() -> None:
    vocabulary = Vocabulary([b"a", b"b", b""], [2], [2])
    model = {0: [0.9, 0.1, 0.0], 1: [0.8, 0.1, 0.1], 2: [0.0, 0.0, 1.0]}
    toy = Toy(vocabulary, lambda prefix: np.array(model[len(prefix)]), [(0,), (0, 0), (0, 1)])
    early, late = (search(toy, 1, round=1, max_evaluations=most)[0] for most in (1, 3))
    assert (early.text, early.finish_reason, early.exactness) == ("a", "complete", "heuristic")
    assert not early.diagnostics["proved"]
    assert early.logprob == pytest.approx(math.log(0.09))
    assert (late.text, late.finish_reason, late.exactness) == ("aa", "complete", "exact")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_members_beyond_the_limit_are_cut_and_weighed(limit: int) -> None:
    toy = toy_b()
    for n in (2, 6):
        assert_best(toy, n, limit=limit)
    samples = search(toy, 6, limit=limit)
    missing = "length" if limit < 3 else "dead_end"
    found = len(best_members(toy, limit))
    assert [s.finish_reason for s in samples] == ["complete"] * found + [missing] * (6 - found)
    share = samples[0].diagnostics["length_mass_upper"]
    assert (share > 0) == (limit < 3)
    if limit == 2:  # What may go on at the limit: abc, bac, cbb, each by one token.
        within = math.exp(samples[0].diagnostics["log_mass_lower"])
        p = {row: toy.probabilities(row[:-1])[row[-1]] for row in [(0, 1, 2), (1, 0, 2), (2, 1, 1)]}
        ab, ba, cb = ((toy.probabilities(())[r[0]] * toy.probabilities(r[:1])[r[1]]) for r in p)
        beyond = ab * p[0, 1, 2] + ba * 1.0 + cb * p[2, 1, 1]
        assert share == pytest.approx(beyond / (within + beyond), abs=1e-9)


@pytest.mark.parametrize("toy", [toy_a(), toy_b()])
def test_a_limit_of_two_billion_tokens_costs_what_the_longest_member_does(toy: Toy) -> None:
    tracemalloc.start()
    try:
        found = search(toy, 3, limit=2**31 - 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert [sample.token_ids for sample in found] == [sample.token_ids for sample in search(toy, 3)]
