"""Calls as papers count them, without any cache: every method's, counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.combine.free_text import FreeText
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.registry import METHODS
from tests.laws.worlds import Row, Toy
from tests.samplers.lookahead.lookahead_reference import TextReward

VOCABULARY = Vocabulary([b"a", b"b", b""], eos_token_ids=[2], special_token_ids=[2])


def sure(prefix: Row) -> NDArray[np.float64]:
    """a, then b, then the end."""
    return np.eye(3)[min(len(prefix), 2)]


def even(prefix: Row) -> NDArray[np.float64]:
    """Anything, everywhere."""
    return np.full(3, 1 / 3)


FREE = Toy(VOCABULARY, sure, []), False
ONE = Toy(VOCABULARY, even, [(0, 1)]), True
"""A text is three calls, forced or not: at the prompt, at a, and for the end at ab."""
THREE = Toy(VOCABULARY, even, [(0, 0), (0, 1), (1,)]), True
AHEAD = {"reward": TextReward(lambda text, _: 1.0), "branch": 1}

CASES: list[tuple[str, dict[str, Any], tuple[Toy, bool], list[int]]] = [
    ("unconstrained", {}, FREE, [3, 3]),
    ("greedy", {}, FREE, [3, 3]),
    ("greedy", {}, ONE, [3]),
    # A round of proposals is one call, and its last event comes with it.
    ("greedy", {"draft": sure, "gamma": 2}, FREE, [1, 1]),
    ("speculative", {"draft": sure, "gamma": 2}, FREE, [1]),
    ("speculative", {"draft": sure, "gamma": 1}, FREE, [2, 2]),
    ("mentored", {"draft": sure, "gamma": 1}, FREE, [2]),
    ("masked", {}, ONE, [3, 3]),
    # One prompt; a and b; aa and ab, since b may only end. The first draw pays for the search.
    ("beam", {"beams": 2}, THREE, [5, 0]),
    ("topn", {}, THREE, [5, 0, 0]),
    # Two candidates are refused, and one of two more is taken.
    ("disc", {"K": 2, "mass_draws": 2}, ONE, [4 * 3]),
    ("disc", {"K": 2, "mass_draws": 2, "recycle": True}, ONE, [2 * 3]),
    ("asap", {"burn_in": 4, "round": 2}, ONE, [5 * 3, 3]),
    # The first candidate is refused; then the tree knows all there is.
    ("exact", {"round": 1}, ONE, [2 * 3, 3]),
    # All of a round is drawn, whatever comes of it.
    ("exact", {"round": 8}, ONE, [8 * 3]),
    ("smc", {"particles": 3}, ONE, [3 * 3]),
    ("mcmc", {"steps": 2, "proposal": "restart"}, ONE, [3 * 3, 3 * 3]),
    ("cdlh", AHEAD, FREE, [3]),
    ("cdlh-approx", {**AHEAD, "draft": sure}, FREE, [3]),
    # Two events of the draft are verified, then the end.
    ("cdsl", {**AHEAD, "draft": sure, "depth": 2}, FREE, [2]),
]


@pytest.mark.parametrize(("method", "options", "world", "expected"), CASES)
def test_calls_are_counted_as_if_nothing_were_kept(
    method: str, options: dict[str, Any], world: tuple[Toy, bool], expected: list[int]
) -> None:
    options = dict(options)
    if "draft" in options:
        options["draft"] = TabularModel(options["draft"], VOCABULARY)
    toy, binds = world
    constraint = toy.constraint if binds else None
    samples = SAMPLERS[method](**options).draw(
        toy.model(), constraint, "", n=len(expected), rng=np.random.default_rng(1), max_new_tokens=2
    )
    assert [sample.diagnostics["path_calls"] for sample in samples] == expected


def test_every_method_is_counted() -> None:
    assert {method for method, *_ in CASES} == set(METHODS)


def test_parts_of_a_text_add_up() -> None:
    """Free text up to its marker is three calls at most, the part behind it three."""
    toy, _ = ONE
    model = TabularModel(lambda prefix: [0.0, 1.0, 0.0] if not prefix else [1 / 3] * 3, VOCABULARY)
    (sample,) = SAMPLERS["masked"]().draw(
        model, toy.constraint, "", rng=np.random.default_rng(0), free=FreeText(after=("b",))
    )
    assert sample.text == "ab"
    assert sample.diagnostics["path_calls"] == 1 + 3
