"""Unconstrained sampling: the law is P, members are draws of Q, the constraint only watches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.unconstrained import UnconstrainedSampler
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.toys import Row, Toy, toy_b, toy_set
from tests.samplers.enumeration import Law, mass, target

DRAWS = heavy_or(10_000, 100_000)


def free_law(toy: Toy, limit: int) -> dict[tuple[Row, bool], float]:
    """Return the probability of every (tokens, whether they ended)."""
    ends = list(toy.vocabulary.eos_token_ids)
    law: dict[tuple[Row, bool], float] = {}

    def walk(prefix: Row, probability: float) -> None:
        given = toy.probabilities(prefix)
        end = given[ends].sum()
        law[prefix, True] = probability * end
        if len(prefix) == limit:
            law[prefix, False] = probability * (1 - end)
            return
        for token, p in enumerate(given):
            if token not in ends and p > 0:
                walk((*prefix, token), probability * p)

    walk((), 1.0)
    return law


def test_draws_follow_the_model() -> None:
    toy = toy_b()
    samples = UnconstrainedSampler(max_walks=1 << 15).draw(
        toy.model(), toy.constraint, "", n=DRAWS, rng=np.random.default_rng(1), max_new_tokens=4
    )
    outcomes = [(tuple(s.token_ids), s.finish_reason == "complete") for s in samples]
    assert g_test(outcomes, free_law(toy, 4)) >= 1e-4
    members = [tuple(s.token_ids) for s in samples if s.log_weight == 0.0]
    q: Law = target(toy)
    assert g_test(members, q) >= 1e-4
    for sample in samples[:2000]:
        is_member = tuple(sample.token_ids) in toy.members and sample.logprob is not None
        assert sample.valid == is_member
    p = mass(toy)
    error = 4 * math.sqrt(p * (1 - p) / DRAWS)
    assert abs(math.exp(samples[0].diagnostics["log_mass"]) - p) <= error


def test_a_member_in_other_tokens_is_valid_but_no_draw_of_the_target() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"ab", b""], eos_token_ids=[3])
    model = TabularModel(lambda prefix: [0.2, 0.3, 0.2, 0.3], vocabulary)
    constraint = toy_set([(2,)], vocabulary)
    samples = UnconstrainedSampler().draw(
        model, constraint, "", n=400, rng=np.random.default_rng(1), max_new_tokens=3
    )
    spelt = [s for s in samples if list(s.token_ids) == [0, 1] and s.finish_reason == "complete"]
    whole = [s for s in samples if list(s.token_ids) == [2] and s.finish_reason == "complete"]
    assert spelt and all((s.text, s.valid, s.log_weight) == ("ab", True, None) for s in spelt)
    assert whole and all((s.text, s.valid, s.log_weight) == ("ab", True, 0.0) for s in whole)


def test_a_set_with_a_suffix_ends_the_text_where_its_suffix_ends() -> None:
    vocabulary = Vocabulary([b"a", b"b", b">", b""], eos_token_ids=[3])
    model = TabularModel(lambda prefix: [0.3, 0.3, 0.3, 0.1], vocabulary)
    constraint = toy_set([(0, 2), (1, 1, 2)], vocabulary, ends_itself=True, tail=b">")
    samples = UnconstrainedSampler().draw(
        model, constraint, "", n=2000, rng=np.random.default_rng(1), max_new_tokens=3
    )
    members = [s for s in samples if s.log_weight == 0.0]
    assert {s.text for s in members} == {"a", "bb"}
    expected = pytest.approx(2 * math.log(0.3))
    assert all(s.logprob == expected for s in members if s.text == "a")
    share = sum(s.text == "a" for s in members) / 2000
    assert abs(share - 0.09) <= 4 * math.sqrt(0.09 * 0.91 / 2000)


def test_without_a_constraint_nothing_is_judged() -> None:
    toy = toy_b()
    samples = UnconstrainedSampler().draw(
        toy.model(), None, "", n=50, rng=np.random.default_rng(1), max_new_tokens=5
    )
    assert all(s.valid is None for s in samples)
    for sample in samples:
        complete = sample.finish_reason == "complete"
        assert sample.log_weight == (0.0 if complete else None)
        assert "log_mass" not in sample.diagnostics


def test_padding_and_special_ids_have_no_text() -> None:
    vocabulary = Vocabulary([b"a", b"", b""], eos_token_ids=[2], special_token_ids=[1], width=5)
    model = TabularModel(lambda prefix: [0.2, 0.2, 0.2, 0.2, 0.2], vocabulary)
    samples = UnconstrainedSampler().draw(
        model, None, "", n=50, rng=np.random.default_rng(1), max_new_tokens=6
    )
    assert all(set(s.text) <= {"a"} for s in samples)
    assert any(4 in s.token_ids for s in samples)


def test_a_text_needs_its_forced_suffix_and_not_the_space_of_the_set() -> None:
    vocabulary = Vocabulary([b" ", b"a", b" a", b">", b" a>", b""], eos_token_ids=[5])
    model = TabularModel(lambda prefix: [0.2, 0.2, 0.1, 0.2, 0.1, 0.2], vocabulary)
    spaced = toy_set([(2,)], vocabulary, head=b" ", prefix=b"")
    closed = toy_set([(4,)], vocabulary, head=b" ", tail=b">", prefix=b"", ends_itself=True)
    for constraint, tail in ((spaced, b""), (closed, b">")):
        samples = UnconstrainedSampler().draw(
            model, constraint, "", n=2000, rng=np.random.default_rng(1), max_new_tokens=3
        )
        complete = [s for s in samples if s.finish_reason == "complete"]
        for sample in complete:
            whole = vocabulary.decode(sample.token_ids)
            assert sample.valid == (whole in (b"a" + tail, b" a" + tail))
            (verdict,) = constraint.verdicts([whole])
            assert not sample.valid or verdict["valid"]
            inside = whole.removesuffix(tail).removeprefix(b" ")
            if inside:
                assert sample.text == (inside if whole.endswith(tail) else whole).decode()
        found = {vocabulary.decode(s.token_ids) for s in complete if s.valid}
        assert found >= {b"a" + tail, b" a" + tail}


def test_a_text_with_tokens_that_have_no_bytes_is_no_member() -> None:
    vocabulary = Vocabulary([b"a", b"", b""], eos_token_ids=[2], special_token_ids=[1], width=4)
    model = TabularModel(lambda prefix: [0.3, 0.2, 0.3, 0.2], vocabulary)
    samples = UnconstrainedSampler().draw(
        model, toy_set([(0,)], vocabulary), "", n=500, rng=np.random.default_rng(1)
    )
    complete = [s for s in samples if s.finish_reason == "complete"]
    assert all(s.valid == (list(s.token_ids) == [0]) for s in complete)
    longer = UnconstrainedSampler().draw(
        model,
        toy_set([(0,)], vocabulary),
        "",
        n=500,
        rng=np.random.default_rng(1),
        max_new_tokens=4,
    )
    hidden = [s for s in longer if s.finish_reason == "complete" and {1, 3} & set(s.token_ids)]
    assert any(vocabulary.decode(s.token_ids) == b"a" for s in hidden)
    assert not any(s.valid for s in hidden)
