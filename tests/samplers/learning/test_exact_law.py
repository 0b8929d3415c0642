"""The law of exact and its budgets."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdec.core import CdecError, Sample
from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.integrations.findings.adaptive import Memory, Rules
from cdec.integrations.findings.enumeration import Law, log_prob, masked, mass, target
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy, toy_a, toy_b
from tests.samplers.learning.aligned_reference import count_calls
from tests.samplers.raw_means import watched

# --- Exact sampling on toys A and B: the law, independence, what a sample costs, unbiased masses.
#
# A long record tells little, since its tree is soon known and then draws Q itself; so the draws are
# those of many short records, whose first samples come from a tree that knows nothing.

MAKE = {"A": toy_a, "B": toy_b}
SAMPLES = 100
RECORDS = heavy_or(160, 1000)
DESIGN = {("A", False): 6.54, ("A", True): 6.62, ("B", False): 3.38, ("B", True): 3.43}
"""Uncached calls per sample at round 1, by toy and whether candidates abort."""


def draw_records(
    toy: Toy, records: int, n: int, *, seed: int = 1, model: TabularModel | None = None, **how: Any
) -> list[list[Sample]]:
    """Draw ``n`` samples for each of ``records`` records that learn apart."""
    rng = np.random.default_rng(seed)
    requests = [Request("", toy.constraint, draw_seeds(rng, n)) for _ in range(records)]
    sampler = SAMPLERS["exact"](max_walks=1 << 15, **how)
    found = []
    for drawn in sampler.draw_batch(model or toy.model(), requests):
        assert not isinstance(drawn, CdecError), drawn
        found.append(drawn)
    return found


def rows_of(records: list[list[Sample]]) -> list[list[Row]]:
    return [[tuple(sample.token_ids) for sample in samples] for samples in records]


def check_law(toy: Toy, records: list[list[Row]]) -> None:
    """Test all draws, and apart from them those of trees that know little, against Q."""
    law = target(toy)
    for first, last in ((0, 1), (1, 4), (0, len(records[0]))):
        assert g_test((row for rows in records for row in rows[first:last]), law) >= 1e-4
    product = {(a, b): p * q for a, p in law.items() for b, q in law.items()}
    assert g_test(((rows[0], rows[1]) for rows in records), product) >= 1e-4
    pairs = ((rows[i], rows[i + 1]) for rows in records for i in range(0, len(rows) - 1, 2))
    assert g_test(pairs, product) >= 1e-4


def check_fields(samples: list[Sample]) -> None:
    """Check what every accepted sample says, and that samples are in the candidates' order."""
    for sample in samples:
        assert (sample.log_weight, sample.exactness) == (0.0, "exact")
        assert (sample.finish_reason, sample.valid) == ("complete", True)
        assert sample.diagnostics["accepted"]
    iterations = [sample.diagnostics["iteration"] for sample in samples]
    assert iterations == sorted(set(iterations))
    assert np.cumsum([sample.diagnostics["draws"] for sample in samples]).tolist() == iterations


def check_calls(toy: Toy, calls: list[float], size: int, abort: bool, design: float) -> None:
    """Compare the mean calls per sample of some records with the design's, and the reference's."""
    error = np.std(calls, ddof=1) / math.sqrt(len(calls))
    if size == 1:
        # The design's tolerance, and four standard errors of fewer seeds than its 300.
        assert abs(np.mean(calls) - design) <= 0.05 + 4 * error
    assert np.mean(calls) <= 1.5 * design
    own = [
        count_calls(toy, SAMPLES, size, seed, aborting=abort) for seed in range(heavy_or(25, 60))
    ]
    slack = 4 * math.hypot(error, np.std(own, ddof=1) / math.sqrt(len(own)))
    assert abs(np.mean(calls) - np.mean(own)) <= slack + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("round_size", [1, 16])
@pytest.mark.parametrize("name", MAKE)
def test_draws_follow_q_independently_at_the_designs_cost(
    name: str, round_size: int, abort: bool
) -> None:
    toy = MAKE[name]()
    # Rounds of one are slow by nature: a quarter of the records for the aborting kind.
    records = draw_records(
        toy,
        RECORDS // 4 if abort and round_size == 1 else RECORDS,
        SAMPLES,
        round=round_size,
        abort=abort,
    )
    check_law(toy, rows_of(records))
    for samples in records[:20]:
        check_fields(samples)
    calls = [
        float(np.mean([sample.diagnostics["path_calls"] for sample in samples]))
        for samples in records[:250]
    ]
    check_calls(toy, calls, round_size, abort, DESIGN[name, abort])


