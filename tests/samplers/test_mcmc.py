"""The method mcmc: its kernel, its law after some steps, and its runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.integrations.findings.enumeration import log_prob, mass, target, total_variation
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.mcmc import McmcSampler, Paths, log_accepted, log_cuts, log_proposed
from cdec.samplers.request import Request
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Toy, in_logits, random_toy, toy_a, toy_b
from tests.samplers.mcmc_laws import completions, events, kernel, mcmc, prefixes, proposals
from tests.samplers.smc_laws import dead_end_toy

ROOT = Path(__file__).parents[2]
PROPOSALS = ("prefix", "priority", "restart")
TOYS = {
    "a": toy_a(),
    "b": toy_b(),
    "dead ends": dead_end_toy(),
    "ends itself": random_toy(4, ends_itself=True),
    **{f"random {seed}": random_toy(seed) for seed in (1, 3, 8)},
}
DRAWS = heavy_or(4_000, 20_000)

# --- The kernel: the method's own proposals and acceptance, against Q and against enumeration.


def paths_of(toy: Toy, proposal: str) -> tuple[list[tuple[int, ...]], Paths]:
    """Return the texts of positive probability, and what the method knows of them."""
    rows = [row for row in sorted(toy.members) if log_prob(toy, row) > -math.inf]
    width = max(map(len, rows)) + 1
    codes, log_p, log_z, entropy = (np.zeros((len(rows), width)) for _ in range(4))
    codes[:] = -2
    for i, row in enumerate(rows):
        for j, prefix in enumerate(prefixes(toy, row)):
            allowed = events(toy, prefix)
            codes[i, j] = row[j] if j < len(row) else -1
            log_p[i, j] = math.log(allowed[int(codes[i, j])])
            log_z[i, j] = math.log(sum(allowed.values()))
            shares = np.array(list(allowed.values())) / sum(allowed.values())
            entropy[i, j] = -(shares @ np.log(shares))
    log_cut = log_cuts(proposal, (codes > -2).sum(axis=1), entropy)
    return rows, Paths(np.zeros((len(rows), width), int), codes.astype(int), log_p, log_z, log_cut)


def own_kernel(toy: Toy, proposal: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q(w' | w) and the kernel, both [w, w'], by the method's functions; and Q."""
    rows, paths = paths_of(toy, proposal)
    now, then = (grid.reshape(-1) for grid in np.indices((len(rows), len(rows))))
    here, there = paths.take(now), paths.take(then)
    q = np.exp(log_proposed(here, there)).reshape(len(rows), -1)
    moves = q * np.exp(log_accepted(here, there)).reshape(q.shape)
    moves += np.diag(1 - moves.sum(axis=1))
    log_p = np.array([log_prob(toy, row) for row in rows])
    return q, moves, np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("name", TOYS)
def test_the_kernel_is_in_detailed_balance_with_the_target(name: str, proposal: str) -> None:
    _, moves, law = own_kernel(TOYS[name], proposal)
    assert (moves >= -1e-15).all()
    flow = law[:, None] * moves
    assert np.abs(flow - flow.T).max() <= 1e-12
    assert np.abs(law @ moves - law).max() <= 1e-12
    # Every text follows from every other one, so that nothing else is stationary.
    assert (np.linalg.matrix_power(moves, len(law)) > 0).all()


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("name", TOYS)
def test_the_kernel_is_the_enumerated_one(name: str, proposal: str) -> None:
    toy = TOYS[name]
    rows, _ = paths_of(toy, proposal)
    q, moves, _ = own_kernel(toy, proposal)
    expected = kernel(toy, proposal)
    for i, row in enumerate(rows):
        proposed = proposals(toy, proposal, row)
        for j, other in enumerate(rows):
            assert q[i, j] == pytest.approx(proposed.get(other, 0.0), abs=1e-12)
            assert moves[i, j] == pytest.approx(expected[row].get(other, 0.0), abs=1e-12)
        # What is not proposed as a text found no end.
        assert q[i].sum() + proposed.get(None, 0.0) == pytest.approx(1.0, abs=1e-12)


def test_texts_of_another_length_are_cut_at_other_rates() -> None:
    toy = toy_b()
    rows, paths = paths_of(toy, "prefix")
    short, long = rows.index((0,)), rows.index((0, 1, 2))
    assert np.exp(paths.log_cut[short]) == pytest.approx([1 / 2, 1 / 2, 0, 0])
    assert np.exp(paths.log_cut[long]) == pytest.approx([1 / 4] * 4)
    # A rule that took both alike would not be in balance.
    q, moves, law = own_kernel(toy, "prefix")
    wrong = q * np.minimum(1, (law / law[:, None]) * (q.T * 4 / 2) / q)
    assert law[short] * wrong[short, long] != pytest.approx(law[long] * wrong[long, short])
    assert law[short] * moves[short, long] == pytest.approx(law[long] * moves[long, short])


