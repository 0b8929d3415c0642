"""Constraints and their sources in the place of artifacts, as ``sample`` takes them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import cdec
from cdec.core import load_model
from cdec.core.errors import UsageError
from cdec.integrations.records import sample_records
from cdec.integrations.transformers import ConstraintProcessor

RECORDS = [{"id": "a", "prompt": "The capital of France is"}, {"id": "b", "prompt": "It is"}]
SETTINGS: dict[str, Any] = {"method": "masked", "n": 2, "seed": 4}


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model()


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "source",
    [
        cdec.choices(["Paris", "Rome", "Berlin"]),
        cdec.regex("[A-C]{2}"),
        cdec.grammar('start: "x" | "yz"'),
        cdec.schema({"enum": [1, 22, 333]}),
        cdec.tools([{"name": "now"}]),
    ],
)
def test_records_are_held_to_a_source_as_to_its_constraint(source: Any, model: Any) -> None:
    (found, made) = (
        list(sample_records(RECORDS, model, artifact=given, **SETTINGS))
        for given in (source, source.of(model.vocabulary))
    )
    assert found == made and len(found) == 4
    assert all(record["valid"] for record in found)


def test_records_name_sources_and_all_satisfy_one(model: Any) -> None:
    named = {"city": cdec.regex("Paris|Rome"), "word": cdec.regex("[a-c]")}
    records = [{"prompt": "It is", "constraint": name, "id": name} for name in named]
    both = cdec.regex("P.*|[ab]")
    found = list(sample_records(records, model, constraint=named, conjoined=[both], **SETTINGS))
    assert [record["text"] in {"Paris"} for record in found[:2]] == [True, True]
    assert all(record["text"] in {"a", "b"} for record in found[2:])


def test_a_processor_compiles_a_source_for_the_vocabulary(model: Any) -> None:
    vocabulary = model.vocabulary
    prompt = torch.tensor([[1, 2]])
    scores = torch.zeros(1, vocabulary.width)
    source = cdec.regex("[A-C]{2}")
    given = {"prompt_length": 2, "vocabulary": vocabulary}
    masked = ConstraintProcessor(source, **given)(prompt, scores)
    same = ConstraintProcessor([source.of(vocabulary)], **given)(prompt, scores)
    assert torch.equal(masked, same)
    assert 0 < int((masked > -math.inf).sum()) < vocabulary.width
    with pytest.raises(UsageError, match="vocabulary"):
        ConstraintProcessor(source)
