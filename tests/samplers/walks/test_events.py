"""Events of walks and their masses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import ModelError
from cdec.core.models.base import TreeModel
from cdec.core.models.language_model import LanguageModel
from cdec.core.native import library
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.request import Request
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import Frontier, Step
from cdec.samplers.walks.mass import UNKNOWN, distinct_ess, estimate, length_mass_upper
from cdec.samplers.walks.randomness import (
    FIRST,
    TEST,
    CandidateUniforms,
    draw_seeds,
    opening_uniforms,
    resample,
)
from tests.laws.worlds import random_toy, toy_b, toy_set
from tests.samplers.made import made

# --- The choice kernels against plain numpy, for float32 and float64, on the CPU and through
# torch.

WIDTH = 3000
VOCABULARY = Vocabulary(
    [b"%d," % i for i in range(WIDTH - 2)] + [b"", b""], eos_token_ids=[WIDTH - 2, WIDTH - 1]
)


class RandomModel(TreeModel):
    """A model whose scores are a hash of the prefix, as tensors of a given type and device."""

    def __init__(self, vocabulary: Vocabulary, device: str, dtype: torch.dtype) -> None:
        super().__init__(vocabulary, device=device)
        self.dtype = dtype

    def encode_prompt(self, prompt: Any) -> list[int]:
        return list(prompt)

    def _forward(self, nodes: np.ndarray) -> Any:
        rows = []
        for node in nodes.tolist():
            rng = np.random.default_rng([3, *self.tokens(node)])
            row = rng.normal(size=self.vocabulary.width) * 3
            row[rng.random(len(row)) < 0.01] = -np.inf
            row[list(self.vocabulary.eos_token_ids)] = 5.0
            rows.append(row)
        return torch.tensor(np.array(rows), dtype=self.dtype)


def set_of_many_degrees():
    """Return a set with a root of degree 2000, one child of degree 300 and many small ones."""
    rng = np.random.default_rng(0)
    rows = {(int(t),) for t in rng.choice(WIDTH - 2, 2000, replace=False)}
    first = min(rows)[0]
    rows |= {(first, int(t)) for t in rng.choice(WIDTH - 2, 300, replace=False)}
    rows |= {(first + 1, 5), (first + 1, 7, 9)}
    return toy_set(rows, VOCABULARY)


def step_at_depth_one(model: LanguageModel, constraint: Any, walks: int) -> tuple[Batch, Step]:
    """Return a step at several children of the root, walks spread unevenly over them."""
    batch = Batch(model, [Request([], constraint, range(walks))])
    request = np.zeros(walks, np.int64)
    frontier = Frontier.at_start(batch, request, np.arange(walks))
    first = constraint.arrays.tokens[0]
    tokens = np.where(np.arange(walks) % 3 > 0, first, first + 1).astype(np.int64)
    return batch, Step.of(frontier.advance(np.arange(walks), tokens, np.zeros(walks)))


def reference(step: Step, node: int) -> np.ndarray:
    """Return P of every allowed id at a node, zero elsewhere, float64[V]."""
    batch = step.nodes.batch
    scores = np.asarray(step.scores, np.float64)[step.rows[node]]
    p = np.exp(scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max())
    states = step.nodes.state[batch.index(np.array([node]))]
    allowed = batch.to_host(batch.sessions[0].allowed(states)[1])
    kept = np.zeros_like(p)
    kept[allowed] = p[allowed]
    return kept


@pytest.mark.share(2)
@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sampled_events_invert_the_cumulative_mass(device: str, dtype: torch.dtype) -> None:
    model = RandomModel(VOCABULARY, device, dtype)
    batch, step = step_at_depth_one(model, set_of_many_degrees(), 400)
    uniforms = np.random.default_rng(2).random(400)
    uniforms[:4] = [0.0, 1 - 2**-53, 0.5, 1e-300]
    drawn = events.sample(step, uniforms)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert len(step.rows) == 2
    for walk in range(400):
        p = reference(step, step.walk_node[walk])
        running = np.cumsum(p) / p.sum()
        token = drawn.tokens[walk]
        assert drawn.log_z[step.walk_node[walk]] == pytest.approx(np.log(p.sum()), abs=tolerance)
        if token == events.END:
            assert uniforms[walk] >= running[WIDTH - 3] - tolerance
            expected = np.log(p[[WIDTH - 2, WIDTH - 1]].sum())
        else:
            assert p[token] > 0
            assert running[token] - p[token] / p.sum() - tolerance <= uniforms[walk]
            assert uniforms[walk] <= running[token] + tolerance
            expected = np.log(p[token])
        assert drawn.log_p[walk] == pytest.approx(expected, abs=tolerance)
    batch.__exit__()


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_best_events_are_sorted_and_leave_the_end_apart(device: str) -> None:
    model = RandomModel(VOCABULARY, device, torch.float64)
    _, step = step_at_depth_one(model, set_of_many_degrees(), 5)
    found = events.best(step, 4)
    for node in range(len(step.rows)):
        p = reference(step, node)
        ends = p[[WIDTH - 2, WIDTH - 1]].sum()
        p[[WIDTH - 2, WIDTH - 1]] = 0
        best = np.argsort(-p, kind="stable")[: min(4, int((p > 0).sum()))]
        expected = [*best.tolist(), *[events.NONE] * (4 - len(best))]
        assert found.tokens[node].tolist() == expected
        np.testing.assert_allclose(found.log_p[node, : len(best)], np.log(p[best]), atol=1e-12)
        assert (found.log_p[node, len(best) :] == -np.inf).all()
        with np.errstate(divide="ignore"):
            assert found.log_end[node] == pytest.approx(np.log(ends), abs=1e-12)
        assert found.log_z[node] == pytest.approx(np.log(p.sum() + ends), abs=1e-12)


@pytest.mark.share(20)
@pytest.mark.parametrize("top_m", [None, 3])
@pytest.mark.parametrize("name", list(SAMPLERS))
def test_torch_and_host_paths_draw_the_same(name: str, top_m: int | None) -> None:
    options = {"top_m": top_m} if top_m and name in ("masked", "disc") else {}
    toy, other = random_toy(8), random_toy(9)
    sets = [toy.constraint, None, toy_set(other.members, toy.vocabulary)]
    requests = [Request([i], c, range(20 * i, 20 * i + 5)) for i, c in enumerate(sets)]
    on_host = RandomModel(toy.vocabulary, "cpu", torch.float64)
    on_device = RandomModel(toy.vocabulary, "torch:cpu", torch.float64)
    drafts = [RandomModel(toy.vocabulary, d, torch.float64) for d in ("cpu", "torch:cpu")]
    expected, found = (
        made(name, toy.vocabulary, draft=draft, **options).draw_batch(model, requests)
        for model, draft in zip((on_host, on_device), drafts, strict=True)
    )
    for ours, theirs in zip(expected, found, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a.token_ids, a.finish_reason) == (b.token_ids, b.finish_reason)
            assert a.logprob == pytest.approx(b.logprob, abs=1e-12)
            assert a.log_weight == pytest.approx(b.log_weight, abs=1e-12)
            ours_counted, theirs_counted = dict(a.diagnostics), dict(b.diagnostics)
            scenarios = ours_counted.pop("scenario_counts", None)
            assert scenarios == theirs_counted.pop("scenario_counts", None)
            assert ours_counted == pytest.approx(theirs_counted, abs=1e-10)


def test_host_path_reads_a_float32_tensor_and_bfloat16() -> None:
    toy = toy_b()
    for dtype in (torch.float32, torch.bfloat16):
        model = RandomModel(toy.vocabulary, "cpu", dtype)
        samples = SAMPLERS["masked"]().draw(
            model, toy.constraint, [], n=20, rng=np.random.default_rng(0)
        )
        assert all(sample.valid for sample in samples)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("name", list(SAMPLERS))
def test_scores_that_are_not_numbers_are_an_error(device: str, name: str) -> None:
    class Broken(RandomModel):
        def _forward(self, nodes: np.ndarray) -> Any:
            return torch.full((len(nodes), self.vocabulary.width), float("nan"))

    toy = toy_b()
    model = Broken(toy.vocabulary, device, torch.float32)
    draft = RandomModel(toy.vocabulary, device, torch.float32)
    sampler = made(name, toy.vocabulary, draft=draft)
    result = sampler.draw_batch(model, [Request([], toy.constraint, [1])])[0]
    assert isinstance(result, ModelError)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_tiny_allowed_mass_keeps_its_logarithm(device: str) -> None:
    toy = toy_b()

    class Steep(RandomModel):
        def _forward(self, nodes: np.ndarray) -> Any:
            row = torch.tensor([-2000.0, -2001.0, -2003.0, 0.0], dtype=torch.float64)
            return row.repeat(len(nodes), 1)

    constraint = toy_set([(0, 0), (0, 1), (1, 0), (1, 1)], toy.vocabulary)
    _, step = step_at_depth_one(Steep(toy.vocabulary, device, torch.float64), constraint, 1)
    drawn = events.sample(step, np.array([0.5]))
    assert drawn.log_z[0] == pytest.approx(np.logaddexp(-2000, -2001), abs=1e-9)
    assert (drawn.tokens[0], drawn.log_p[0]) == (0, pytest.approx(-2000))


def test_exponentials_are_accurate_down_to_underflow() -> None:
    x = -np.concatenate([np.linspace(0, 2, 2001), np.linspace(0, 700, 5001)])
    values = np.append(x, [-np.inf, -800.0])
    sums = np.empty(len(values) // 256 + 1)
    library.exponentiate(values, sums)
    np.testing.assert_allclose(values[:-2], np.exp(x), rtol=1e-15)
    assert values[-2] == 0.0 < values[-1]
    assert sums.sum() == pytest.approx(np.exp(x).sum(), rel=1e-13)


def test_inversion_never_returns_mass_zero() -> None:
    values = np.zeros(1000)
    values[[300, 700]] = 0.5
    sums = np.add.reduceat(values, np.arange(0, 1000, 256))
    for target, expected in ((0.0, 300), (0.4999, 300), (0.5, 700), (0.999, 700), (1.0, 700)):
        assert library.invert(values, sums, target) == expected


def test_ids_outside_the_row_have_mass_zero() -> None:
    row = np.log(np.arange(1.0, 11.0), dtype=np.float32)
    ids = np.array([-1, 2, 10, 10**6, 9], np.int32)
    values, sums = np.empty(5), np.empty(1)
    library.gather_exp(row, 3.0, ids, values, sums)
    expected = np.array([0, 3, 0, 0, 10]) * np.exp(-3.0)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert sums[0] == pytest.approx(expected.sum(), rel=1e-6)


def test_a_fully_allowed_vocabulary_is_inverted_like_the_free_one() -> None:
    everything = toy_set([(token,) for token in range(WIDTH - 2)], VOCABULARY)
    model = RandomModel(VOCABULARY, "cpu", torch.float64)
    uniforms = np.random.default_rng(0).random(300)
    drawn = []
    for constraint in (everything, None):
        batch = Batch(model, [Request([], constraint, range(300))])
        walks = np.zeros(300, np.int64)
        step = Step.of(Frontier.at_start(batch, walks, np.arange(300)))
        drawn.append(events.sample(step, uniforms))
    # The end is not allowed at the start of the set: the free draws that end are left out.
    ended = drawn[1].tokens == events.END
    assert not ended.all()
    p = reference_free(step)
    kept = np.cumsum(p[: WIDTH - 2]) / p[: WIDTH - 2].sum()
    assert drawn[0].tokens.tolist() == np.searchsorted(kept, uniforms, side="right").tolist()
    free = np.searchsorted(np.cumsum(p) / p.sum(), uniforms, side="right")
    assert drawn[1].tokens[~ended].tolist() == free[~ended].tolist()
    assert drawn[1].log_z[0] == 0.0


def reference_free(step: Step) -> np.ndarray:
    """Return P of all ids at the first node, float64[V]."""
    scores = np.asarray(step.scores, np.float64)[step.rows[0]]
    return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()


# --- Mass estimates, resampling, and the layout of random numbers.

WIDE = Bracket(-math.inf, 0.0, 0.0)


def test_estimate_survives_tiny_weights_and_knows_when_it_knows_nothing() -> None:
    log_x = np.log([0.2, 0.4, 0.6]) - 5000
    mass = estimate(log_x, Bracket(-5001.0, -5000.0, -5000.0))
    assert mass.log_mass == mass.log_mean == pytest.approx(math.log(0.4) - 5000)
    assert mass.sampling_error == pytest.approx(0.2 / math.sqrt(3) / 0.4)
    with_zero = estimate(np.array([math.log(0.5), -np.inf]), WIDE)
    assert with_zero.log_mass == pytest.approx(math.log(0.25))
    nothing = estimate(np.array([-np.inf, -np.inf]), WIDE)
    assert nothing.fields() == {**UNKNOWN, "log_mass_reliable": False}


def test_no_mass_at_all_is_known_for_certain() -> None:
    empty = Bracket(-math.inf, -math.inf)
    known = estimate(np.array([-np.inf]), empty)
    assert (known.log_mass, known.log_mass_se, known.log_mass_reliable) == (None, None, True)


def test_the_error_is_widened_by_what_so_many_candidates_can_have_missed() -> None:
    log_x = np.log(np.full(100, 0.2))
    # Equal weights have no spread. Of the 0.3 not seen 100 candidates miss no more than one of
    # the largest weight among them, 0.5 / 100.
    some = estimate(log_x, Bracket(math.log(0.1), math.log(0.4), math.log(0.5)))
    assert (some.sampling_error, some.log_mass_reliable) == (0.0, True)
    assert some.log_mass_se == pytest.approx(0.005 / 0.2)
    # Less than that is not there: the bracket says so.
    narrow = estimate(log_x, Bracket(math.log(0.199), math.log(0.201), 0.0))
    assert narrow.log_mass_se == pytest.approx(math.log(0.2 / 0.199))
    # A spread adds to it as variances do.
    log_x = np.log(np.tile([0.1, 0.3], 50))
    both = estimate(log_x, Bracket(math.log(0.1), math.log(0.4), math.log(0.5)))
    assert both.sampling_error == pytest.approx(0.5 / math.sqrt(99))
    assert both.log_mass_se == pytest.approx(math.hypot(0.5 / math.sqrt(99), 0.005 / 0.2))


def test_an_estimate_outside_its_bracket_is_replaced_by_its_end_and_flagged() -> None:
    # As a run met it: all that was drawn is tiny and alike, and the texts seen weigh more.
    log_x = np.log([0.5, 1.0, 1.5, 1.0]) - 66.7
    outside = estimate(log_x, Bracket(-52.6, -1.0, -0.5))
    assert outside.log_mass == -52.6
    assert outside.log_mass_reliable is False
    assert outside.log_mass_se == pytest.approx(51.6)
    too_high = estimate(np.array([-1.0, -1.0, -1.01]), Bracket(-9.0, -4.0, -0.5))
    assert (too_high.log_mass, too_high.log_mass_reliable) == (-4.0, False)


def test_sampling_noise_alone_does_not_discredit_an_estimate() -> None:
    log_x = np.log(np.tile([0.1, 0.3], 50))
    moved = estimate(log_x, Bracket(math.log(0.205), math.log(0.3), math.log(0.5)))
    assert moved.log_mass == math.log(0.205)
    assert moved.log_mass_reliable


def test_a_narrow_bracket_is_reliable_whatever_was_drawn() -> None:
    for log_x in (np.full(3, -80.0), np.full(3, -np.inf), np.array([-0.1])):
        known = estimate(log_x, Bracket(-2.05, -2.0, 0.0))
        assert known.log_mass in (-2.05, -2.0)
        assert known.log_mass_reliable
        assert known.log_mass_se == pytest.approx(math.expm1(0.05), rel=0.06)


def test_one_candidate_is_no_surer_than_its_bracket() -> None:
    bracket = Bracket(math.log(0.1), math.log(0.4), math.log(0.5))
    one = estimate(np.log([0.2]), bracket)
    assert one.log_mass_se == pytest.approx(math.log(2))
    wider = estimate(np.log([0.2]), Bracket(math.log(0.01), math.log(0.4), math.log(0.5)))
    assert wider.log_mass_se == pytest.approx(math.log(20))
    assert wider.log_mass_reliable is False


def test_a_mean_above_its_upper_bound_says_nothing_of_how_far_below_the_truth_is() -> None:
    # One candidate of 16 has all the weight there can be, and weighs more than all texts together.
    log_x = np.append(np.full(15, -38.4), -20.6)
    found = estimate(log_x, Bracket(-25.6, -23.5, -20.6))
    assert found.log_mass == -23.5
    assert found.log_mass_se is not None and found.log_mass_se > 1
    assert found.log_mass_reliable is False


def test_weights_that_no_mask_bounds_are_widened_by_all_that_was_not_seen() -> None:
    log_x = np.log(np.full(10_000, 0.2))
    free = estimate(log_x, Bracket(math.log(0.1), math.log(0.4), math.inf))
    assert free.log_mass_se == pytest.approx(math.log(2))


def test_effective_sample_size_counts_texts_and_not_repeats() -> None:
    texts = np.array([4, 9, 4, 7])
    log_x = np.log([0.2, 0.4, 0.2, 0.1]) - 900
    assert distinct_ess(log_x, texts) == pytest.approx(0.9**2 / (0.4**2 + 0.4**2 + 0.1**2))
    assert distinct_ess(np.zeros(16), np.zeros(16, int)) == pytest.approx(1)
    assert distinct_ess(np.zeros(16), np.arange(16)) == pytest.approx(16)
    # What found no text counts for nothing, whatever its last context was.
    assert distinct_ess(np.array([0.0, -np.inf]), np.array([1, 1])) == 1
    assert distinct_ess(np.array([-np.inf]), np.array([1])) is None


def test_resampling_takes_each_in_proportion_and_never_weight_zero() -> None:
    with np.errstate(divide="ignore"):
        weights = np.log(np.array([0.0, 1.0, 3.0, 0.0])) - 900
    uniforms = np.array([0.0, 0.2499, 0.2501, 1 - 2**-53])
    picked = resample(np.tile(weights, (4, 1)), uniforms)
    assert picked.tolist() == [1, 1, 2, 2]
    assert resample(np.full((1, 3), -np.inf), np.array([0.7])).tolist() == [0]


def test_uniforms_are_the_documented_outputs_of_the_draws_generator() -> None:
    uniforms = CandidateUniforms([7, 7, 8], np.array([0, 2, 1]), steps=300)
    first = np.random.Generator(np.random.PCG64(7)).random(400)
    assert uniforms.acceptance()[0] == first[0]
    for step in (0, 1, 62, 63, 64, 200):
        assert uniforms.at(np.array([step]), np.array([0]))[0] == first[1 + step]
    bits = np.random.PCG64(7)
    bits.advance(2 << 32)
    third = np.random.Generator(bits).random(3)
    again = CandidateUniforms([7, 7, 8], np.array([0, 2, 1]), steps=3)
    assert again.acceptance()[1] == third[0] == opening_uniforms([8, 7], 2)[1]
    assert again.at(np.array([1]), np.array([1]))[0] == third[2]


def test_numbers_of_any_seed_are_those_of_numpy() -> None:
    rng = np.random.default_rng(3)
    seeds = [0, 1, 2**32 - 1, 2**32, 2**53 - 1, 2**64 - 1, *draw_seeds(rng, 100)]
    candidates = rng.integers(0, 2**31, len(seeds))
    for stream in (FIRST, TEST):
        uniforms = CandidateUniforms(seeds, candidates, steps=20, stream=stream)
        found = [
            uniforms.acceptance(),
            uniforms.at(*np.array([[30] * len(seeds), range(len(seeds))])),
        ]
        for walk, (seed, candidate) in enumerate(zip(seeds, candidates.tolist(), strict=True)):
            bits = np.random.PCG64(seed)
            bits.advance((candidate << 32) + stream)
            numbers = np.random.Generator(bits).random(32)
            assert [each[walk] for each in found] == [numbers[0], numbers[31]]


def test_seeds_fit_a_json_number() -> None:
    seeds = draw_seeds(np.random.default_rng(0), 1000)
    assert len(set(seeds)) == 1000
    assert max(seeds) < 2**53


def test_length_mass_upper_is_the_share_of_what_the_limit_cut_off() -> None:
    with np.errstate(divide="ignore"):
        log_x, log_truncated = np.log([0.2, 0.4, 0.0]), np.log([0.0, 0.1, 0.1])
    assert length_mass_upper(log_x, log_truncated) == pytest.approx(0.2 / 0.8)
    assert length_mass_upper(log_x, np.full(3, -np.inf)) == 0.0
    assert length_mass_upper(np.full(3, -np.inf), np.full(3, -np.inf)) is None