# --- Draws.


def drawn(toy: Toy, proposal: str, steps: int, n: int, limit: int | None = None) -> list[Sample]:
    sampler = McmcSampler(steps=steps, proposal=proposal, max_walks=1 << 15)
    rng = np.random.default_rng([n, steps, len(proposal)])
    return sampler.draw(toy.model(), toy.constraint, "", n=n, rng=rng, max_new_tokens=limit)


def outcome(sample: Sample) -> tuple[int, ...] | None:
    return tuple(sample.token_ids) if sample.finish_reason == "complete" else None


@pytest.mark.share(5)
@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize(
    ("name", "steps", "limit"),
    [("a", 1, None), ("b", 3, None), ("b", 2, 2), ("dead ends", 2, None), ("ends itself", 2, None)],
)
def test_texts_have_the_law_of_the_kernel_to_the_power_of_the_steps(
    name: str, steps: int, limit: int | None, proposal: str
) -> None:
    law = mcmc(TOYS[name], proposal, steps, limit)
    assert math.fsum(law.values()) == pytest.approx(1.0)
    samples = drawn(TOYS[name], proposal, steps, DRAWS, limit)
    assert g_test(map(outcome, samples), law) >= 1e-4


@pytest.mark.share(1)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_many_steps_come_to_the_target(proposal: str) -> None:
    toy = toy_b()
    distances = [
        total_variation(mcmc(toy, proposal, steps), target(toy)) for steps in (0, 1, 2, 4, 8, 64)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] == pytest.approx(0.403513, abs=1e-6) and distances[-1] < 0.01
    samples = drawn(toy, proposal, 64, heavy_or(500, 5_000))
    assert g_test(map(outcome, samples), mcmc(toy, proposal, 64)) >= 1e-4


def test_the_page_shows_the_distances_after_some_steps() -> None:
    toy, page = toy_b(), (ROOT / "docs/methods.md").read_text()
    for proposal in PROPOSALS:
        laws = [mcmc(toy, proposal, steps) for steps in (0, 1, 2, 4, 8, 16)]
        cells = [f"{total_variation(law, target(toy)):.4f}" for law in laws]
        assert f"| `{proposal}` | {' | '.join(cells)} |" in page


def test_priorities_cut_off_no_forced_token() -> None:
    """Behind a forced beginning only the last token is open: it alone is drawn anew."""
    vocabulary = toy_b().vocabulary
    toy = Toy(vocabulary, lambda prefix: np.array([0.3, 0.3, 0.3, 0.1]), [(0, 0, 0), (0, 0, 1)])
    _, paths = paths_of(toy, "priority")
    assert np.exp(paths.log_cut) == pytest.approx(np.array([[0, 0, 1, 0]] * 2))
    (sample,) = drawn(toy, "priority", 5, 1)
    # The first text has four events, each proposal two.
    assert sample.diagnostics["path_calls"] == 4 + 5 * 2
    (sample,) = drawn(toy, "restart", 5, 1)
    assert sample.diagnostics["path_calls"] == 4 + 5 * 4


def test_where_nothing_is_open_the_text_stays() -> None:
    vocabulary = toy_b().vocabulary
    toy = Toy(vocabulary, lambda prefix: np.array([0.3, 0.3, 0.3, 0.1]), [(0, 1)])
    for proposal in PROPOSALS:
        (sample,) = drawn(toy, proposal, 3, 1)
        assert (sample.token_ids, sample.diagnostics["moves"]) == ([0, 1], 0)


def test_a_first_text_without_an_end_gives_way_to_any_text() -> None:
    toy = dead_end_toy()
    stuck = completions(toy, ())[None]
    assert stuck == pytest.approx(2 / 3)
    for steps in (1, 2, 5):
        samples = drawn(toy, "priority", steps, 2_000)
        lost = Counter(map(outcome, samples))[None] / 2_000
        # Four standard errors.
        assert abs(lost - stuck ** (steps + 1)) <= 4 * math.sqrt(stuck ** (steps + 1) / 2_000)
    failed = next(sample for sample in samples if sample.finish_reason == "dead_end")
    assert (failed.log_candidate_weight, failed.valid) == (None, False)


