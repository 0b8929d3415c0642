"""Warnings of low Z: those of every step of the drawn text, whatever the method and the batch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.record_fields.text_warnings import BUDGET, LEAST_Z, LOW_Z, described
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.registry import METHODS
from cdec.samplers.request import Request
from cdec.samplers.scoring.trace import Tracer
from tests.laws.toys import Row, Toy
from tests.samplers.lookahead.lookahead_reference import TextReward

_PIECES = ["a", "é", "xyz", "日"]
_VOCABULARY = Vocabulary(
    [*(piece.encode() for piece in _PIECES), b"", b""], eos_token_ids=[4, 5], width=7
)


def fought(seed: int, *, ends_itself: bool = False) -> Toy:
    """A set, and a model that often gives nearly all its mass to what the set forbids."""
    rng = np.random.default_rng(seed)
    rows = {tuple(rng.integers(0, 4, size=int(rng.integers(1, 5))).tolist()) for _ in range(7)}
    if ends_itself:
        rows = {(*(token % 3 for token in row), 3) for row in rows}

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, *prefix])
        weights = own.exponential(size=7) ** 5 + 1e-9
        return weights / weights.sum()

    return Toy(_VOCABULARY, probabilities, sorted(rows), ends_itself)


def options_for(name: str, toy: Toy) -> dict[str, Any]:
    """Return what a method needs, small enough for a toy."""
    method, options = METHODS[name], {}
    if method.needs_draft:
        options["draft"] = toy.model()
    if method.needs_reward:
        options["reward"] = TextReward(lambda text, record: float(len(text) % 3))
    return options | ({"burn_in": 5} if name == "asap" else {})


def drawn(name: str, toy: Toy, n: int = 6, traced: bool = True, **options: Any) -> list[Sample]:
    sampler = SAMPLERS[name](**options_for(name, toy), **options)
    needs_beams = name == "beam"
    count = min(n, 4) if needs_beams else n
    request = Request.numbered("", toy.constraint, id="r", n=count, seed=7)
    observer = Tracer() if traced else None
    (found,) = sampler.draw_batch(toy.model(), [request], observer=observer)
    assert isinstance(found, list), found
    return found


def of_trace(toy: Toy, sample: Sample) -> list[dict[str, object]]:
    """Return the warning that the lines of a trace make, by definition."""
    lines: list[Any] = [line for line in sample.trace or () if line["event"] != "none"]
    if not lines:
        return []
    least = min(lines, key=lambda line: line["log_z"])
    if not least["log_z"] < math.log(LEAST_Z):
        return []
    at = least["position"]
    before = len(toy.vocabulary.decode(sample.token_ids[:at]))
    log_z = pytest.approx(least["log_z"], abs=1e-9)
    return [{"code": LOW_Z, "token": at, "byte": before, "log_z": log_z}]


@pytest.mark.parametrize("name", METHODS)
def test_the_least_z_of_the_drawn_text_is_told_where_it_is_too_low(name: str) -> None:
    told = quiet = 0
    for seed in range(8):
        toy = fought(seed, ends_itself=seed % 4 == 3)
        for sample in drawn(name, toy):
            assert list(sample.warnings) == of_trace(toy, sample), (name, seed)
            told += bool(sample.warnings)
            quiet += not sample.warnings
    assert (told == 0) == (not METHODS[name].masks), "the model alone fights nothing"
    assert quiet > 0, name


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("exact", {"abort": True}),
    ("exact", {"draft": "prompt-lookup", "round": 2}),
    ("exact", {"max_draws": 1, "fallback": "asap"}),
    ("disc", {"beams": 2}),
    ("disc", {"recycle": True, "K": 2}),
    ("masked", {"draft": "counts"}),
    ("smc", {"particles": 4, "resample_below": 1.0}),
    ("topn", {"by": "text"}),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_so_with_every_way_to_draw(name: str, options: dict[str, Any]) -> None:
    told = 0
    for seed in range(5):
        toy = fought(seed)
        for sample in drawn(name, toy, n=4, **options):
            fought_at = [each for each in sample.warnings if each["code"] != BUDGET]
            assert fought_at == of_trace(toy, sample), seed
            told += bool(fought_at)
    assert told


def test_nothing_is_told_of_steps_whose_z_was_not_computed_and_nothing_wrong() -> None:
    told = 0
    for seed in range(8):
        toy = fought(seed)
        full = drawn("masked", toy)
        for options in ({"opportunistic": True}, {"top_m": 2}):
            for sample in drawn("masked", toy, **options):
                (expected,) = of_trace(toy, sample) or [None]
                for warning in sample.warnings:
                    assert expected is not None
                    assert warning["log_z"] >= expected["log_z"].expected - 1e-9  # type: ignore
                    assert warning["log_z"] < math.log(LEAST_Z)
                    told += 1
        assert any(sample.warnings for sample in full) or seed != 0
    assert told


@pytest.mark.parametrize("name", ["masked", "exact", "smc", "asap"])
def test_warnings_depend_on_no_batch_and_on_no_trace(name: str) -> None:
    toys = [fought(seed) for seed in range(4)]
    requests = [
        Request.numbered("", toy.constraint, id=i, n=4, seed=i) for i, toy in enumerate(toys)
    ]
    sampler = SAMPLERS[name](**options_for(name, toys[0]))
    together = sampler.draw_batch(toys[0].model(), requests)
    for request, found in zip(requests, together, strict=True):
        (alone,) = sampler.draw_batch(toys[0].model(), [request])
        assert isinstance(alone, list) and isinstance(found, list)
        assert [each.to_json() for each in alone] == [each.to_json() for each in found]


def test_a_tree_that_was_read_back_warns_as_well(tmp_path: Path) -> None:
    told = 0
    for seed in range(5):
        toy = fought(seed)
        for _ in range(2):
            tree = TreeFile(tmp_path / f"{seed}.arrow", names={"constraint": "fought"})
            samples = drawn("asap", toy, n=20, tree=tree)
            assert [list(s.warnings) for s in samples] == [of_trace(toy, s) for s in samples]
            told += any(sample.warnings for sample in samples)
    assert told > 1


def test_warnings_are_in_the_record_and_in_words() -> None:
    sample = next(each for each in drawn("masked", fought(0)) if each.warnings)
    (warning,) = sample.to_json()["warnings"]  # type: ignore[misc]
    assert list(warning) == ["code", "token", "byte", "log_z"]
    words = described(warning)
    assert f"{math.exp(warning['log_z']):.2g} at token {warning['token']}, byte" in words
