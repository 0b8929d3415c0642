"""Samples become JSON objects: documented keys, no NaN, fields selected in the order asked."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle

import orjson
import pytest

from cdec.core.errors import UsageError
from cdec.core.sample import SCHEMA_VERSION, Sample


def a_sample(**changes: object) -> Sample:
    values: dict[str, object] = {
        "id": "q17",
        "index": 0,
        "text": "Foreign relations of Angola",
        "token_ids": [1, 2],
        "logprob": -4.25,
        "log_weight": 0.0,
        "log_candidate_weight": -0.5,
        "finish_reason": "complete",
        "valid": True,
        "method": "disc",
        "exactness": "asymptotic",
        "seed": 8123,
        "diagnostics": {"draws": 2, "accepted": True},
        "annotations": {"entity_ids": ["Q4761"]},
        "input": {"query": "which?"},
    }
    return Sample(**(values | changes))  # type: ignore[arg-type]


def test_record_holds_what_is_known_in_the_documented_order() -> None:
    record = a_sample().to_json()
    assert record["schema_version"] == SCHEMA_VERSION
    assert list(record)[:6] == ["schema_version", "id", "index", "text", "token_ids", "entity_ids"]
    assert record["draws"] == 2
    assert record["input"] == {"query": "which?"}


def test_non_finite_numbers_become_null() -> None:
    record = a_sample(log_weight=-math.inf, diagnostics={"log_mass": math.nan}).to_json()
    assert record["log_weight"] is None
    assert record["log_mass"] is None
    assert orjson.loads(orjson.dumps(record)) == record


def test_fields_are_selected_in_the_order_asked() -> None:
    record = a_sample().to_json(["text", "id", "draws"])
    assert list(record) == ["text", "id", "draws"]


def test_absent_input_is_left_out_and_null_is_kept() -> None:
    record = a_sample(input=None, valid=None).to_json()
    assert "input" not in record
    assert record["valid"] is None


def test_diagnostics_and_annotations_are_attributes() -> None:
    sample = a_sample()
    assert (sample.draws, sample.accepted, sample.entity_ids) == (2, True, ["Q4761"])
    assert {"draws", "entity_ids", "text"} <= set(dir(sample))


def test_a_diagnostic_that_does_not_apply_is_an_attribute_error_that_names_those_that_do() -> None:
    with pytest.raises(AttributeError, match=r"'log_mass'.*disc.*draws, accepted, entity_ids"):
        a_sample().log_mass  # noqa: B018
    assert not hasattr(a_sample(), "kl_spent")


def test_a_sample_is_copied_and_pickled_whole() -> None:
    sample = a_sample()
    assert copy.copy(sample) == sample == pickle.loads(pickle.dumps(sample))


def test_a_sample_of_a_schema_is_read_as_a_value_once_it_is_finished() -> None:
    sample = dataclasses.replace(a_sample(), text='{"a": [1]}', reader=json.loads)
    assert sample.parsed == {"a": [1]}
    assert "reader" not in sample.to_json() and pickle.loads(pickle.dumps(sample)).reader is None
    assert dataclasses.replace(sample, text='{"a": [1', valid=False).parsed is None
    cut = dataclasses.replace(sample, finish_reason="length")
    for other, said in ((cut, "not finished: length"), (a_sample(), "no other value")):
        with pytest.raises(UsageError, match=said):
            other.parsed  # noqa: B018
