"""Estimates of mass, and other spellings of texts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.errors import CdecError, ContextLengthError, UntokenizableError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import masked, mass
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from cdec.samplers.scoring.retokenize import Retokenized, Retokenizer
from cdec.samplers.scoring.ways import WaysConstraint, one_way, ways_to_spell
from tests.laws.sessions import assert_session_laws
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Toy, random_toy, toy_a, toy_b, toy_set
from tests.samplers.raw_means import watched

# --- MassEstimator: its mean against enumeration, its bounds, and when it gives no estimate.


def measured(toy: Toy, seed: int = 1, *, limit: int | None = None, **options: Any) -> Mass:
    request = Request("", toy.constraint, [seed], max_new_tokens=limit)
    (found,) = MassEstimator(**options).run(toy.model(), [request])
    assert isinstance(found, Mass)
    return found


@pytest.mark.share(1)
@pytest.mark.parametrize("remember", [True, False])
@pytest.mark.parametrize("candidates", [1, 20])
def test_the_mean_is_unbiased_whatever_the_tree_learnt(candidates: int, remember: bool) -> None:
    toy = toy_b()
    runs = heavy_or(100, 250)
    options = {"candidates": candidates, "remember": remember, "round": 4}
    with watched() as found:
        for seed in range(runs):
            measured(toy, seed, **options)
    means = np.exp([one.log_mean for one in found])
    # Four standard errors of the mean of the runs.
    error = means.std(ddof=1) / math.sqrt(runs)
    assert abs(means.mean() - mass(toy)) <= 4 * error
    assert error < mass(toy) / 5


@pytest.mark.slow
def test_the_standard_error_is_that_of_adaptive_candidates() -> None:
    # Of toy A the first rounds are far from certain and the last ones hardly are.
    toy = toy_a()
    with watched() as found:
        for seed in range(heavy_or(100, 250)):
            measured(toy, seed, candidates=40, round=4)
    means = np.exp([one.log_mean for one in found])
    claimed = means * [one.sampling_error for one in found]
    # s^2 / n has the variance of the mean as its mean; 100 runs know it to a seventh.
    assert float((claimed**2).mean()) == pytest.approx(float(means.var(ddof=1)), rel=0.35)


def test_memory_narrows_bounds_and_errors() -> None:
    toy = toy_b()
    errors = {}
    for remember in (True, False):
        found = [measured(toy, seed, candidates=100, remember=remember) for seed in range(10)]
        errors[remember] = np.mean([one.log_mass_se for one in found])
    assert errors[True] < errors[False] / 2


@pytest.mark.parametrize("remember", [True, False])
def test_bounds_hold_and_close(remember: bool) -> None:
    for seed in range(heavy_or(12, 25)):
        toy = random_toy(seed, ends_itself=seed % 2 == 1)
        truth = mass(toy)
        for candidates in (1, 4, 20, 200):
            found = measured(toy, seed, candidates=candidates, remember=remember)
            fields = found.to_json()
            lower, upper = fields["mass_lower"], fields["mass_upper"]
            assert isinstance(lower, float) and isinstance(upper, float)
            assert lower <= truth + 1e-12
            assert upper >= truth - 1e-12
        if remember and truth > 0:
            assert upper - lower < 0.2 * upper + 1e-12


def test_a_run_that_stops_early_has_bounds_and_no_estimate() -> None:
    toy = toy_b()
    whole = measured(toy, candidates=300)
    assert (whole.candidates, whole.converged) == (300, None)
    early = measured(toy, candidates=300, until_converged=1e-6)
    assert early.candidates < 300
    assert early.candidates % 16 == 0
    assert early.converged is True
    assert (early.mass, early.log_mass, early.log_mass_se) == (None, None, None)
    fields = early.to_json()
    assert fields["mass_upper"] - fields["mass_lower"] <= 1e-6  # type: ignore[operator]
    assert fields["mass_lower"] == pytest.approx(mass(toy))
    # Not converged by the last candidate: all that was asked for was drawn, so there is a mean.
    late = measured(toy, candidates=2, round=2, until_converged=1e-6)
    assert (late.candidates, late.converged) == (2, False)
    assert late.mass is not None


def test_the_number_of_candidates_is_kept_and_rounds_decide() -> None:
    toy = toy_b()
    assert measured(toy, candidates=7, round=3).candidates == 7
    # One candidate has no spread: the bracket alone says how far off it can be.
    one = measured(toy, candidates=1).to_json()
    lower, log_mass, upper = (
        float(one[name])  # type: ignore[arg-type]
        for name in ("log_mass_lower", "log_mass", "log_mass_upper")
    )
    assert one["log_mass_se"] == pytest.approx(max(upper - log_mass, log_mass - lower))
    with watched() as estimates:
        for size in (1, 7, 40):
            measured(toy, candidates=40, round=size)
    assert len({estimate.log_mean for estimate in estimates}) == 3
    assert measured(toy, candidates=40, round=40).round == 40
    # The first round knows nothing: masked decoding, as without memory.
    alone = measured(toy, candidates=16, remember=False)
    first = measured(toy, candidates=16)
    assert alone.ess == pytest.approx(first.ess)


def test_without_mass_the_estimate_is_zero_and_not_null() -> None:
    toy = toy_b()

    def nothing(prefix: tuple[int, ...]) -> Any:
        return np.array([0.0, 0.0, 0.0, 1.0])

    empty = dataclasses.replace(toy, probabilities=nothing)
    for options in ({}, {"until_converged": 0.5}, {"remember": False}):
        found = measured(empty, candidates=16, **options)
        assert found.to_json()["mass"] == 0.0
        assert found.to_json()["mass_upper"] == 0.0
        assert (found.log_mass, found.log_mass_upper) == (None, None)


def test_the_share_beyond_the_length_limit_is_told() -> None:
    toy = toy_b()
    free = measured(toy, candidates=200)
    assert free.length_mass_upper == 0.0
    cut = measured(toy, candidates=200, limit=2)
    short = sum(p * masked(toy, 2).x[row] for row, p in masked(toy, 2).law.items() if row)
    assert cut.to_json()["mass_lower"] == pytest.approx(short)
    assert cut.length_mass_upper is not None
    assert 0 < cut.length_mass_upper < 1


def test_costs_are_the_distinct_prefixes() -> None:
    toy = toy_b()
    calls: list[tuple[int, ...]] = []

    def counted(prefix: tuple[int, ...]) -> Any:
        calls.append(prefix)
        return toy.probabilities(prefix)

    model = TabularModel(counted, toy.vocabulary)
    (found,) = MassEstimator(candidates=64).run(model, [Request("", toy.constraint, [1])])
    assert isinstance(found, Mass)
    assert found.distinct_evaluations == len(set(calls)) == len(calls)
    assert found.target_calls <= found.distinct_evaluations


def test_records_do_not_change_each_other() -> None:
    toy = toy_b()
    other = toy_set(toy.members[:2], toy.vocabulary)
    requests = [
        Request("", toy.constraint, [1]),
        Request("", other, [2]),
        Request("", None, [3]),
        Request("", toy.constraint, []),
        Request("", toy.constraint, [4], max_new_tokens=1),
    ]
    for options in ({}, {"remember": False}, {"until_converged": 0.01}, {"max_walks": 3}):
        together = MassEstimator(candidates=50, **options).run(toy.model(), requests)  # type: ignore[arg-type]
        assert isinstance(together[2], UsageError)
        assert isinstance(together[3], UsageError)
        for number in (0, 1, 4):
            (alone,) = MassEstimator(candidates=50, **options).run(  # type: ignore[arg-type]
                toy.model(), [requests[number]]
            )
            assert together[number] == alone


def test_a_record_whose_model_fails_leaves_the_others_alone() -> None:
    toy = toy_b()

    def failing(prefix: tuple[int, ...]) -> Any:
        return np.full(4, np.nan) if prefix == (2,) else toy.probabilities(prefix)

    model = TabularModel(failing, toy.vocabulary)
    safe = toy_set([(0,), (0, 1)], toy.vocabulary)
    requests = [Request("", toy.constraint, [1]), Request("", safe, [2])]
    bad, good = MassEstimator(candidates=50).run(model, requests)
    assert isinstance(bad, CdecError)
    assert isinstance(good, Mass)


@pytest.mark.parametrize(
    "options",
    [
        {"candidates": 0},
        {"round": 0},
        {"until_converged": 0.0},
        {"until_converged": math.inf},
        {"remember": False, "tree": TreeFile("x.arrow")},  # type: ignore[arg-type]
    ],
)
def test_options_out_of_range_are_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        MassEstimator(**options)


# --- Retokenisation: the greedy spelling of a text, its probability, and the tokenizer's.

BYTES = [b"a", b"b", b"ab", b"ba", b"abx", b"", b"\xc3", b"\xa9"]


class OneByteAToken:
    """Encodes a text byte by byte; ``!`` becomes ``a``, as a normaliser might do."""

    hash = "none"

    def encode(self, texts: list[str]) -> list[list[int]]:
        single = {text: i for i, text in enumerate(BYTES) if len(text) == 1}
        return [
            [single[bytes([b])] for b in text.replace("!", "a").encode() if bytes([b]) in single]
            for text in texts
        ]


VOCABULARY = Vocabulary(BYTES, [5], tokenization=OneByteAToken())  # type: ignore[arg-type]


def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
    weights = np.array([4.0, 3.0, 5.0, 2.0, 9.0, 1.0, 1.0, 1.0])
    if prefix and prefix[-1] == 2:  # After "ab", "ba" is likelier than "a" and "b".
        weights[3] = 20.0
    return weights / weights.sum()


MODEL = TabularModel(probabilities, VOCABULARY)


def run(*texts: str, **options: Any) -> list[Any]:
    return Retokenizer(MODEL, **options).run(texts, [""] * len(texts))


def log_p(ids: list[int]) -> float:
    return sum(math.log(probabilities(tuple(ids[:i]))[t]) for i, t in enumerate(ids))


def test_the_most_probable_prefix_is_taken_each_time() -> None:
    (result,) = run("abbaab")
    assert result.preferred.token_ids == [2, 3, 2]
    assert result.tokens == ["ab", "ba", "ab"]
    assert result.preferred.logprob == pytest.approx(log_p([2, 3, 2]))
    assert result.preferred.perplexity == pytest.approx(math.exp(-log_p([2, 3, 2]) / 3))
    assert result.canonical.token_ids == [0, 1, 1, 0, 0, 1]
    assert result.canonical.logprob == pytest.approx(log_p([0, 1, 1, 0, 0, 1]))
    assert result.canonical.perplexity == pytest.approx(math.exp(-result.canonical.logprob / 6))


def test_the_end_event_counts_where_it_is_asked_for() -> None:
    (plain,), (ended,) = run("ab"), run("ab", end=True)
    end = math.log(probabilities((2,))[5])
    assert ended.preferred.logprob == pytest.approx(plain.preferred.logprob + end)
    assert ended.preferred.perplexity == pytest.approx(math.exp(-ended.preferred.logprob / 2))
    assert ended.preferred.token_ids == plain.preferred.token_ids == [2]


def test_a_token_that_leads_nowhere_is_not_taken() -> None:
    # "abx" is likeliest, but the text has no x; and "x" alone could not be spelt.
    (result,) = run("ab")
    assert result.preferred.token_ids == [2]
    ways = ways_to_spell(b"abxb", SortedTokens(VOCABULARY), ends_itself=True)
    assert ways[0] == {4: 3}


def test_the_keys_stand_in_the_documented_order() -> None:
    (result,) = run("a\u00e9")
    assert list(result.to_json()) == [
        "text",
        "token_ids",
        "tokens",
        "logprob",
        "perplexity",
        "canonical_token_ids",
        "canonical_logprob",
        "canonical_perplexity",
    ]
    assert result.to_json()["tokens"] == ["a", "\\xc3", "\\xa9"]


def test_texts_decode_together_as_alone_and_errors_stand_in_their_place() -> None:
    texts = ["ab", "a!", "", "bab", "\ud800", "ab"]
    together = run(*texts)
    assert isinstance(together[1], UntokenizableError)
    assert together[4].code == "E_ENCODING"
    for text, result in zip(texts, together, strict=True):
        (alone,) = run(text)
        if isinstance(result, Retokenized):
            assert result == alone
        else:
            assert type(result) is type(alone)


def test_the_empty_text_has_no_perplexity_without_its_end() -> None:
    (nothing,), (ended,) = run(""), run("", end=True)
    assert (nothing.preferred.logprob, nothing.preferred.perplexity) == (0.0, None)
    assert ended.preferred.perplexity == pytest.approx(1 / probabilities(())[5])


def test_a_text_without_probability_is_an_error() -> None:
    model = TabularModel(lambda prefix: [0, 0.5, 0, 0, 0, 0.5, 0, 0], VOCABULARY)
    bad, good = Retokenizer(model).run(["ba", "bb"], ["", ""])
    assert isinstance(bad, UntokenizableError)
    assert "'b'" in str(bad)
    assert isinstance(good, Retokenized)


def test_a_text_beyond_the_context_is_an_error() -> None:
    model = TabularModel(probabilities, VOCABULARY)
    model.context_length = 3
    long, short = Retokenizer(model).run(["abbaabab", "aba"], ["", ""])
    assert isinstance(long, ContextLengthError)
    assert isinstance(short, Retokenized)


@pytest.mark.parametrize("ends_itself", [True, False])
def test_sessions_obey_the_laws(ends_itself: bool) -> None:
    all_ways = ways_to_spell(b"abxab", SortedTokens(VOCABULARY), ends_itself=ends_itself)
    for ways in (all_ways, one_way([0, 3, 1], ends_itself=ends_itself)):
        constraint = WaysConstraint(ways, VOCABULARY)
        assert_session_laws(constraint, [], np.random.default_rng(0))