@pytest.mark.share(1)
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("round_size", [1, 16])
@pytest.mark.parametrize("name", MAKE)
def test_each_prefix_is_asked_for_once(name: str, round_size: int, abort: bool) -> None:
    toy = MAKE[name]()
    for seed in range(5):
        asked: list[Row] = []

        def ask(prefix: Row, asked: list[Row] = asked) -> Any:
            asked.append(prefix)
            return toy.probabilities(prefix)

        model = TabularModel(ask, toy.vocabulary)
        (samples,) = draw_records(
            toy, 1, 100, seed=seed, model=model, round=round_size, abort=abort
        )
        distinct = sum(s.diagnostics["distinct_evaluations"] for s in samples)
        assert len(asked) == len(set(asked)) == distinct <= {"A": 37, "B": 10}[name]


@pytest.mark.share(1)
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize(("n", "round_size", "max_draws"), [(1, 1, 1000), (2, 16, 1000), (3, 4, 2)])
@pytest.mark.parametrize("name", MAKE)
def test_mass_is_estimated_without_bias_however_many_candidates_it_took(
    name: str, n: int, round_size: int, max_draws: int, abort: bool
) -> None:
    toy, count = MAKE[name](), 800
    how: dict[str, Any] = {"max_draws": max_draws, "fallback": "none"}
    with watched() as found:
        records = draw_records(toy, count, n, round=round_size, abort=abort, **how)
    estimates = np.exp([each.log_mean for each in found])
    assert len(estimates) == count
    error = 4 * estimates.std(ddof=1) / math.sqrt(count)
    assert abs(estimates.mean() - mass(toy)) <= error + 1e-12
    for samples in records:
        lower, upper = (samples[-1].diagnostics[f"log_mass_{s}"] for s in ("lower", "upper"))
        assert lower is None or lower <= math.log(mass(toy)) + 1e-9
        assert upper >= math.log(mass(toy)) - 1e-9


def accept_all(drawn: Round) -> Round:
    """Accept every candidate that found an end."""
    return replace(drawn, tests=np.full(len(drawn.tests), -1.0))


def accept_squares(drawn: Round) -> Round:
    """Accept by the weight alone, c(root) counted twice."""
    return replace(drawn, log_root=2 * drawn.log_root)


def sort_tests(drawn: Round) -> Round:
    """Test the most probable text of a round first."""
    order = np.argsort(-drawn.candidates.log_p, kind="stable")
    return replace(drawn, candidates=drawn.candidates.take(order), tests=drawn.tests[order])


Break = Callable[[Round], Round]


