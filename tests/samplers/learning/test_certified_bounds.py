"""Certified bounds where all but nothing of the mass is on a token that leads nowhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from tests.laws.toys import Row, Toy
from tests.samplers.enumeration import mass


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
