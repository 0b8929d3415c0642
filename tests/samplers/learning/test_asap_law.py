"""The law of asap, its bounds and budgets."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core import CdecError, Sample
from cdec.core.errors import UsageError
from cdec.core.progress import Stage
from cdec.core.text_warnings import described
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.adaptive import Rules, divergence
from cdec.integrations.findings.enumeration import masked, mass, target
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.bookkeeping import FIRST_GUESS
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy, toy_a, toy_b
from tests.samplers.learning.aligned_reference import (
    children_of,
    opened,
    path_of,
    rounds_of_all,
    tree_law,
)

# --- ASAp: its curve, the law of its next candidate, its weights, and what its options change.

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


@pytest.mark.slow
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


@pytest.mark.slow
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
    for field in ("target_calls", "distinct_evaluations", "path_calls"):
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


# --- Bracket: what bounds of P(S) say of a text under Q.

NAMES = ("probability", "probability_lower", "probability_upper")


def test_a_text_lies_between_its_share_of_either_bound() -> None:
    found = Bracket(math.log(0.1), math.log(0.4)).probability_of(math.log(0.05))
    assert [found[name] for name in NAMES] == [None, pytest.approx(0.125), pytest.approx(0.5)]


def test_bounds_that_meet_tell_the_probability() -> None:
    found = Bracket(math.log(0.2), math.log(0.2) + 1e-12).probability_of(math.log(0.05))
    assert found["probability"] == pytest.approx(0.25)
    assert found["probability_lower"] <= found["probability"] <= found["probability_upper"]


def test_what_is_certified_is_widened_by_the_rounding_of_all_events() -> None:
    noise = 1e-3
    bracket = Bracket(math.log(0.2), math.log(0.2), noise=noise)
    fields = bracket.fields()
    assert fields["log_mass_lower"] == pytest.approx(math.log(0.2) - noise)
    assert fields["log_mass_upper"] == pytest.approx(math.log(0.2) + noise)
    assert bracket.width == 0
    # P(w) and P(S) may both be off, one up and the other down.
    found = bracket.probability_of(math.log(0.05))
    assert [math.log(found[name]) for name in NAMES] == pytest.approx(
        [math.log(0.25), math.log(0.25) - 2 * noise, math.log(0.25) + 2 * noise]
    )
    # P(S) is at most 1, whatever is off.
    whole = Bracket(-1e-5, -1e-5, noise=noise)
    assert whole.fields()["log_mass_upper"] == 0
    found = whole.probability_of(math.log(0.05))
    assert math.log(found["probability_lower"]) == pytest.approx(math.log(0.05) - noise)
    # How far the bounds are apart has nothing to do with it.
    open_ended = Bracket(-1.0, -0.5, noise=2.0)
    assert open_ended.width == 0.5
    assert open_ended.log_unseen == pytest.approx(math.log(math.exp(-0.5) - math.exp(-1.0)))
    assert open_ended.probability_of(-1.0)["probability"] is None


def test_nothing_is_more_probable_than_one() -> None:
    nothing_seen = Bracket(-math.inf, 0.0).probability_of(math.log(0.05))
    assert [nothing_seen[name] for name in NAMES] == [None, pytest.approx(0.05), 1.0]
    alone = Bracket(math.log(0.3), math.log(0.3)).probability_of(math.log(0.3) + 1e-15)
    assert [alone[name] for name in NAMES] == [1.0, 1.0, 1.0]


def test_tiny_texts_of_tiny_masses_keep_their_share() -> None:
    found = Bracket(-5000.0, -5000.0).probability_of(-5001.0)
    assert found["probability"] == pytest.approx(math.exp(-1))


def test_what_is_no_member_or_has_no_mass_has_no_probability() -> None:
    for bracket, log_p in ((Bracket(), None), (Bracket(-math.inf, -math.inf), -1.0)):
        assert set(bracket.probability_of(log_p).values()) == {None}


# --- The budget of exact sampling: what is told while it is spent, and what records warn of.

_VOCABULARY = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])


def wide(length: int = 9, allowed: float = 0.05) -> Toy:
    """All texts of a and b of one length, of a model that would rather write c."""

    def probabilities(prefix: Row) -> np.ndarray:
        return np.array([allowed, allowed, 1 - 3 * allowed, allowed])

    members = list(product((0, 1), repeat=length))
    return Toy(_VOCABULARY, probabilities, members)


def told(toy: Toy, n: int = 1, **options: Any) -> tuple[list[Stage], list[Sample]]:
    """Return what ``exact`` tells of one record, and its samples."""
    stages: list[Stage] = []
    sampler = SAMPLERS["exact"](**options)
    sampler.progress = stages.append
    (samples,) = sampler.draw_batch(
        toy.model(), [Request.numbered("", toy.constraint, id="r", n=n, seed=5)]
    )
    assert isinstance(samples, list), samples
    return stages, samples


def test_the_share_of_the_budget_and_the_bracket_are_told_round_by_round() -> None:
    stages, _ = told(wide(), n=2, max_draws=40, round=8)
    assert [stage.done for stage in stages] == list(range(0, 80, 8))
    assert {(stage.name, stage.total, stage.unit) for stage in stages} == {("drawing", 80, "draws")}
    assert stages[0].note == "bracket open"
    widths = [float(stage.note.split()[1]) for stage in stages[1:]]
    assert all(stage.note.endswith(" nats") for stage in stages[1:])
    assert widths == sorted(widths, reverse=True) and widths[0] > widths[-1] > 0


def test_of_several_records_the_one_that_has_most_left_is_told() -> None:
    stages: list[Stage] = []
    sampler = SAMPLERS["exact"](max_draws=16, round=4)
    sampler.progress = stages.append
    toy = wide()
    requests = [
        Request.numbered("", toy.constraint, id=n, n=n, seed=5, max_new_tokens=9) for n in (1, 3)
    ]
    sampler.draw_batch(toy.model(), requests)
    assert [(s.done, s.total) for s in stages[:4]] == [(0, 16), (4, 48), (8, 48), (12, 48)]
    assert stages[-1].total == 48


def test_what_nobody_watches_draws_the_same() -> None:
    _, watched = told(wide(), n=2, max_draws=40, round=8)
    toy = wide()
    alone = SAMPLERS["exact"](max_draws=40, round=8).draw_batch(
        toy.model(), [Request.numbered("", toy.constraint, id="r", n=2, seed=5)]
    )[0]
    assert alone == watched


def test_a_budget_that_cannot_do_is_told_once_after_the_first_calls() -> None:
    stages, _ = told(wide(length=12), max_draws=200, round=16)
    ((drawn, notice),) = [(stage.done, stage.notice) for stage in stages if stage.notice]
    # A candidate asks for the 13 prefixes of its text, of which some are those of another.
    assert FIRST_GUESS / 13 <= drawn <= 3 * FIRST_GUESS / 13
    assert notice.code == "W_BUDGET"
    assert notice.details["record"] == "r" and notice.details["budget"] == 200
    needed = notice.details["needed"]
    assert isinstance(needed, int) and needed > 200
    assert "by a guess, record r needs about " in notice.message
    assert "has 200 (`max_draws`)" in notice.message


@pytest.mark.share(1)
@pytest.mark.parametrize(("length", "allowed"), [(9, 0.05), (12, 0.05), (9, 0.2), (12, 0.2)])
@pytest.mark.parametrize("n", [1, 8])
def test_the_guess_takes_what_is_still_learnt_into_account(
    length: int, allowed: float, n: int
) -> None:
    toy = wide(length, allowed)
    _, samples = told(toy, n, max_draws=5000)
    drawn = sum(sample.diagnostics["draws"] for sample in samples)
    _, late = told(toy, n, max_draws=max(1, drawn // (2 * n)), fallback="none")
    needed = late[-1].warnings[0]["needed"] * n
    # By the acceptance rate at that time alone it would be 10 to 10,000 times too many.
    assert drawn / 4 < needed < 4 * drawn


@pytest.mark.parametrize("abort", [False, True])
def test_a_budget_that_does_is_not_warned_of(abort: bool) -> None:
    for toy, n in ((toy_b(), 200), (wide(allowed=0.32), 40)):
        stages, samples = told(toy, n, max_draws=100, abort=abort)
        assert all(sample.diagnostics["accepted"] for sample in samples)
        assert all(stage.notice is None for stage in stages)
        assert all(warning["code"] != "W_BUDGET" for s in samples for warning in s.warnings)
    assert stages[-1].done > FIRST_GUESS / 10


@pytest.mark.parametrize("fallback", ["disc", "asap", "none"])
def test_samples_past_the_budget_say_how_many_draws_they_need(fallback: str) -> None:
    _, (sample,) = told(wide(length=7), max_draws=16, round=16, fallback=fallback)
    assert sample.finish_reason == "budget"
    warning = sample.warnings[0]
    needed = warning["needed"]
    assert 16 < needed < 1000
    assert warning == {
        "code": "W_BUDGET",
        "token": 0,
        "byte": 0,
        "needed": needed,
        "max_draws": 16,
    }
    assert "within `max_draws` 16, and a sample needs about " in described(warning)


@pytest.mark.parametrize("options", [{"max_draws": 1}, {"max_draws": 1, "abort": True}])
@pytest.mark.parametrize("allowed", [1e-60, 1e-320])
def test_what_can_hardly_be_accepted_needs_more_than_a_million(
    options: dict[str, Any], allowed: float
) -> None:
    _, (sample,) = told(wide(length=8, allowed=allowed), **options)
    (warning,) = [each for each in sample.warnings if each["code"] == "W_BUDGET"]
    assert warning["needed"] <= 1_000_000
    if "abort" not in options:
        assert warning["needed"] == 1_000_000
        assert "a sample needs more than 1,000,000" in described(warning)


def test_a_kept_tree_goes_on_where_it_was(tmp_path: Path) -> None:
    toy, needs = wide(length=12), []
    for _ in range(3):
        options = {"max_draws": 64, "tree": TreeFile(tmp_path / "t.arrow")}
        _, (sample,) = told(toy, **options)
        needs.append(sample.warnings[0]["needed"])
    assert all(64 < needed < 100_000 for needed in needs)


# --- Certified bounds where all but nothing of the mass is on a token that leads nowhere.


def nearly_dead(rest: float) -> Toy:
    """S is {aa, b}: a has all but ``rest`` of the mass, and after it a has next to nothing."""
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2], special_token_ids=[2])

    def probabilities(prefix: Row) -> np.ndarray:
        if prefix == ():
            return np.array([1.0 - rest, rest, 0.0])
        return np.array([1e-40, 1.0, 0.0]) if prefix == (0,) else np.array([0.0, 0.0, 1.0])

    return Toy(vocabulary, probabilities, [(0, 0), (1,)])


@pytest.mark.parametrize("method", ["masked", "disc", "smc", "asap", "exact", "topn"])
@pytest.mark.parametrize("rest", [1e-18, 1e-12, 1e-3])
def test_bounds_contain_a_mass_that_rounding_could_lose(method: str, rest: float) -> None:
    toy = nearly_dead(rest)
    options = {"max_draws": 20} if method == "exact" else {}
    samples = SAMPLERS[method](**options).draw(
        toy.model(), toy.constraint, "", n=2, rng=np.random.default_rng(0)
    )
    found = samples[0].diagnostics
    truth = math.log(mass(toy))
    assert found["log_mass_upper"] >= truth - 1e-12
    assert (found["log_mass_lower"] or -math.inf) <= truth + 1e-12
