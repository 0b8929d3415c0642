"""Lookahead on random toys: every token and every count against a plain reference."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from tests.laws.toys import Toy, random_toy
from tests.samplers.lookahead.lookahead_reference import (
    Options,
    Text,
    TextReward,
    World,
    cdlh,
    cdsl,
    drafts_of,
    hashed,
)

TOYS = range(60)
SHAPES = [(1, 1), (2, 1), (3, 3), (2, 4), (6, 2)]


class Tables(TabularModel):
    """A tabular model whose scores are tensors of a device."""

    def __init__(self, law: Any, vocabulary: Any, device: str) -> None:
        super().__init__(law, vocabulary)
        self.device = device

    def _forward(self, nodes: NDArray[np.int64]) -> Any:
        return torch.tensor(super()._forward(nodes)).to(self.device.removeprefix("torch:"))


def setting(seed: int, method: str) -> tuple[Toy, World, Request, Any, dict[str, Any]]:
    """Return a toy, the reference's world, a request, the draft and the options of a seed."""
    rng = np.random.default_rng([seed, 77])
    toy = random_toy(seed, ends_itself=seed % 4 == 3)
    is_free = seed % 3 == 0
    limit = max(1, int(rng.integers(0, 7))) if seed % 5 else 12
    branch, depth = SHAPES[int(rng.integers(len(SHAPES)))]
    score = hashed(seed, int(rng.integers(1, 6)))
    law = None if method == "cdlh" else drafts_of(toy, seed)
    draft = None if law is None else TabularModel(law, toy.vocabulary)
    members = None if is_free else set(toy.members)
    world = World(toy, members, limit, lambda text: score(text, None), law, branch, depth)
    constraint = None if is_free else toy.constraint
    request = Request("", constraint, [seed], max_new_tokens=limit)
    options = {"reward": TextReward(score), "branch": branch, "depth": depth}
    return toy, world, request, draft, options


def drawn(toy: Toy, method: str, request: Request, **options: Any) -> Sample:
    """Draw the one sample of a request."""
    model = TabularModel(toy.probabilities, toy.vocabulary)
    samples = SAMPLERS[method](**options).draw_batch(model, [request])[0]
    assert isinstance(samples, list), samples
    return samples[0]


def agrees(sample: Sample, text: Text) -> None:
    """Compare what both came to and computed."""
    assert (tuple(sample.token_ids), sample.finish_reason) == (text.tokens, text.finish)
    assert sample.diagnostics["distinct_evaluations"] == len(text.evaluated)
    assert sample.diagnostics["target_calls"] == text.calls
    assert sample.diagnostics.get("draft_calls", 0) == len(text.drafted)


@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx"])
def test_every_token_is_the_one_of_the_reference(method: str) -> None:
    lengths = set()
    for seed in itertools.chain(TOYS, range(1000, 1060)):
        toy, world, request, draft, options = setting(seed, method)
        more = {} if draft is None else {"draft": draft}
        sample = drawn(toy, method, request, **options, **more)
        agrees(sample, cdlh(world))
        lengths.add(sample.finish_reason)
    assert lengths == {"complete", "length", "dead_end"}


@pytest.mark.parametrize("verify", ["hard", "speculative", "ratio"])
def test_every_round_of_cdsl_is_the_one_of_the_reference(verify: str) -> None:
    counts = dict.fromkeys(("S1", "S2", "S3", "S4"), 0)
    for seed in itertools.chain(TOYS, range(2000, 2120)):
        toy, world, request, draft, options = setting(seed, "cdsl")
        rng = np.random.default_rng([seed, 78])
        chosen = Options(
            tries=int(rng.integers(0, 4)),
            accept=float(rng.choice([0.0, 0.3, 0.5, 1.0])),
            reward=float(rng.choice([0.0, 0.3, 0.6, 1.0, 2.0])),
            keeps=bool(rng.integers(2)),
            seed=None if verify == "hard" else seed,
            ratio=verify == "ratio",
        )
        sampler = {
            "target_tries": chosen.tries,
            "accept_threshold": chosen.accept,
            "reward_threshold": chosen.reward,
            "on_reject": "keep" if chosen.keeps else "discard",
            "verify": verify,
        }
        sample = drawn(toy, "cdsl", request, draft=draft, **options, **sampler)
        text = cdsl(world, chosen)
        agrees(sample, text)
        found = sample.diagnostics["scenario_counts"]
        assert isinstance(found, dict)
        assert {name: n for name, n in found.items() if n} == dict(text.scenarios)
        for name, n in found.items():
            counts[name] += n
    # The paper's rule accepts more, so its rounds go wrong less often.
    assert min(counts.values()) >= (10 if verify == "ratio" else 20), (
        "the options above meet all scenarios"
    )


@pytest.mark.parametrize("device", ["torch:cpu", *["cuda"] * torch.cuda.is_available()])
@pytest.mark.parametrize("method", ["cdlh", "cdlh-approx", "cdsl", "cdsl speculative"])
def test_a_device_gives_what_the_host_gives(method: str, device: str) -> None:
    name, _, verify = method.partition(" ")
    for seed in range(3000, 3020):
        toy, _, request, draft, options = setting(seed, name)
        request = dataclasses.replace(request, seeds=[seed, seed + 1])
        if verify:
            options |= {"verify": verify, "reward_threshold": 0.0}
        results = []
        for where in ("cpu", device):
            laws = [toy.probabilities, drafts_of(toy, seed)]
            target, small = (
                TabularModel(law, toy.vocabulary)
                if where == "cpu"
                else Tables(law, toy.vocabulary, where)
                for law in laws
            )
            drafts = {} if draft is None else {"draft": small}
            samples = SAMPLERS[name](**options, **drafts).draw_batch(target, [request])[0]
            assert isinstance(samples, list), samples
            results.append(
                [
                    (
                        s.token_ids,
                        s.finish_reason,
                        s.diagnostics["target_calls"],
                        s.diagnostics["reward"],
                    )
                    for s in samples
                ]
            )
        assert results[0] == results[1]
