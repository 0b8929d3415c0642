"""ASAp: its curve, the law of its next candidate, its weights, and what its options change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.core import CdecError, Sample
from cdec.core.errors import UsageError
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.gtest import g_test
from tests.laws.toys import Toy, toy_a, toy_b
from tests.samplers.enumeration import masked, mass, target
from tests.samplers.learning.aligned_reference import Rules, children_of, divergence, tree_law
from tests.samplers.learning.aligned_replay import opened, path_of, rounds_of_all

MAKE = {"A": toy_a, "B": toy_b}
CURVES = {
    "A": [
        (1, 10.635, 0.0),
        (10, 5.247, 0.025),
        (30, 1.344, 0.028),
        (75, 0.026, 0.004),
        (150, 0, 0),
    ],
    "B": [(1, 0.83267, 0.0), (10, 0.030, 0.0015), (75, 0.0, 0.0)],
}
"""Candidates, mean KL of the next one's law from Q, its standard error in the design (where the
design gives none: half of the last digit, times 3 for the few runs it may rest on)."""


def records(
    toy: Toy, name: str, count: int, n: int, seed: int = 1, **options: Any
) -> list[list[Sample]]:
    """Draw ``n`` samples for each of ``count`` records that learn apart."""
    rng = np.random.default_rng(seed)
    requests = [Request("", toy.constraint, draw_seeds(rng, n)) for _ in range(count)]
    found = []
    for drawn in SAMPLERS[name](max_walks=1 << 15, **options).draw_batch(toy.model(), requests):
        assert not isinstance(drawn, CdecError), drawn
        found.append(drawn)
    return found


def rows_of(samples: list[Sample]) -> list[tuple[int, ...]]:
    return [tuple(sample.token_ids) for sample in samples]


@pytest.mark.parametrize("name", MAKE)
def test_divergence_of_the_next_candidate_falls_along_the_designs_curve(name: str) -> None:
    toy, count = MAKE[name](), 150
    rules, q = Rules(toy), target(toy)
    with opened(toy, count, 1) as (batch, rounds):
        for after, mean, error in CURVES[name]:
            while rounds.drawn[0] < after:
                rounds_of_all(batch, rounds, 1)
            children = children_of(batch.tree)
            laws = [tree_law(rules, batch.tree, r, children) for r in batch.roots.tolist()]
            found = np.array([divergence(law, q) for law in laws])
            slack = 4 * math.hypot(found.std(ddof=1) / math.sqrt(count), error)
            assert abs(found.mean() - mean) <= slack + 5e-4, after


@pytest.mark.parametrize("name", MAKE)
def test_the_first_draw_is_masked_decoding(name: str) -> None:
    toy = MAKE[name]()
    drawn = [samples[0] for samples in records(toy, "asap", 3000, 1, burn_in=0)]
    assert g_test(rows_of(drawn), masked(toy).law) >= 1e-4
    for sample in drawn[:50]:
        x = masked(toy).x[tuple(sample.token_ids)]
        assert sample.log_weight == pytest.approx(math.log(x), abs=1e-9)
        assert sample.log_candidate_weight == sample.log_weight
        assert (sample.method, sample.exactness) == ("asap", "asymptotic")


@pytest.mark.parametrize("after", [1, 4, 12])
@pytest.mark.parametrize("name", MAKE)
def test_the_next_round_follows_the_law_that_the_tree_gives(name: str, after: int) -> None:
    toy = MAKE[name]()
    with opened(toy, 1, 1, seed=after) as (batch, rounds):
        for _ in range(after):
            rounds_of_all(batch, rounds, 1)
        law = tree_law(Rules(toy), batch.tree, int(batch.roots[0]), children_of(batch.tree))
        assert divergence(law, masked(toy).law) > 0.01
        (drawn,) = rounds_of_all(batch, rounds, 20_000)
        assert g_test((path_of(drawn, row) for row in range(20_000)), law) >= 1e-4


@pytest.mark.parametrize(("round_size", "n"), [(1, 2000), (16, 20_000)])
@pytest.mark.parametrize(("name", "burn_in"), [("A", 400), ("B", 150)])
def test_draws_from_a_closed_tree_follow_q(
    name: str, burn_in: int, round_size: int, n: int
) -> None:
    toy = MAKE[name]()
    (samples,) = records(toy, "asap", 1, n, seed=3, burn_in=burn_in, round=round_size)
    assert g_test(rows_of(samples), target(toy)) >= 1e-4
    last = samples[-1]
    assert last.log_weight == pytest.approx(math.log(mass(toy)), abs=1e-9)
    for side in ("lower", "upper"):
        assert last.diagnostics[f"log_mass_{side}"] == pytest.approx(math.log(mass(toy)), abs=1e-9)


@pytest.mark.parametrize("round_size", [1, 5])
def test_weighted_records_estimate_p_of_every_text_from_the_first_one_on(round_size: int) -> None:
    toy, count, n = toy_b(), 1500, 8
    p = {row: q * mass(toy) for row, q in target(toy).items()}
    shares = np.zeros((count, len(toy.members)))
    for record, samples in enumerate(records(toy, "asap", count, n, burn_in=0, round=round_size)):
        for sample in samples:
            weight = math.exp(sample.log_weight or 0.0) / n
            shares[record, toy.members.index(tuple(sample.token_ids))] += weight
    error = shares.std(axis=0, ddof=1) / math.sqrt(count)
    expected = np.array([p[row] for row in toy.members])
    assert (np.abs(shares.mean(axis=0) - expected) <= 4 * error).all()


def test_bracket_of_twenty_draws_is_nearly_closed() -> None:
    toy, truth = toy_b(), mass(toy_b())
    log_p = {row: math.log(q * truth) for row, q in target(toy).items()}
    found = []
    for samples in records(toy, "asap", 200, 20, burn_in=0, round=1):
        lower, upper = (samples[-1].diagnostics[f"log_mass_{side}"] for side in ("lower", "upper"))
        drawn = sum(math.exp(log_p[row]) for row in set(rows_of(samples)))
        found.append([drawn, math.exp(lower), math.exp(upper)])
    drawn, lower, upper = np.array(found).T
    # Texts that end on the way count as found, whether or not one of the draws is them.
    assert (drawn <= lower + 1e-12).all() and (drawn < lower - 1e-6).any()
    assert (lower <= truth + 1e-12).all() and (upper >= truth - 1e-12).all()
    # The design: about [.0491, .0506], from the texts drawn, to the last digit given.
    for values, expected in ((drawn, 0.0491), (upper, 0.0506)):
        error = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - expected) <= 0.0001 + 4 * error


def test_burn_in_candidates_are_not_recorded_and_change_nothing_else() -> None:
    toy = toy_b()
    (recorded,) = records(toy, "asap", 1, 30, burn_in=0, round=4)
    (late,) = records(toy, "asap", 1, 10, burn_in=20, round=4)
    assert rows_of(late) == rows_of(recorded)[20:]
    assert [s.log_weight for s in late] == [s.log_weight for s in recorded[20:]]
    assert [s.diagnostics["iteration"] for s in recorded] == list(range(1, 31))
    assert [s.diagnostics["iteration"] for s in late] == list(range(21, 31))
    for field in ("log_mass", "log_mass_lower", "log_mass_upper", "ess"):
        assert recorded[0].diagnostics[field] == late[0].diagnostics[field]
    for field in ("target_calls", "distinct_evaluations", "path_evaluations"):
        totals = [sum(s.diagnostics[field] for s in samples) for samples in (recorded, late)]
        assert totals[0] == totals[1] > 0


def test_until_converged_goes_on_teaching_until_the_bracket_is_narrow() -> None:
    toy = toy_a()
    options: dict[str, Any] = {"burn_in": 3, "round": 4}
    widths, starts = [], []
    for width in (1.0, 0.5, 1e-6):
        (samples,) = records(toy, "asap", 1, 5, until_converged=width, **options)
        with opened(toy, 1, 4) as (batch, rounds):
            rounds.seed = lambda _, own=samples[0].seed: own  # type: ignore[method-assign]
            starts.append(samples[0].diagnostics["iteration"])
            for _ in range((starts[-1] - 1) // 4):
                before = bracket_width(batch)
                rounds_of_all(batch, rounds, 4)
            assert bracket_width(batch) <= width < before
        widths.append(width)
    assert starts[0] < starts[1] < starts[2]


def bracket_width(batch: Any) -> float:
    """Return how far the certified bounds of the only record are apart, in nats."""
    upper: float = batch.tree.log_upper(int(batch.roots[0]))
    return upper - float(batch.tree.log_found[0])


def test_teaching_stops_at_the_budget_of_a_record_that_does_not_converge() -> None:
    options: dict[str, Any] = {"until_converged": 1e-12, "burn_in": 2, "round": 3}
    (samples,) = records(toy_a(), "asap", 1, 4, max_draws=5, **options)
    # 5 for each of 4 samples, in whole rounds of 3: 21 teach.
    assert [s.diagnostics["iteration"] for s in samples] == [22, 23, 24, 25]
    (converged,) = records(toy_b(), "asap", 1, 4, max_draws=10**6, **options)
    assert converged[0].diagnostics["iteration"] < 200


def test_the_size_of_rounds_decides_results_and_is_recorded() -> None:
    toy = toy_a()
    found = [records(toy, "asap", 1, 40, burn_in=0, round=size)[0] for size in (1, 5, 40)]
    assert [samples[0].diagnostics["round"] for samples in found] == [1, 5, 40]
    # Within the first round all is masked decoding, whatever it finds.
    x = masked(toy).x
    assert all(
        s.log_weight == pytest.approx(math.log(x[r]))
        for s, r in zip(found[2], rows_of(found[2]), strict=True)
    )
    weights = [[s.log_weight for s in samples] for samples in found]
    assert weights[0][0] == weights[1][0] == weights[2][0]
    assert weights[0] != weights[1] != weights[2]


@pytest.mark.parametrize(
    "options",
    [
        {"burn_in": -1},
        {"until_converged": 0},
        {"until_converged": math.inf},
        {"until_converged": "narrow"},
        {"until_converged": math.nan},
        {"max_draws": 0},
        {"round": 0},
        {"tree_cache": 0},
        {"max_walks": True},
    ],
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        SAMPLERS["asap"](**options)
    assert next(iter(options)) in str(caught.value)
