"""Texts held to a number of tokens: no other texts are lost, and every text ends in time."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.fitting import fit
from cdec.core.combine.prefill import begin
from cdec.core.constraint import EXACT, Constraint
from cdec.core.errors import FitError, UsageError
from cdec.samplers.greedy import GreedySampler
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.sessions import assert_allowed_is, assert_session_laws, random_prefixes
from tests.laws.worlds import Row, Toy, random_toy, toy_a

# --- Sets: longer members are left out, whatever else was done to the set.


def assert_members_are(constraint: Constraint, rows: list[Row], ends: list[int]) -> None:
    """Compare the masks along all allowed ways with what some rows allow."""

    def allowed(prefix: Row) -> set[int]:
        longer = {row[len(prefix)] for row in rows if row[: len(prefix)] == prefix != row}
        return longer | (set(ends) if prefix in rows else set())

    session = constraint.session()
    prefixes = random_prefixes(session, np.random.default_rng(0), 40, 12)
    live = [prefix for prefix in prefixes if not set(ends) & set(prefix)]
    assert_allowed_is(session, live, allowed, constraint.vocabulary.width)


@pytest.mark.parametrize("seed", range(8))
def test_a_fitted_set_is_its_members_of_at_most_so_many_tokens(seed: int) -> None:
    toy, rng = random_toy(seed), np.random.default_rng(seed)
    shortest = min(map(len, toy.members))
    for most in range(6):
        if most < shortest:
            with pytest.raises(FitError, match=f"the shortest has {shortest}"):
                fit(toy.constraint, most)
            continue
        fitted = fit(toy.constraint, most)
        rows = [row for row in toy.members if len(row) <= most]
        assert_session_laws(fitted, rows, rng)
        assert_members_are(fitted, rows, list(toy.vocabulary.eos_token_ids))
        assert (fitted.facts.fit, fitted.max_tokens) == (EXACT, max(map(len, rows)))


def test_what_was_done_to_a_set_before_stays_done() -> None:
    toy = toy_a()
    text = toy.vocabulary.decode
    rows = sorted(row[:length] for row in toy.members for length in (3, 5))
    whole = Toy(toy.vocabulary, toy.probabilities, sorted(set(rows))).constraint
    denied = fit(deny(whole, [text(row) for row in rows[:2]]), 3)
    three = sorted({row for row in rows[2:] if len(row) == 3} - set(rows[:2]))
    assert_members_are(denied, three, [2])
    both = fit(conjoin(whole, FiniteLanguage([b"100", b"10000"], toy.vocabulary)), 4)
    assert_members_are(both, [(1, 0, 0)], [2])
    chosen = fit(whole.candidates(["111", "11111"]), 4)
    assert_members_are(chosen, [(1, 1, 1)], [2])
    assert chosen.facts.fit == denied.facts.fit == both.facts.fit == EXACT


def test_a_begun_member_has_as_many_tokens_more() -> None:
    toy = toy_a()
    whole = Toy(toy.vocabulary, toy.probabilities, [(0, 1), (1, 1, 0), (1, 1, 0, 0, 1)])
    begun = begin(whole.constraint, "11")
    assert begun.read == [1]  # stands in the prompt
    assert_members_are(fit(begun, 3), [(1, 0)], [2])
    assert_members_are(fit(begun, 4), [(1, 0), (1, 0, 0, 1)], [2])
    with pytest.raises(FitError, match="within 1 tokens: the shortest has 2"):
        fit(begun, 1)
    with pytest.raises(FitError, match="within 2 tokens: the shortest has 3"):
        fit(begin(whole.constraint, "110", into_prompt=False), 2)


def test_a_limit_cuts_masked_decoding_and_a_fitted_set_does_not() -> None:
    zero = Toy(toy_a().vocabulary, lambda _: np.array([0.3, 0.5, 0.2]), [(0,), (1, 1, 1, 0)])
    model, rng = zero.model(), np.random.default_rng(0)
    draw = GreedySampler().draw
    (cut,) = draw(model, zero.constraint, "", rng=rng, max_new_tokens=2)
    assert (cut.text, cut.finish_reason) == ("11", "length")
    (whole,) = draw(model, fit(zero.constraint, 2), "", rng=rng, max_new_tokens=2)
    assert (whole.text, whole.finish_reason) == ("0", "complete")
    assert whole.to_json()["fit"] == EXACT


def test_a_constraint_that_knows_nothing_of_ends_is_refused_by_name() -> None:
    language = FiniteLanguage([b"0", b"01"], toy_a().vocabulary)
    with pytest.raises(UsageError, match="still needs is not known"):
        fit(language, 3)
