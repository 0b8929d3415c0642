"""The order of topn's samples, and its limits."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import mass
from cdec.samplers import SAMPLERS
from cdec.samplers.topn import DEFAULT_EVALUATIONS, TopnSampler
from tests.laws.grammar_cases import compiled
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b
from tests.samplers.search.topn_cases import (
    ROUNDING,
    assert_best,
    best_members,
    calls,
    field,
    search,
    wide_toy,
)

# --- What a search looks at first: beams where nothing can be guessed, likely members of sets.

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())
LETTERS = Vocabulary([b"a", b"b", b"(", b")", b""], eos_token_ids=[4], special_token_ids=[4])


def letters(prefix: Row) -> np.ndarray:
    weights = np.random.default_rng([7, *prefix]).exponential(size=5)
    return np.asarray(weights / weights.sum())


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(toy=TOYS, n=st.integers(1, 6), round=st.sampled_from([1, 3, 16]))
def test_a_larger_budget_never_gives_a_worse_list(toy: Toy, n: int, round: int) -> None:
    before: list[float] = [-math.inf] * n
    for budget in (1, 2, 3, 5, 8, 30):
        samples = search(toy, n, max_evaluations=budget, round=round)
        now = [-math.inf if s.logprob is None else s.logprob for s in samples]
        now += [-math.inf] * (n - len(now))
        assert all(a >= b for a, b in zip(now, before, strict=True))
        before = now


@settings(max_examples=30, deadline=None, derandomize=True)
@given(toy=TOYS, n=st.integers(1, 6), budget=st.integers(1, 12))
def test_ranks_and_bounds_of_what_is_left_hold(toy: Toy, n: int, budget: int) -> None:
    truth = [p for p, _ in best_members(toy)]
    samples = search(toy, n, max_evaluations=budget)
    listed = [s.logprob for s in samples if s.logprob is not None]
    unfound = list(truth)
    for logprob in listed:
        unfound.remove(min(unfound, key=lambda p: abs(p - logprob)))
    bound = samples[0].diagnostics["log_unfound_upper"]
    floor = min(listed, default=-math.inf)
    # What is not listed was found and is no better, or was not found.
    limit = max(floor, -math.inf if bound is None else bound)
    assert all(p <= limit + ROUNDING for p in unfound)
    for sample in samples:
        if sample.logprob is None:
            continue
        rank = 1 + sum(p > sample.logprob + ROUNDING for p in truth)
        upper = sample.diagnostics["rank_upper"]
        assert upper is None or sample.diagnostics["rank"] <= upper
        assert upper is None or rank <= upper
        assert not sample.diagnostics["proved"] or upper == sample.diagnostics["rank"]


def test_a_search_of_width_one_finds_what_greedy_decoding_finds_and_maybe_better() -> None:
    for seed in range(8):
        toy = random_toy(seed)
        rng = np.random.default_rng(0)
        greedy = SAMPLERS["greedy"]().draw(toy.model(), toy.constraint, "", rng=rng)[0]
        best = search(toy, 1, round=1)[0]
        assert greedy.logprob is None or best.logprob >= greedy.logprob - ROUNDING


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_texts_of_the_model_alone_are_as_good_as_those_of_beams(beams: int) -> None:
    model = TabularModel(letters, LETTERS)
    rng = np.random.default_rng(0)
    how = {"n": 1, "rng": rng, "max_new_tokens": 6}
    beam = SAMPLERS["beam"](beams=beams).draw(model, None, "", **how)[0]
    found = TopnSampler(round=beams).draw(model, None, "", **how)[0]
    assert found.logprob >= beam.logprob - ROUNDING


def nested(n: int, limit: int, grammar: object, **options: object) -> list[Sample]:
    sampler = TopnSampler(**options)  # type: ignore[arg-type]
    model, rng = TabularModel(letters, LETTERS), np.random.default_rng(0)
    return sampler.draw(model, grammar, "", n=n, rng=rng, max_new_tokens=limit)  # type: ignore[arg-type]


def test_an_infinite_language_is_searched_within_its_limit(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source = 'start: "(" start ")" | "a" | "b" start\n'
    grammar = compiled(source, tmp_path_factory.mktemp("nested"), LETTERS)
    texts: dict[Row, float] = {}

    def derive(form: list[object], limit: int) -> list[Row]:
        if "S" not in form:
            return [tuple(t for t in form if isinstance(t, int))] if len(form) <= limit else []
        at = form.index("S")
        ways = ([2, "S", 3], [0], [1, "S"])
        longer = [form[:at] + way + form[at + 1 :] for way in ways]
        return [row for new in longer if len(new) <= limit for row in derive(new, limit)]

    for row in derive(["S"], 7):
        p = 1.0
        for depth, token in enumerate((*row, 4)):
            p *= letters(row[:depth])[token]
        texts[row] = math.log(p)
    ranked = sorted(texts, key=lambda row: (-texts[row], row))
    for n in (1, 5, 20):
        proved = nested(n, 7, grammar, proved=True)
        assert [tuple(s.token_ids) for s in proved] == ranked[:n]
        assert all(field(proved, "proved"))
        quick = nested(n, 7, grammar, max_evaluations=20)
        assert calls(quick) <= 20
        for sample in quick:
            if sample.diagnostics["proved"]:
                assert tuple(sample.token_ids) == ranked[sample.diagnostics["rank"] - 1]
            if sample.logprob is not None:
                assert sample.logprob == pytest.approx(texts[tuple(sample.token_ids)])


@pytest.mark.slow
def test_members_of_a_large_set_are_found_with_a_call_each_or_less() -> None:
    rng = np.random.default_rng(3)
    rows = sorted({tuple(rng.integers(12, size=6).tolist()) for _ in range(3000)})
    vocabulary = Vocabulary([bytes([97 + t]) for t in range(12)] + [b""], [12], [12])

    def probabilities(prefix: Row) -> np.ndarray:
        # Tokens have a probability of their own, and the prefix changes it a little.
        weights = np.append(1.6 ** -np.arange(12.0), 0.3)
        weights *= np.random.default_rng([5, *prefix]).uniform(0.8, 1.25, size=13)
        return np.asarray(weights / weights.sum())

    toy = Toy(vocabulary, probabilities, rows)
    truth = best_members(toy)
    samples = search(toy, 3, max_evaluations=60)
    assert [tuple(s.token_ids) for s in samples] == [row for _, row in truth[:3]]
    assert calls(samples) <= 60
    assert calls(samples) < calls(search(toy, 3)) < len(rows)


def test_no_text_is_invented_where_the_budget_ends_before_any() -> None:
    toy = Toy(LETTERS, letters, [(0, 1, 0), (1, 1, 1)])
    samples = search(toy, 3, max_evaluations=1)
    found = [s for s in samples if s.logprob is not None]
    missing = samples[len(found) :]
    assert missing
    for sample in missing:
        assert (sample.text, sample.valid, sample.finish_reason) == (None, None, "budget")
        assert sample.token_ids == []
        assert sample.to_json()["text"] is None


def test_the_default_is_a_budget_and_proved_lifts_it() -> None:
    assert TopnSampler().budget == DEFAULT_EVALUATIONS
    assert TopnSampler(max_evaluations=7).budget == 7
    assert TopnSampler(proved=True).budget is None
    with pytest.raises(UsageError, match="proved"):
        TopnSampler(proved=True, max_evaluations=7)


def test_chunks_change_nothing() -> None:
    toy = wide_toy(11)
    runs = [search(toy, 9, max_evaluations=40, max_walks=walks) for walks in (1, 3, 2048)]
    for name in ("token_ids", "logprob"):
        assert len({str([getattr(s, name) for s in run]) for run in runs}) == 1
    for name in ("rank_upper", "proved", "target_calls", "distinct_evaluations"):
        assert len({str(field(run, name)) for run in runs}) == 1


# --- Best-first search under a budget of evaluations and under length limits.


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
