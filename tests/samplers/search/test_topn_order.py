"""What a search looks at first: beams where nothing can be guessed, likely members of sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.topn import DEFAULT_EVALUATIONS, TopnSampler
from tests.laws.grammar_cases import compiled
from tests.laws.toys import Row, Toy, random_toy
from tests.samplers.search.topn_cases import ROUNDING, best_members, calls, field, search, wide_toy

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())
LETTERS = Vocabulary([b"a", b"b", b"(", b")", b""], eos_token_ids=[4], special_token_ids=[4])


def letters(prefix: Row) -> np.ndarray:
    weights = np.random.default_rng([7, *prefix]).exponential(size=5)
    return np.asarray(weights / weights.sum())


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
