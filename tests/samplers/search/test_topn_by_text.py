"""Best-first search by text: sums over tokenisations, their bounds, and what is certain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.search.members import Found, Known, ranked
from cdec.samplers.topn import TopnSampler
from tests.laws.grammar_cases import compiled
from tests.laws.toys import Row, Toy, toy_b
from tests.samplers.search.topn_cases import ROUNDING, Spellings, calls, field, search

TEXTS = ["ab", "aab", "b", "abab", "aaaa", "ba"]


@pytest.fixture(scope="module")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> object:
    source = "start: " + " | ".join(f'"{text}"' for text in TEXTS) + "\n"
    return compiled(source, tmp_path_factory.mktemp("texts"), Spellings(TEXTS, 0).vocabulary)


def by_text(spellings: Spellings, grammar: object, n: int, **options: object) -> list[Sample]:
    """Return the n best texts."""
    if "max_evaluations" not in options:
        options = {"proved": True, **options}
    sampler = TopnSampler(by="text", **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    return sampler.draw(spellings.model(), grammar, "", n=n, rng=rng, max_new_tokens=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_all_texts_have_their_exact_sums(seed: int, grammar: object) -> None:
    spellings = Spellings(TEXTS, seed)
    samples = by_text(spellings, grammar, len(TEXTS) + 1)
    found = {s.text: s.diagnostics for s in samples}
    assert {text: d["log_text"] for text, d in found.items()} == pytest.approx(spellings.by_text)
    ranked = sorted(TEXTS, key=lambda text: -spellings.by_text[text])
    assert [s.text for s in samples] == ranked
    assert field(samples, "exhausted") == [False] * (len(ranked) - 1) + [True]
    for sample in samples:
        rows = [
            r for r in spellings.log_p if spellings.vocabulary.decode(r).decode() == sample.text
        ]
        assert sample.diagnostics["tokenisations"] == len(rows)
        best = max(rows, key=lambda row: spellings.log_p[row])
        assert tuple(sample.token_ids) == best
        assert sample.logprob == pytest.approx(spellings.log_p[best], abs=ROUNDING)
        log_q = spellings.by_text[sample.text] - spellings.log_mass
        for side in ("lower", "upper"):
            q = sample.diagnostics[f"probability_{side}"]
            assert q == pytest.approx(math.exp(log_q), abs=ROUNDING)
    assert {s.exactness for s in samples} == {"exact"}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("round", [1, 8])
def test_a_few_texts_have_bounds_that_hold_and_certain_ranks_are_right(
    seed: int, round: int, grammar: object
) -> None:
    spellings = Spellings(TEXTS, seed)
    ranked = sorted(TEXTS, key=lambda text: -spellings.by_text[text])
    for n in range(1, len(TEXTS)):
        samples = by_text(spellings, grammar, n, round=round)
        assert len({s.text for s in samples}) == n
        assert all(field(samples, "proved"))
        sums = [s.diagnostics["log_text"] for s in samples]
        assert sums == sorted(sums, reverse=True)
        for i, sample in enumerate(samples):
            log_p = spellings.by_text[sample.text]
            assert sample.diagnostics["log_text"] <= log_p + ROUNDING
            known = sample.diagnostics
            lower, upper = known["probability_lower"], known["probability_upper"]
            q = math.exp(log_p - spellings.log_mass)
            assert lower <= q + ROUNDING
            assert upper >= q - ROUNDING
            if sample.exactness == "exact":
                assert sample.text == ranked[i]
        # No tokenisation that was missed has more than the last sum.
        missed = [
            p
            for row, p in spellings.log_p.items()
            if spellings.vocabulary.decode(row).decode() not in {s.text for s in samples}
        ]
        assert max(missed) <= sums[-1] + ROUNDING


def test_some_ranks_are_certain_and_some_are_not(grammar: object) -> None:
    seen = set()
    for seed in range(12):
        for n in range(1, len(TEXTS)):
            samples = by_text(Spellings(TEXTS, seed), grammar, n, round=1)
            seen |= {s.exactness for s in samples}
    assert seen == {"exact", "heuristic"}


def test_sequences_of_one_text_are_members_of_their_own_unless_by_text(grammar: object) -> None:
    spellings = Spellings(TEXTS, 3)
    samples = TopnSampler().draw(
        spellings.model(), grammar, "", n=8, rng=np.random.default_rng(0), max_new_tokens=5
    )
    ranked = sorted(spellings.log_p, key=lambda row: -spellings.log_p[row])
    assert [tuple(s.token_ids) for s in samples] == ranked[:8]
    assert len({s.text for s in samples}) < 8
    assert "log_text" not in samples[0].diagnostics


def test_texts_of_the_model_alone_are_summed_too() -> None:
    spellings = Spellings([], 1)
    samples = TopnSampler(by="text").draw(
        spellings.model(), None, "", n=4, rng=np.random.default_rng(0), max_new_tokens=3
    )
    for sample in samples:
        total = Spellings([sample.text], 1).by_text[sample.text]
        lower, upper = (sample.diagnostics[f"probability_{side}"] for side in ("lower", "upper"))
        assert sample.diagnostics["log_text"] <= total + ROUNDING
        shown = math.exp(sample.diagnostics["log_text"])
        assert shown - ROUNDING < lower < shown
        assert upper >= math.exp(total) - ROUNDING


def test_a_set_has_one_tokenisation_a_text() -> None:
    plain, summed = search(toy_b(), 6), search(toy_b(), 6, by="text")
    assert [s.token_ids for s in plain] == [s.token_ids for s in summed]
    assert field(summed, "tokenisations") == [1] * 6
    bounds = field(plain, "probability_upper")
    assert field(summed, "probability_upper") == pytest.approx(bounds, abs=ROUNDING)


def test_a_budget_leaves_sums_that_are_lower_bounds(grammar: object) -> None:
    spellings = Spellings(TEXTS, 2)
    for budget in (1, 3, 6, 10, 20):
        samples = by_text(spellings, grammar, 3, max_evaluations=budget, round=2)
        assert calls(samples) <= budget
        for sample in samples:
            if sample.logprob is None:
                assert (sample.finish_reason, sample.text, sample.valid) == ("budget", None, None)
                continue
            assert sample.finish_reason == "complete"
            log_p = spellings.by_text[sample.text]
            assert sample.logprob <= sample.diagnostics["log_text"] <= log_p + ROUNDING
            q = math.exp(log_p - spellings.log_mass)
            assert q - ROUNDING <= sample.diagnostics["probability_upper"] <= 1


def test_a_rank_is_certain_if_the_open_mass_closes_no_gap_on_either_side() -> None:
    sums = [0.5, 0.49, 0.3, 0.1, 0.04]
    for log_bound, expected in ((-9.0, [0, 0, 1, 1, 0]), (-math.inf, [1, 1, 1, 1, 1])):
        found = Found(5, lambda context: context, lambda context: [context])
        for context, p in enumerate(sums):
            found.add(context, math.log(p))
        bracket = Bracket(math.log(0.9), math.log(0.95))
        known = Known(bracket, math.log(0.05), log_bound, True, False, lambda log_p: 0.0)
        members = ranked(found, known, by_text=True)
        assert [member.is_certain for member in members] == [bool(e) for e in expected]
        assert all(member.proved for member in members)


@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_rank_is_not_certain_where_prefixes_were_left_out(size: int) -> None:
    vocabulary = Vocabulary(
        [b"ab.", b"c", b"d.", b"cd.", b""], eos_token_ids=[4], special_token_ids=[4]
    )

    def probabilities(prefix: Row) -> np.ndarray:
        after = {(): [0.40, 0.31, 0.0, 0.29, 0.0], (1,): [0.0, 0.0, 1.0, 0.0, 0.0]}
        return np.array(after.get(prefix, [0.0, 0.0, 0.0, 0.0, 1.0]))

    # "cd." has .60 in two tokenisations, more than the one of "ab.".
    toy = Toy(vocabulary, probabilities, [(0,), (1, 2), (3,)], ends_itself=True)
    for n in (1, 2):
        sampler = TopnSampler(by="text", round=size)
        samples = sampler.draw(toy.model(), toy.constraint, "", n=n, rng=np.random.default_rng(0))
        if samples[0].text != "cd.":
            assert samples[0].exactness == "heuristic"
    whole = TopnSampler(by="text", round=size).draw(
        toy.model(), toy.constraint, "", n=3, rng=np.random.default_rng(0)
    )
    assert [s.text for s in whole[:2]] == ["cd.", "ab."]
