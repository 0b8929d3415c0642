"""Walks over models: opportunistic masks, particles."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import compile_token_set
from cdec.core import CdecError, LanguageModel, Sample, load_model, open_artifact
from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.models.transformers.architectures import CausalModel, EncoderDecoderModel, can_pool
from cdec.core.models.transformers.base import FullForwardModel
from cdec.core.sets.session import SetSession
from cdec.data.assets import embedded_model_path
from cdec.integrations.findings.enumeration import log_prob, masked, mass
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.smc import Populations, effective_sample_size, log_mean, stratified
from cdec.samplers.walks.batch import Batch
from tests.core.models.tiny_models import (
    VOCABULARY,
    plain_encoder,
    plain_logprobs,
    plain_pair_logprobs,
    tiny_module,
)
from tests.laws.rounding import near
from tests.laws.worlds import Toy, random_toy, toy_a, toy_b
from tests.samplers.smc_laws import dead_end_toy, outcome
from tests.samplers.smc_laws import draw as draw_particles

# --- Every sampler on every kind of model; what records claim is recomputed without cache or
# session.
#
# The reference is one plain forward pass over the whole text and a brute-force list of what may
# follow each prefix: log P(text), the product of step masses and the sampler's choice must agree.

PROMPTS = [[5, 6, 7, 8], [9], [5, 6, 11, 3, 2]]
Plain = Callable[[list[int], list[int]], torch.Tensor]
"""(prompt ids, text ids) -> log probabilities at every place of the text and after it."""
SAMPLER_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("masked", {}),
    ("greedy", {}),
    ("beam", {"beams": 3}),
    ("disc", {"K": 3}),
    ("disc", {"K": 2, "recycle": True}),
    ("unconstrained", {}),
]


def causal_plain(module: Any) -> Plain:
    def after(prompt: list[int], text: list[int]) -> torch.Tensor:
        return plain_logprobs(module, [*prompt, *text])[len(prompt) - 1 :]

    return after


def tiny(name: str) -> tuple[LanguageModel, Plain]:
    """Return a tiny random model of ours, and its plain forward pass."""
    module = tiny_module(name)
    if module.config.is_encoder_decoder:
        start = module.config.decoder_start_token_id

        def after(prompt: list[int], text: list[int]) -> torch.Tensor:
            return plain_pair_logprobs(module, prompt, [start, *text])

        return EncoderDecoderModel(module, VOCABULARY, plain_encoder(), context_length=64), after
    kind = CausalModel if can_pool(module) else FullForwardModel
    return kind(module, VOCABULARY, plain_encoder(), context_length=64), causal_plain(module)


def loaded(path: Path) -> tuple[LanguageModel, Plain]:
    """Return a model loaded from a folder, and its plain forward pass."""
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    return load_model(path), causal_plain(module)


def random_rows(vocabulary: Any, rng: np.random.Generator) -> list[list[int]]:
    """Return members that share beginnings, prefixes of one another among them."""
    ordinary = np.flatnonzero(vocabulary.is_ordinary)
    few = rng.choice(ordinary, 4, replace=False)
    rows = {tuple(rng.choice(few, rng.integers(1, 6)).tolist()) for _ in range(60)}
    return sorted(map(list, rows))


def allowed_after(rows: list[list[int]], prefix: list[int], end_ids: list[int]) -> list[int]:
    """Return what may follow a prefix, by looking at every row."""
    n = len(prefix)
    following = {row[n] for row in rows if row[:n] == prefix and len(row) > n}
    return sorted(following) + (end_ids if prefix in rows else [])


def reference(
    plain: Plain, prompt: list[int], text: list[int], rows: list[list[int]], end_ids: list[int]
) -> tuple[float, float]:
    """Return log P(text) with its end event, and the sum of log Z along it."""
    logprobs = plain(prompt, text).double()
    log_p = sum(float(logprobs[i, token]) for i, token in enumerate(text))
    log_p += float(torch.logsumexp(logprobs[len(text), end_ids], 0))
    log_x = sum(
        float(torch.logsumexp(logprobs[i, allowed_after(rows, text[:i], end_ids)], 0))
        for i in range(len(text) + 1)
    )
    return log_p, log_x


def draw(
    model: LanguageModel, constraint: Any, prompts: list[list[int]], name: str, **options: Any
) -> list[list[Sample]]:
    requests = [
        Request(prompt, constraint, [3 * i, 3 * i + 1, 3 * i + 2])
        for i, prompt in enumerate(prompts)
    ]
    results = []
    for drawn in SAMPLERS[name](**options).draw_batch(model, requests):
        assert not isinstance(drawn, CdecError), drawn
        results.append(drawn)
    return results


def assert_records_are_true(model: LanguageModel, plain: Plain, folder: Path) -> None:
    rows = random_rows(model.vocabulary, np.random.default_rng(4))
    compile_token_set(rows, model.vocabulary, folder / "rows.arrow")
    constraint = open_artifact(folder / "rows.arrow", vocabulary=model.vocabulary)
    end_ids = list(model.vocabulary.eos_token_ids)
    for name, options in SAMPLER_OPTIONS:
        for prompt, samples in zip(
            PROMPTS, draw(model, constraint, PROMPTS, name, **options), strict=True
        ):
            for sample in samples:
                if name == "unconstrained" and sample.finish_reason != "complete":
                    continue
                text = list(sample.token_ids)
                log_p, log_x = reference(plain, prompt, text, rows, end_ids)
                assert sample.logprob == near(float(log_p), 1 + len(text)), name
                if name == "unconstrained":
                    assert bool(sample.valid) >= (text in rows)
                    continue
                assert sample.finish_reason == "complete"
                assert sample.valid
                assert text in rows
                if name != "beam":
                    assert sample.log_candidate_weight == near(float(log_x), 1 + len(text)), name
                if name == "masked":
                    assert sample.log_weight == sample.log_candidate_weight


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["llama", "gpt2", "mamba", "bart", "t5"])
def test_records_are_true_on_tiny_models(name: str, tmp_path: Path) -> None:
    assert_records_are_true(*tiny(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["target", "draft"])
def test_records_are_true_on_the_embedded_models(name: str, tmp_path: Path) -> None:
    assert_records_are_true(*loaded(embedded_model_path(name)), tmp_path)


@pytest.mark.share(1)
@pytest.mark.parametrize("folder", ["model_stories260k", "model_rwkv_tiny"])
def test_records_are_true_on_shared_models(folder: str, shared: Path, tmp_path: Path) -> None:
    path = shared / "data" / folder / "hf"
    if not path.is_dir():
        pytest.skip(f"no {folder} in the shared data")
    if folder == "model_rwkv_tiny":
        # Its vocabulary is the bytes: token id = byte, and it has no tokenizer.
        from transformers import AutoModelForCausalLM

        from cdec.core.tokens.vocabulary import Vocabulary

        module = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        vocabulary = Vocabulary([bytes([i]) for i in range(256)], eos_token_ids=[0])
        model = load_model(path, vocabulary=vocabulary)
        assert_records_are_true(model, causal_plain(module), tmp_path)
        return
    assert_records_are_true(*loaded(path), tmp_path)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_greedy_is_the_best_allowed_token_at_every_step(name: str, tmp_path: Path) -> None:
    model, plain = tiny(name)
    rows = random_rows(model.vocabulary, np.random.default_rng(8))
    compile_token_set(rows, model.vocabulary, tmp_path / "rows.arrow")
    constraint = open_artifact(tmp_path / "rows.arrow", vocabulary=model.vocabulary)
    end_ids = list(model.vocabulary.eos_token_ids)
    for prompt, samples in zip(PROMPTS, draw(model, constraint, PROMPTS, "greedy"), strict=True):
        text = list(samples[0].token_ids)
        logprobs = plain(prompt, text)
        for i, token in enumerate([*text, end_ids[0]]):
            allowed = allowed_after(rows, text[:i], end_ids)
            best = max(float(logprobs[i, t]) for t in allowed)
            assert float(logprobs[i, token]) == near(best, 1)


# --- Opportunistic masking: the greedy texts, with fewer masks.


def test_a_draw_is_the_models_own_where_it_is_allowed_all_the_way() -> None:
    toy = toy_a()
    from cdec.samplers.unconstrained import UnconstrainedSampler

    free = UnconstrainedSampler().draw(
        toy.model(), toy.constraint, "", n=200, rng=np.random.default_rng(1)
    )
    ours = MaskedSampler(opportunistic=True).draw(
        toy.model(), toy.constraint, "", n=200, rng=np.random.default_rng(1)
    )
    members = [(a, b) for a, b in zip(free, ours, strict=True) if a.valid]
    assert len(members) > 20
    assert all(a.token_ids == b.token_ids for a, b in members)


@pytest.mark.parametrize("seed", range(12))
def test_greedy_texts_are_the_same(seed: int) -> None:
    toy = random_toy(seed, ends_itself=seed % 3 == 0)
    plain, quick = (
        GreedySampler(opportunistic=flag).draw(
            toy.model(), toy.constraint, "", rng=np.random.default_rng(0)
        )[0]
        for flag in (False, True)
    )
    assert quick.token_ids == plain.token_ids
    assert (quick.logprob, quick.finish_reason) == (plain.logprob, plain.finish_reason)
    assert quick.log_candidate_weight is None


def test_bounds_stay_certified_and_what_lengths_cut_off_is_unknown() -> None:
    toy = toy_b()
    samples = MaskedSampler(opportunistic=True).draw(
        toy.model(), toy.constraint, "", n=300, rng=np.random.default_rng(2)
    )
    fields = samples[0].diagnostics
    assert fields["length_mass_upper"] is None
    assert fields["log_mass_lower"] <= np.log(mass(toy)) + 1e-12
    assert fields["log_mass_upper"] >= np.log(mass(toy)) - 1e-12


def test_masks_are_computed_only_where_a_draw_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    original = SetSession.allowed

    def allowed(self: SetSession, states: Any) -> Any:
        asked.append(len(states))
        return original(self, states)

    monkeypatch.setattr(SetSession, "allowed", allowed)
    toy = toy_a()  # The greedy text 11111 is a member.
    GreedySampler().draw(toy.model(), toy.constraint, "", rng=np.random.default_rng(0))
    assert sum(asked) == 5  # At the length limit only the end is left: nobody is asked.
    asked.clear()
    (sample,) = GreedySampler(opportunistic=True).draw(
        toy.model(), toy.constraint, "", rng=np.random.default_rng(0)
    )
    assert sample.text == "11111"
    assert not asked


def test_length_limits_hold() -> None:
    toy = toy_b()
    for limit in (1, 2):
        samples = MaskedSampler(opportunistic=True).draw(
            toy.model(),
            toy.constraint,
            "",
            n=200,
            rng=np.random.default_rng(0),
            max_new_tokens=limit,
        )
        law = masked(toy, limit).law
        drawn = [tuple(s.token_ids) if s.finish_reason == "complete" else None for s in samples]
        assert set(drawn) <= set(law)
        assert all(len(s.token_ids) <= limit for s in samples)


def test_it_speculates_too() -> None:
    toy = toy_b()
    drawn = [
        MaskedSampler(opportunistic=True, **options).draw(
            toy.model(), toy.constraint, "", n=100, rng=np.random.default_rng(3)
        )
        for options in ({}, {"draft": "counts", "gamma": 4})
    ]
    assert [s.token_ids for s in drawn[0]] == [s.token_ids for s in drawn[1]]


def test_it_excludes_top_m() -> None:
    with pytest.raises(UsageError, match="top_m"):
        MaskedSampler(top_m=3, opportunistic=True)


class OnDevice(TabularModel):
    """A tabular model whose scores are torch tensors, as on an accelerator."""

    def __init__(self, toy: Toy) -> None:
        super().__init__(toy.probabilities, toy.vocabulary)
        self.device = "torch:cpu"

    def _forward(self, nodes: Any) -> Any:
        return torch.from_numpy(super()._forward(nodes))


@pytest.mark.parametrize("make", [MaskedSampler, GreedySampler])
@pytest.mark.parametrize("seed", range(4))
def test_a_device_draws_what_the_host_draws(make: Any, seed: int) -> None:
    toy = random_toy(seed)
    host, device = (
        make(opportunistic=True).draw(
            model, toy.constraint, "", n=60, rng=np.random.default_rng(seed)
        )
        for model in (toy.model(), OnDevice(toy))
    )
    assert [s.token_ids for s in host] == [s.token_ids for s in device]
    assert [s.logprob for s in host] == pytest.approx([s.logprob for s in device])


# --- Populations: what resampling keeps, drops and draws; arithmetic of log weights.


def test_texts_that_resampling_dropped_stay_in_the_lower_bound() -> None:
    toy = toy_b()
    model = toy.model()
    dropped = 0
    for seed in range(40):
        with Batch(model, [Request("", toy.constraint, [seed])]) as batch:
            left = Populations(batch, np.array([0]), 6, 0.95).walk()
            lower = batch.tree.bounds(0, int(batch.roots[0])).fields()["log_mass_lower"]
        assert isinstance(lower, float)
        rows = {tuple(t[:n]) for t, n in zip(left.tokens.tolist(), left.lengths, strict=True)}
        known = math.log(sum(math.exp(log_prob(toy, row)) for row in rows))
        assert lower >= known - 1e-12
        dropped += lower > known + 1e-9
    assert dropped


def test_dead_particles_are_replaced_by_living_ones() -> None:
    toy = dead_end_toy()
    samples = draw_particles(toy, 400, 8, 0.9)
    # All eight die with probability (2/3)^8 = .04 at most.
    assert np.mean([outcome(s) is None for s in samples]) < 0.1
    # Whoever resampled has no dead particle left: what is unequal came after.
    survivors = [s for s in samples if s.diagnostics["resamplings"]]
    assert survivors and all(outcome(s) is not None for s in survivors)


def test_more_resampling_is_done_where_the_threshold_is_higher() -> None:
    toy = toy_a()
    times = [
        sum(s.diagnostics["resamplings"] for s in draw_particles(toy, 100, 8, share))
        for share in (0.0, 0.5, 0.9)
    ]
    assert times[0] == 0 < times[1] < times[2]


def test_stratified_resampling_is_unbiased() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 5, 16):
        weights = rng.exponential(size=size) ** 3
        weights[: size // 3] = 0.0
        grid = (np.arange(4000) + 0.5) / 4000
        with np.errstate(divide="ignore"):
            rows = np.tile(np.log(weights) - 5000, (len(grid), 1))
        chosen = stratified(rows, np.tile(grid[:, None], (1, size)))
        counts = np.bincount(chosen.reshape(-1), minlength=size) / len(grid)
        # Each end of a share lies in one stratum, where the midpoints err by half a cell at most.
        assert counts == pytest.approx(size * weights / weights.sum(), abs=2 / len(grid))
        assert (np.diff(chosen, axis=1) >= 0).all()
        assert (weights[chosen] > 0).all()


def test_stratified_resampling_never_leaves_the_positive_weights() -> None:
    with np.errstate(divide="ignore"):
        weights = np.log(np.array([[0.0, 0.1, 0.2, 0.0]]))
    assert stratified(weights, np.zeros((1, 4))).tolist() == [[1, 1, 2, 2]]
    last = stratified(weights, np.full((1, 4), 1 - 2**-53))
    assert set(last[0].tolist()) <= {1, 2}


def test_weights_far_below_the_smallest_float_are_compared_and_averaged() -> None:
    with np.errstate(divide="ignore"):
        rows = np.log(np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])) - 5000
    sizes = effective_sample_size(rows)
    assert sizes[:2].tolist() == pytest.approx([3.0, 1.6])
    assert math.isnan(sizes[2])
    assert log_mean(rows).tolist() == pytest.approx([-5000, math.log(4 / 3) - 5000, -math.inf])
