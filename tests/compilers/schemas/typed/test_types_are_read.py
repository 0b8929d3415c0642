"""Every text that a type's masks complete is read by the type, and its own texts are allowed."""

from __future__ import annotations

import json
import warnings
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pydantic
import pytest

from cdec.compilers import schema_constraint
from cdec.compilers.schemas.typed import kinds
from cdec.compilers.schemas.typed.kinds import schema_of, schema_text, value_parser
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.schemas.validity.reader import parser_of
from tests.benchmarks.schemas.random_walks import Walker, walking_vocabulary
from tests.compilers.schemas.typed.kinds_of_types import RANDOM, TYPES
from tests.compilers.schemas.typed.test_kinds import CASES
from tests.laws.sizes import heavy_or

_WALKS = heavy_or(8, 60)
_LEFT = {"set of two": "whether enough items differ once they are read"}
"""What is not enforced of a type, and told: its reader refuses some of its texts."""


@cache
def _constraint(name: str) -> SchemaConstraint:
    return _made(TYPES[name][0])


def _made(kind: Any) -> SchemaConstraint:
    source = schema_text(kind)
    assert isinstance(source, str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schema_constraint(kind, walking_vocabulary(source))


def _walked(constraint: SchemaConstraint, seed: bytes) -> list[str]:
    """Return texts along masks, some short and some long."""
    random, session, texts = np.random.default_rng(list(seed)), constraint.session(), []
    for _ in range(_WALKS):
        walker = Walker(constraint.vocabulary, random, patience=int(random.integers(4, 60)))
        texts.append(walker.draw(session))
    return [text.decode() for text in texts if text is not None]


@pytest.mark.parametrize("name", TYPES)
def test_every_text_of_the_masks_is_read(name: str) -> None:
    constraint, read = _constraint(name), value_parser(TYPES[name][0])
    judge = parser_of(constraint.metadata["cdec.schema"], numbers="finite")
    assert judge is not None
    assert [item["reason"] for item in constraint.unenforced] == [
        *([_LEFT[name]] if name in _LEFT else [])
    ]
    texts = _walked(constraint, name.encode())
    assert texts
    for text in texts:
        assert judge(text, 0.0) is True, text
        if name not in _LEFT:
            read(text)


@pytest.mark.parametrize("name", [name for name, (_, values) in TYPES.items() if values])
def test_what_the_type_writes_is_allowed(name: str) -> None:
    kind, values = TYPES[name]
    adapter = pydantic.TypeAdapter(kind)
    texts = [adapter.dump_json(value, by_alias=True) for value in values]
    for text, verdict in zip(texts, _constraint(name).verdicts(texts), strict=True):
        assert verdict["valid"] and verdict.get("written", True), (text, verdict)


@pytest.mark.parametrize("name", RANDOM)
def test_random_values_are_allowed(name: str) -> None:
    kind, draw = RANDOM[name]
    rng, adapter = Random(name), pydantic.TypeAdapter(kind)
    texts = [adapter.dump_json(draw(rng)) for _ in range(heavy_or(30, 400))]
    for text, verdict in zip(texts, _made(kind).verdicts(texts), strict=True):
        assert verdict["valid"] and verdict.get("written", True), (text, verdict)


@pytest.mark.parametrize("kind", [kind for kind, _, _ in CASES], ids=str)
def test_types_are_read_without_pydantic(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_adapter", lambda kind: None)
    read = value_parser(kind)
    for text in _walked(_made(kind), json.dumps(schema_of(kind)).encode()):
        read(text)
