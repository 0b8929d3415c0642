"""Texts held to a number of tokens: no other texts are lost, and every text ends in time."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.compilers import grammar_constraint
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.fitting import fit
from cdec.core.combine.prefill import begin
from cdec.core.constraint import EXACT, Constraint
from cdec.core.errors import FitError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from cdec.samplers.exact import ExactSampler
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.gtest import g_test
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


# --- Constraints of few states: exact, whatever they are.

BYTES = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"abca", b"a", b"", b"", b"cc"]
VOCABULARY = Vocabulary(BYTES, eos_token_ids=[9, 10], width=14)


def spellings(text: bytes) -> list[Row]:
    """Return every sequence of tokens with these bytes."""
    if not text:
        return [()]
    firsts = [token for token, piece in enumerate(BYTES) if piece and text.startswith(piece)]
    return [(t, *rest) for t in firsts for rest in spellings(text[len(BYTES[t]) :])]


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(10))
def test_a_fitted_language_is_its_spellings_of_at_most_so_many_tokens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 8, size=int(rng.integers(1, 8)))
    texts = sorted({bytes(rng.choice(list(b"abc"), size=n).tolist()) for n in lengths})
    language, rows = FiniteLanguage(texts, VOCABULARY), [r for t in texts for r in spellings(t)]
    shortest = min(map(len, rows))
    for most in {0, 1, shortest, shortest + 1, 4}:
        if most < shortest:
            with pytest.raises(FitError, match=f"the shortest has {shortest}"):
                fit(language, most)
            continue
        fitted = fit(language, most)
        left = [row for row in rows if len(row) <= most]
        assert_session_laws(fitted, left[:20], rng)
        assert_members_are(fitted, left, [9, 10])
        assert fitted.facts.is_sound and fitted.facts.fit == EXACT


def test_dead_ends_of_two_constraints_are_out_of_reach() -> None:
    first, second = [b"abca", b"bc", b"abb"], [b"abcc", b"bc", b"aba"]
    both = conjoin(FiniteLanguage(first, VOCABULARY), FiniteLanguage(second, VOCABULARY))
    assert not both.facts.is_sound
    assert_members_are(fit(both, 2), spellings(b"bc"), [9, 10])


def test_a_budget_of_no_tokens_leaves_the_empty_text() -> None:
    language = FiniteLanguage([b"", b"a"], VOCABULARY)
    fitted, rng = fit(language, 0), np.random.default_rng(0)
    assert_members_are(fitted, [()], [9, 10])
    world = TabularModel(lambda _: np.full(14, 1 / 14), VOCABULARY)
    (drawn,) = MaskedSampler().draw(world, fitted, [0], rng=rng, max_new_tokens=1)
    assert (drawn.text, drawn.finish_reason, drawn.token_ids) == ("", "complete", [])


def test_a_constraint_of_many_states_that_knows_nothing_of_ends_is_refused_by_name() -> None:
    nested = grammar_constraint('start: "a" start "b" | "c"', VOCABULARY).with_lookahead(0)
    with pytest.raises(UsageError, match="a text of the grammar still needs is not known"):
        fit(nested, 3)


def test_denial_comes_before_fitting() -> None:
    language = FiniteLanguage([b"a", b"ab", b"abc"], VOCABULARY)
    left = [row for text in (b"a", b"abc") for row in spellings(text) if len(row) == 1]
    assert_members_are(fit(deny(language, [b"ab"]), 1), left, [9, 10])
    with pytest.raises(UsageError, match="number of tokens"):
        deny(fit(language, 2), [b"ab"])


# --- The law where masked decoding dies without it.


@pytest.mark.parametrize(("seed", "most"), [(8, 2), (132, 3), (163, 2), (202, 2)])
@pytest.mark.share(2)
def test_the_mass_that_a_limit_cuts_off_goes_to_texts_that_end_in_time(
    seed: int, most: int
) -> None:
    toy = random_toy(seed)
    short = Toy(toy.vocabulary, toy.probabilities, [r for r in toy.members if len(r) <= most])
    cut, fitted = enumeration.masked(toy, most), enumeration.masked(short, most)
    assert cut.stuck > 0.3 and fitted.stuck == 0
    model, rng = toy.model(), np.random.default_rng(seed)
    for constraint, law in ((toy.constraint, cut), (fit(toy.constraint, most), fitted)):
        samples = MaskedSampler().draw(model, constraint, [0], n=3000, rng=rng, max_new_tokens=most)
        rows = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
        assert g_test(rows, law.law) > 1e-4
        assert (constraint.facts.fit is None) == ("length" in {s.finish_reason for s in samples})
    # Without a limit the target is another one; fitted, it is that of the short texts.
    assert enumeration.total_variation(enumeration.target(toy), enumeration.target(short)) > 0.01
    sampler = ExactSampler(fallback="none")
    samples = sampler.draw(model, fit(toy.constraint, most), [0], n=3000, rng=rng)
    assert g_test([tuple(s.token_ids) for s in samples], enumeration.target(short)) > 1e-4
