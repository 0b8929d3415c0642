"""Beam search: order, distinct texts, narrow beams, penalties, groups together, disc --beams."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import log_prob, masked
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from tests.laws.worlds import random_toy, toy_a, toy_b, toy_set

RNG = np.random.default_rng


def test_a_narrow_beam_misses_what_begins_badly() -> None:
    # a is likelier at first, but all of its continuations are poor.
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    tables = {(): [0.6, 0.3, 0.1], (0,): [0.1, 0.1, 0.8], (1,): [0.01, 0.9, 0.09]}
    model = TabularModel(lambda prefix: tables.get(prefix, [0.0, 0.0, 1.0]), vocabulary)
    constraint = toy_set([(0, 0), (0, 1), (1, 1)], vocabulary)
    narrow = SAMPLERS["beam"](beams=1).draw(model, constraint, "", rng=RNG(0))[0]
    wide = SAMPLERS["beam"](beams=2).draw(model, constraint, "", rng=RNG(0))[0]
    assert (narrow.text, wide.text) == ("aa", "bb")
    greedy = SAMPLERS["greedy"]().draw(model, constraint, "", rng=RNG(0))[0]
    assert greedy.token_ids == narrow.token_ids


def test_end_events_do_not_use_up_the_beam() -> None:
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    tables = {(): [0.5, 0.5, 0.0], (0,): [0.35, 0.05, 0.6], (1,): [0.0, 0.6, 0.4]}
    model = TabularModel(lambda prefix: tables.get(prefix, [0.0, 0.0, 1.0]), vocabulary)
    constraint = toy_set([(0,), (0, 0), (1,), (1, 1)], vocabulary)
    samples = SAMPLERS["beam"](beams=2).draw(model, constraint, "", n=2, rng=RNG(0))
    assert [sample.text for sample in samples] == ["a", "bb"]


def test_length_penalty_favours_longer_texts() -> None:
    vocabulary = Vocabulary([b"a", b""], eos_token_ids=[1])
    model = TabularModel(lambda prefix: [0.5, 0.5], vocabulary)
    constraint = toy_set([(0,), (0, 0, 0)], vocabulary)
    for penalty, text in ((0.0, "a"), (0.5, "a"), (1.5, "aaa")):
        sampler = SAMPLERS["beam"](beams=2, length_penalty=penalty)
        assert sampler.draw(model, constraint, "", rng=RNG(0))[0].text == text


@pytest.mark.parametrize("penalty", [-2.0, -0.5, 0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("limit", [None, 2])
def test_a_wide_beam_lists_all_texts_by_their_penalised_scores(
    penalty: float, limit: int | None
) -> None:
    """Score: log P over events ** penalty; searches of all sizes stop with the true first ones."""
    for toy in (toy_b(), toy_a(), random_toy(8), random_toy(4, ends_itself=True)):
        scores = {
            row: log_prob(toy, row) / (len(row) + (not toy.ends_itself)) ** penalty
            for row in toy.members
            if log_prob(toy, row) > -math.inf and len(row) <= (limit or 9)
        }
        expected = sorted(scores, key=lambda row: -scores[row])
        for n in {1, 2, len(expected)} if expected else ():
            samples = SAMPLERS["beam"](beams=40, length_penalty=penalty).draw(
                toy.model(), toy.constraint, "", n=n, rng=RNG(0), max_new_tokens=limit
            )
            found = [tuple(s.token_ids) for s in samples if s.finish_reason == "complete"]
            assert [scores[row] for row in found] == pytest.approx(
                [scores[row] for row in expected[:n]], abs=1e-12
            )
            assert len(set(found)) == min(n, len(expected))


def test_fewer_texts_than_asked_end_as_dead_ends() -> None:
    toy = toy_b()
    small = toy_set([(0,), (2, 1)], toy.vocabulary)
    samples = SAMPLERS["beam"](beams=4).draw(toy.model(), small, "", n=4, rng=RNG(0))
    assert [s.finish_reason for s in samples] == ["complete"] * 2 + ["dead_end"] * 2
    assert [s.text for s in samples[2:]] == ["", ""]
    assert [s.valid for s in samples] == [True, True, False, False]


def test_cut_texts_come_after_whole_ones() -> None:
    toy = toy_b()
    samples = SAMPLERS["beam"](beams=6).draw(
        toy.model(), toy.constraint, "", n=5, rng=RNG(0), max_new_tokens=2
    )
    assert [s.finish_reason for s in samples] == ["complete"] * 3 + ["length", "dead_end"]


def test_more_draws_than_beams_are_refused() -> None:
    toy = toy_b()
    with pytest.raises(UsageError, match="beams"):
        SAMPLERS["beam"](beams=2).draw(toy.model(), toy.constraint, "", n=3, rng=RNG(0))


def test_requests_of_different_sizes_search_together() -> None:
    toy = toy_b()
    requests = [Request("", toy.constraint, seeds) for seeds in ([1], [1, 2, 3], [1, 2])]
    results = SAMPLERS["beam"](beams=6).draw_batch(toy.model(), requests)
    texts = [[s.text for s in samples] for samples in results]
    assert texts == [["cb"], ["cb", "cbb", "bac"], ["cb", "cbb"]]


def test_an_unconstrained_beam_finds_the_models_mode() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"", b""], eos_token_ids=[2, 3])
    model = TabularModel(lambda prefix: [0.3, 0.3, 0.2, 0.2], vocabulary)
    sample = SAMPLERS["beam"](beams=3).draw(model, None, "", rng=RNG(0), max_new_tokens=4)[0]
    assert (sample.text, sample.logprob) == ("", pytest.approx(math.log(0.4)))
    assert sample.valid is None


def test_disc_with_beams_draws_its_first_step_and_searches_the_rest() -> None:
    toy = toy_b()
    exact = masked(toy)
    samples = SAMPLERS["disc"](K=1, recycle=True, beams=3).draw(
        toy.model(), toy.constraint, "", n=3000, rng=RNG(0)
    )
    # The best member after each first token; its share is the first token's masked probability.
    best = {
        first: max((r for r in toy.members if r[0] == first), key=lambda row: log_prob(toy, row))
        for first in (0, 1, 2)
    }
    rows = [tuple(s.token_ids) for s in samples]
    given = toy.probabilities(())[:3]
    for first, row in best.items():
        share = given[first] / given.sum()
        error = 4 * math.sqrt(share * (1 - share) / len(rows))
        assert abs(rows.count(row) / len(rows) - share) <= error
    assert set(rows) == set(best.values())
    for sample in samples[:50]:
        x = exact.x[tuple(sample.token_ids)]
        assert sample.log_candidate_weight == pytest.approx(math.log(x), abs=1e-12)
        assert (sample.exactness, sample.log_weight) == ("heuristic", None)


def test_disc_with_beams_passes_over_a_forced_prefix_before_it_draws() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"<", b""], eos_token_ids=[3])
    model = TabularModel(lambda prefix: [0.3, 0.3, 0.2, 0.2], vocabulary)
    constraint = toy_set([(2, 0, 0), (2, 0, 1), (2, 1, 0)], vocabulary)
    samples = SAMPLERS["disc"](K=1, recycle=True, beams=2).draw(
        model, constraint, "", n=100, rng=RNG(0)
    )
    assert {tuple(s.token_ids) for s in samples} == {(2, 0, 0), (2, 1, 0)}
