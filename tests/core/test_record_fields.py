"""Every field of every record is declared, and said to be of its command."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core.record_fields import RECORD_FIELDS, fields_of
from cdec.core.sample import Sample
from cdec.samplers import SAMPLERS, build_reward
from cdec.samplers.registry import METHODS
from tests.laws import toys


def test_names_stand_once_and_have_a_meaning() -> None:
    names = [field.name for field in RECORD_FIELDS]
    assert len(names) == len(set(names))
    assert all(field.meaning.endswith(".") and field.type for field in RECORD_FIELDS)


@pytest.mark.parametrize("name", METHODS)
def test_samples_hold_declared_fields_alone(name: str) -> None:
    toy = toys.toy_b()
    method = METHODS[name]
    options: dict[str, Any] = {}
    if method.needs_draft:
        options["draft"] = toy.model()
    if method.needs_reward:
        options["reward"] = build_reward("regex:a")
    sampler = SAMPLERS[name](**options)
    rng = np.random.default_rng(0)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=2, rng=rng, max_new_tokens=4)
    for sample in samples:
        assert isinstance(sample, Sample)
        assert set(sample.to_json()) <= set(fields_of("sample"))