# --- Runs: weights, masses, costs, batches, options.


def test_records_say_what_is_known_and_no_more() -> None:
    toy = toy_b()
    request = Request("", toy.constraint, seeds=range(40))
    ours = McmcSampler(steps=4).draw_batch(toy.model(), [request])[0]
    first = MaskedSampler().draw_batch(toy.model(), [request])[0]
    truth = math.log(mass(toy))
    moved = 0
    for sample, masked in zip(ours, first, strict=True):
        row = tuple(sample.token_ids)
        assert (sample.log_weight, sample.exactness, sample.method) == (None, "asymptotic", "mcmc")
        assert sample.logprob == pytest.approx(log_prob(toy, row), abs=1e-12)
        log_x = log_prob(toy, row) - math.log(completions(toy, ())[row])
        assert sample.log_candidate_weight == pytest.approx(log_x, abs=1e-9)
        assert 0 <= sample.diagnostics["moves"] <= 4
        assert sample.diagnostics["moves"] or sample.token_ids == masked.token_ids
        moved += sample.diagnostics["moves"]
        # The first texts are those of masked, and they alone say what the mass is.
        assert sample.diagnostics["log_mass_unclipped"] == pytest.approx(
            masked.diagnostics["log_mass_unclipped"], abs=1e-12
        )
        assert sample.diagnostics["log_mass_lower"] <= truth <= sample.diagnostics["log_mass_upper"]
    assert moved > 0


def test_known_prefixes_cost_nothing() -> None:
    toy, asked = toy_b(), []

    def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
        asked.append(prefix)
        return toy.probabilities(prefix)

    request = Request("", toy.constraint, seeds=range(30))
    model = TabularModel(probabilities, toy.vocabulary)
    samples = McmcSampler(steps=20).draw_batch(model, [request])[0]
    evaluated = sum(sample.diagnostics["distinct_evaluations"] for sample in samples)
    assert evaluated == len(set(asked)) == len(asked) <= 10
    assert sum(sample.diagnostics["path_calls"] for sample in samples) > 1_000


@pytest.mark.share(1)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_nothing_depends_on_the_batch_or_on_chunks(proposal: str) -> None:
    toy = random_toy(8)
    others = [
        Toy(toy.vocabulary, toy.probabilities, rows)
        for rows in ([(0,), (1, 2)], [(3, 3, 3), (2,), (2, 0)])
    ]
    requests = [
        Request.numbered("", each.constraint, id=i, n=5, max_new_tokens=limit)
        for i, (each, limit) in enumerate(zip([toy, *others], (None, 1, 2), strict=True))
    ]
    whole = McmcSampler(proposal=proposal).draw_batch(toy.model(), requests)
    parts = McmcSampler(proposal=proposal, max_walks=2).draw_batch(toy.model(), requests)
    for request, together, chunked in zip(requests, whole, parts, strict=True):
        alone = McmcSampler(proposal=proposal).draw_batch(toy.model(), [request])[0]
        for same in zip(together, chunked, alone, strict=True):
            records = [sample.to_json() for sample in same]
            # The last digit of a sum over texts depends on the order in which they were met.
            sizes = [record.pop("ess") or 0.0 for record in records]
            assert records[0] == records[1] == records[2]
            assert sizes == pytest.approx([sizes[0]] * 3, rel=1e-12)


@pytest.mark.share(1)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_device_draws_what_the_host_draws(proposal: str) -> None:
    world = in_logits(random_toy(8))
    drawn = [
        McmcSampler(proposal=proposal).draw(
            world.model(device), world.constraint, "", n=40, rng=np.random.default_rng(3)
        )
        for device in ("cpu", "torch:cpu")
    ]
    for host, device in zip(*drawn, strict=True):
        assert host.token_ids == device.token_ids
        assert host.diagnostics["moves"] == device.diagnostics["moves"]


def test_more_steps_go_on_from_fewer() -> None:
    toy = toy_a()
    request = Request("", toy.constraint, seeds=range(60))
    runs = [McmcSampler(steps=k).draw_batch(toy.model(), [request])[0] for k in (1, 2, 3)]
    for before, after in itertools.pairwise(runs):
        for a, b in zip(before, after, strict=True):
            more = b.diagnostics["moves"] - a.diagnostics["moves"]
            assert more == (a.token_ids != b.token_ids)


def test_options_are_checked() -> None:
    for options in ({"steps": 0}, {"proposal": "middle"}):
        with pytest.raises(UsageError):
            McmcSampler(**options)
