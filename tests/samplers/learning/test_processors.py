"""What one batch certifies of a real model holds in another batch, and on another processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
import torch

from cdec.compilers import set_constraint
from cdec.core import load_model
from cdec.core.models.language_model import EVENT_ROUNDING
from cdec.core.models.loading import wrap_module
from cdec.samplers import sample
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.laws.worlds import toy_set

MEMBERS = ["Berlin", "New York", "New York City", "Oslo", "Paris", "Rome"]
PROMPTS = ["A city:", "Question: Which city is it?\nAnswer:", "Paris, Rome,", "x", "The end of"]
METHOD_OPTIONS: dict[str, dict[str, Any]] = {"exact": {"n": 24}, "topn": {"n": len(MEMBERS)}}
OTHER_PROCESSOR = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
}
"""As far as torch is concerned, another one."""

RECORDED: list[tuple[float, dict[str, float]]] = [
    (-7.654867273641657, {"Rome": 0.7937365321963177, "Paris": 0.1874272839906125}),
    (-2.218688234914259, {"Paris": 0.8600453298636923, "Berlin": 0.04818244763142321}),
    (-10.922774856411907, {"Rome": 0.42186363830915025, "New York": 0.3103672085371712}),
    (-19.677633526588576, {"New York": 0.4331314716256044, "New York City": 0.257905143214058}),
    (-16.488849476629163, {"Paris": 0.47213920920994734, "Berlin": 0.4344917583345206}),
]
"""log P(S) after each prompt and Q of its two best, one prompt at a time, with AVX-512."""


def certified(model: Any, method: str, batch_size: int) -> list[list[dict[str, Any]]]:
    """Return the records of each prompt, drawn in batches of a size by a model without memory."""
    cities = set_constraint(MEMBERS, model.vocabulary)
    options = METHOD_OPTIONS[method]
    found = sample(model, cities, PROMPTS, method, batch_size=batch_size, **options)
    return [[each.to_json() for each in samples] for samples in found]


def assert_holds(ours: list[list[dict[str, Any]]], theirs: list[list[dict[str, Any]]]) -> None:
    """Check that what one run found lies within what the other one certified."""
    for mine, yours in zip(ours, theirs, strict=True):
        first = yours[0]
        bounds = first["log_mass_lower"], first["log_mass_upper"]
        assert bounds[0] < bounds[1] < bounds[0] + 0.01
        # A bracket whose ends have met is widened alike to both sides, so P(S) is in the middle.
        assert bounds[0] <= (mine[0]["log_mass_lower"] + mine[0]["log_mass_upper"]) / 2 <= bounds[1]
        known = {tuple(each["token_ids"]): each for each in yours}
        common = [each for each in mine if tuple(each["token_ids"]) in known]
        assert common
        for each in common:
            other = known[tuple(each["token_ids"])]
            assert other["probability_lower"] <= each["probability"] <= other["probability_upper"]


@pytest.mark.share(1)
@pytest.mark.parametrize("method", METHOD_OPTIONS)
def test_bounds_hold_in_other_batches(model: Any, method: str) -> None:
    runs = [certified(model, method, size) for size in (1, 2, 5)]
    for ours, theirs in permutations(runs, 2):
        assert_holds(ours, theirs)


def test_bounds_hold_what_another_processor_gave(model: Any) -> None:
    for samples, (log_mass, known) in zip(certified(model, "topn", 3), RECORDED, strict=True):
        first = samples[0]
        assert first["log_mass_lower"] <= log_mass <= first["log_mass_upper"]
        assert {each["text"] for each in samples} >= known.keys()
        for each in samples:
            q = known.get(each["text"], each["probability"])
            assert each["probability_lower"] <= q <= each["probability_upper"]


@pytest.fixture
def usual_products() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("usual_products")
def test_bounds_are_widened_by_the_arithmetic_in_use() -> None:
    model = wrap_module(tiny_module("llama"), VOCABULARY)
    constraint = toy_set([(3,), (3, 4)], VOCABULARY)

    def width() -> float:
        (found,) = sample(model, constraint, [[5, 6]], "topn", n=2)
        return float(found[0].log_mass_upper - found[0].log_mass_lower)

    def expected(dtype: str) -> Any:
        # Two ways, three events; the upper end of P(S) is at most 1.
        return pytest.approx(2 * 3 * EVENT_ROUNDING[dtype], rel=0.1)

    assert width() == expected("float32")
    torch.set_float32_matmul_precision("high")
    assert width() == expected("float16")
    torch.set_float32_matmul_precision("medium")
    assert model.event_rounding == EVENT_ROUNDING["bfloat16"]
    torch.set_float32_matmul_precision("highest")
    with torch.autocast("cpu", torch.bfloat16):
        assert model.event_rounding == EVENT_ROUNDING["bfloat16"]
    assert model.event_rounding == EVENT_ROUNDING["float32"]
    model.event_rounding = 0.01
    assert model.with_warping(0.5, None, None).event_rounding == 0.01


@pytest.mark.heavy
def test_bounds_hold_on_another_processor(model: Any) -> None:
    words = [sys.executable, "-m", "tests.samplers.learning.test_processors"]
    elsewhere = subprocess.run(
        words, env=os.environ | OTHER_PROCESSOR, capture_output=True, timeout=300, check=True
    )
    for method, theirs in json.loads(elsewhere.stdout).items():
        ours = certified(model, method, 2)
        assert_holds(ours, theirs)
        assert_holds(theirs, ours)


if __name__ == "__main__":
    loaded = load_model("embedded")
    print(json.dumps({method: certified(loaded, method, 3) for method in METHOD_OPTIONS}))