@pytest.mark.share(1)
@pytest.mark.parametrize(
    ("break_it", "round_size"), [(accept_all, 1), (accept_squares, 16), (sort_tests, 16)]
)
def test_law_notices_a_broken_acceptance(
    break_it: Break, round_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Rounds.draw

    def broken(rounds: Rounds, *given: Any) -> Any:
        yield from (break_it(drawn) for drawn in draw(rounds, *given))

    monkeypatch.setattr(Rounds, "draw", broken)
    toy = toy_b()
    records = rows_of(draw_records(toy, 800, 6, round=round_size))
    with pytest.raises(AssertionError):
        check_law(toy, records)


def test_law_notices_a_tree_that_learns_before_the_round_is_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = Rounds.draw

    def late(rounds: Rounds, *given: Any) -> Any:
        for drawn in draw(rounds, *given):
            yield replace(drawn, log_root=rounds.log_root(drawn.request))

    monkeypatch.setattr(Rounds, "draw", late)
    toy = toy_b()
    records = rows_of(draw_records(toy, 800, 6, round=16))
    with pytest.raises(AssertionError):
        check_law(toy, records)


# --- Exact sampling past its budget, without any mass, at length limits, and its options.

LEARNING = [("asap", {"burn_in": 0}), ("asap", {}), ("exact", {}), ("exact", {"abort": True})]


def draw_within(name: str, toy: Toy, records: int, n: int, **how: Any) -> list[list[Sample]]:
    """Draw ``n`` samples for each of ``records`` records that learn apart."""
    limit, rng = how.pop("limit", None), np.random.default_rng(how.pop("seed", 3))
    requests = [
        Request("", toy.constraint, draw_seeds(rng, n), max_new_tokens=limit)
        for _ in range(records)
    ]
    found = []
    for drawn in SAMPLERS[name](max_walks=1 << 15, **how).draw_batch(toy.model(), requests):
        assert not isinstance(drawn, CdecError), drawn
        found.append(drawn)
    return found


def outcome(sample: Sample) -> Row | None:
    return None if sample.logprob is None else tuple(sample.token_ids)


def law_with_budget_one(toy: Toy, tries: int, *, weighted: bool) -> Law:
    """Return the law of a sample of one candidate, then one of ``tries`` more (1 or 2)."""
    rules = Rules(toy)
    law: Law = defaultdict(float)
    for row, p in masked(toy).law.items():
        assert row is not None
        x = masked(toy).x[row]
        law[row] += p * x
        memory = Memory(rules)
        memory.learn([row])
        after = memory.law()
        if tries == 1 or not weighted:
            for other, q in after.items():
                law[other] += p * (1 - x) * q
            continue
        weight = {r: memory.weight([r[:n] for n in range(len(r) + 1)]) for r in after if r}
        for one, q in after.items():
            for two, s in after.items():
                share = weight[one] / (weight[one] + weight[two])
                law[one] += p * (1 - x) * q * s * share
                law[two] += p * (1 - x) * q * s * (1 - share)
    return dict(law)


@pytest.mark.share(1)
@pytest.mark.parametrize(
    ("fallback", "tries", "exactness"),
    [("disc", 1, "asymptotic"), ("disc", 2, "asymptotic"), ("asap", 4, "asymptotic")],
)
def test_a_sample_past_the_budget_is_its_fallback_and_says_so(
    fallback: str, tries: int, exactness: str
) -> None:
    toy = toy_b()
    how: dict[str, Any] = {"round": 1, "max_draws": 1, "fallback": fallback, "K": tries}
    samples = [drawn[0] for drawn in draw_within("exact", toy, 1500, 1, **how)]
    law = law_with_budget_one(toy, tries, weighted=fallback == "disc")
    assert sum(law.values()) == pytest.approx(1)
    assert g_test(map(outcome, samples), law) >= 1e-4
    late = [sample for sample in samples if not sample.diagnostics["accepted"]]
    assert abs(1 - len(late) / 1500 - mass(toy)) <= 4 * math.sqrt(mass(toy) / 1500)
    for sample in late:
        assert (sample.finish_reason, sample.exactness) == ("budget", exactness)
        assert sample.valid and sample.logprob is not None
        assert sample.log_candidate_weight is not None
        expected = sample.log_candidate_weight if fallback == "asap" else None
        assert sample.log_weight == expected
        assert 2 <= sample.diagnostics["draws"] <= 1 + (tries if fallback == "disc" else 1)
    for sample in samples:
        if sample.diagnostics["accepted"]:
            assert (sample.finish_reason, sample.log_weight) == ("complete", 0.0)
            assert (sample.exactness, sample.diagnostics["draws"]) == ("exact", 1)


@pytest.mark.slow
def test_without_a_fallback_a_sample_past_the_budget_has_no_text() -> None:
    toy = toy_b()
    how: dict[str, Any] = {"round": 4, "max_draws": 2, "fallback": "none"}
    records = draw_within("exact", toy, 1500, 3, **how)
    accepted = [s for r in records for s in r if s.diagnostics["accepted"]]
    late = [s for r in records for s in r if not s.diagnostics["accepted"]]
    # What was accepted in time is exact, and each place among the samples on its own.
    for place in range(3):
        assert g_test((outcome(s) for s in accepted if s.index == place), target(toy)) >= 1e-4
    assert min(len(accepted), len(late)) > 300
    for sample in late:
        assert (sample.finish_reason, sample.text, list(sample.token_ids)) == ("budget", None, [])
        assert (sample.logprob, sample.log_weight, sample.log_candidate_weight) == (None,) * 3
        assert sample.valid is None
    for samples in records:
        assert sum(s.diagnostics["draws"] for s in samples) <= 6
        places = [s.diagnostics["accepted"] for s in samples]
        assert places == sorted(places, reverse=True)


@pytest.mark.parametrize("abort", [False, True])
def test_fallbacks_change_no_accepted_sample(abort: bool) -> None:
    toy = toy_a()
    found, means = {}, []
    for fallback in ("none", "asap", "disc"):
        how: dict[str, Any] = {"round": 4, "max_draws": 2, "abort": abort, "fallback": fallback}
        with watched() as estimates:
            found[fallback] = draw_within("exact", toy, 30, 6, **how)
        means.append([estimate.log_mean for estimate in estimates])
    accepted = {
        fallback: [[outcome(s) for s in r if s.diagnostics["accepted"]] for r in records]
        for fallback, records in found.items()
    }
    assert accepted["none"] == accepted["asap"] == accepted["disc"]
    late = [s for r in found["asap"] for s in r if not s.diagnostics["accepted"]]
    assert late and all(s.valid and s.log_weight is not None for s in late)
    # Records hold these against their brackets, which a fallback's draws make narrower.
    assert means[0] == means[1] == means[2]


def hollow() -> Toy:
    """A set without any mass: what its texts need has probability zero, here or further on."""
    toy = toy_b()

    def probabilities(prefix: Row) -> np.ndarray:
        given = toy.probabilities(prefix).copy()
        given[[1, 3] if prefix else [2]] = 0.0
        return np.asarray(given / given.sum())

    return Toy(toy.vocabulary, probabilities, [(0, 1), (0, 0, 1), (1, 0), (1, 2, 2), (2,)])


@pytest.mark.parametrize(("name", "how"), LEARNING)
def test_a_set_without_mass_ends_at_once_as_dead_ends(name: str, how: dict[str, Any]) -> None:
    (samples,) = draw_within(name, hollow(), 1, 50, **how)
    assert len(samples) == 50
    for sample in samples:
        assert (sample.finish_reason, sample.log_weight, sample.logprob) == ("dead_end", None, None)
        assert sample.log_candidate_weight is None and not sample.valid
        assert sample.diagnostics["log_mass"] is sample.diagnostics["log_mass_upper"] is None
        json.dumps(dict(sample.diagnostics), allow_nan=False)
    assert sum(sample.diagnostics["distinct_evaluations"] for sample in samples) <= 8
    if name == "exact":
        # Seven prefixes are to be seen; then the bound is zero and nothing more is drawn.
        assert sum(sample.diagnostics["draws"] for sample in samples) <= 64


@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_length_limit_restricts_the_set_and_its_share_is_reported(
    limit: int, abort: bool
) -> None:
    toy = toy_b()
    inside = {row: math.exp(log_prob(toy, row)) for row in toy.members if len(row) <= limit}
    law: Law = {row: p / sum(inside.values()) for row, p in inside.items()}
    how: dict[str, Any] = {"limit": limit, "abort": abort, "max_draws": 10**4}
    records = draw_within("exact", toy, 400, 5, round=2, **how)
    assert g_test((outcome(s) for r in records for s in r), law) >= 1e-4
    assert g_test((outcome(r[0]) for r in records), law) >= 1e-4
    for samples in records:
        lower, upper = (samples[0].diagnostics[f"log_mass_{s}"] for s in ("lower", "upper"))
        assert lower - 1e-9 <= math.log(sum(inside.values())) <= upper + 1e-9
    rules = Rules(toy, limit)
    valid = {row[:limit] for row in toy.members if len(row) >= limit}
    beyond = sum(rules.probability(prefix) * rules.beyond(prefix) for prefix in valid)
    share = beyond / (beyond + sum(inside.values()))
    (long,) = draw_within("exact", toy, 1, 20_000, **how)
    # Once all is known every candidate says the same; the first 100 or so, of 20,000, vary.
    assert long[0].diagnostics["length_mass_upper"] == pytest.approx(share, rel=0.03)
    (free,) = draw_within("exact", toy, 1, 50)
    assert free[0].diagnostics["length_mass_upper"] == 0.0


@pytest.mark.parametrize(("name", "how"), LEARNING)
def test_a_limit_that_no_text_meets_gives_no_text(name: str, how: dict[str, Any]) -> None:
    toy = toy_b()
    longer = Toy(toy.vocabulary, toy.probabilities, [row for row in toy.members if len(row) > 1])
    (samples,) = draw_within(name, longer, 1, 20, limit=1, **how)
    for sample in samples:
        assert (sample.finish_reason, len(sample.token_ids) <= 1) == ("length", True)
        assert (sample.logprob, sample.log_weight, sample.valid) == (None, None, False)
        assert sample.diagnostics["length_mass_upper"] == 1.0


@pytest.mark.parametrize(("name", "how"), LEARNING)
def test_the_empty_text_alone_takes_no_tokens(name: str, how: dict[str, Any]) -> None:
    toy = toy_b()
    own = Toy(toy.vocabulary, toy.probabilities, [()])
    (samples,) = draw_within(name, own, 1, 20, **{"max_draws": 10**4, **how})
    assert {outcome(sample) for sample in samples} == {()}
    assert samples[0].logprob == pytest.approx(math.log(toy.probabilities(())[3]))
    assert samples[-1].diagnostics["log_mass_upper"] == pytest.approx(samples[0].logprob)


@pytest.mark.parametrize("abort", [False, True])
def test_few_samples_evaluate_no_prefix_that_no_candidate_visits(abort: bool) -> None:
    for toy in (toy_a(), toy_b()):
        for seed in range(8):
            asked: list[Row] = []

            def ask(prefix: Row, toy: Toy = toy, asked: list[Row] = asked) -> Any:
                asked.append(prefix)
                return toy.probabilities(prefix)

            samples = SAMPLERS["exact"](round=2, abort=abort).draw(
                TabularModel(ask, toy.vocabulary),
                toy.constraint,
                "",
                n=1,
                rng=np.random.default_rng(seed),
            )
            distinct = sum(sample.diagnostics["distinct_evaluations"] for sample in samples)
            assert len(asked) == len(set(asked)) == distinct


@pytest.mark.parametrize(
    "options", [{"fallback": "masked"}, {"max_draws": 0}, {"K": 0}, {"round": 1.5}]
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        SAMPLERS["exact"](**options)
    assert next(iter(options)) in str(caught.value)
