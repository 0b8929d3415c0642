"""Every text that a type's masks complete is read by the type, and its own texts are allowed."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

pydantic = pytest.importorskip("pydantic")

from cdec.compilers import schema_constraint
from cdec.compilers.schemas.typed.kinds import schema_text, value_parser
from tests.benchmarks.schemas.random_walks import Walker, walking_vocabulary
from tests.compilers.schemas.typed.kinds_of_types import TYPES
from tests.laws.sizes import heavy_or

_WALKS = heavy_or(6, 60)


@cache
def _constraint(name: str) -> Any:
    kind = TYPES[name][0]
    source = schema_text(kind)
    assert isinstance(source, str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schema_constraint(kind, walking_vocabulary(source))


@pytest.mark.parametrize("name", TYPES)
def test_every_text_of_the_masks_is_read(name: str) -> None:
    constraint, read = _constraint(name), value_parser(TYPES[name][0])
    random = np.random.default_rng(sum(name.encode()))
    walker = Walker(constraint.vocabulary, random, patience=int(random.integers(8, 60)))
    session = constraint.session()
    for _ in range(_WALKS):
        text = walker.draw(session)
        if text is not None:
            read(text.decode())


@pytest.mark.parametrize("name", [name for name, (_, values) in TYPES.items() if values])
def test_what_the_type_writes_is_allowed(name: str) -> None:
    kind, values = TYPES[name]
    adapter = pydantic.TypeAdapter(kind)
    texts = [adapter.dump_json(value, by_alias=True) for value in values]
    for text, verdict in zip(texts, _constraint(name).verdicts(texts), strict=True):
        assert verdict["valid"], (text, verdict)
        json.loads(text)
