"""``BatchSampler``, called with batches as Ray calls it: columns stay as they are."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdec.core.errors import UsageError
from cdec.integrations.ray import BatchSampler
from cdec.integrations.vllm.worker import IN_PROCESS, vllm_worker
from tests.integrations.ray_worlds import artifact, one_process, slow_model

ROWS = 4
PAID = [decimal.Decimal("1.50"), None, decimal.Decimal("2.00"), decimal.Decimal("0.00")]
SEEN = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3, 4)]


def _batch(**more: Any) -> pa.Table:
    columns = {
        "id": pa.array([7, 8, 9, 10], pa.int32()),
        "prompt": pa.array(["a", "b", None, "d"]),
        "n": pa.array([2, None, 1, 0], pa.int8()),
        "year": pa.array([2020, None, 2022, 2023], pa.int16()),
        "paid": pa.array(PAID, pa.decimal128(9, 2)),
        "seen": pa.array(SEEN, pa.timestamp("ms", "UTC")),
        "raw": pa.array([b"\xc3\xa9", b"x", None, b""], pa.binary()),
        "kind": pa.array(["x", "y", "x", None]).dictionary_encode(),
        "vector": pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
    }
    return pa.table(columns | more)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = artifact(tmp_path_factory.mktemp("letters"))
    return {"artifact": str(place), "method": "masked", "seed": 3}


@pytest.fixture(scope="module")
def sampler(settings: dict[str, Any]) -> BatchSampler:
    return BatchSampler(slow_model(), **settings)


def test_columns_of_a_batch_stay_what_they_are_beside_those_of_samples(
    sampler: BatchSampler,
) -> None:
    batch = _batch()
    found = sampler(batch)
    assert [found.schema.field(name) for name in batch.column_names] == list(batch.schema)
    # Two samples, one, and two errors.
    assert found.select(batch.column_names).equals(batch.take([0, 0, 1, 2, 3]))
    assert found["index"].to_pylist() == [0, 1, 0, None, None]
    assert (found.schema.field("token_ids").type, found.schema.field("logprob").type) == (
        pa.list_(pa.int64()),
        pa.float64(),
    )
    assert found["text"].null_count == 2 and found["reward"].null_count == 5
    assert [error and error["code"] for error in found["error"].to_pylist()] == [
        *(None, None, None),
        *("E_FIELD", "E_FIELD"),
    ]
    assert "input" not in found.column_names
    assert found.schema == sampler(batch.slice(1, 1)).schema


def test_texts_of_a_batch_fit(settings: dict[str, Any]) -> None:
    fitted = BatchSampler(slow_model(), **settings, fit=True)
    found = fitted(pa.table({"id": [1], "prompt": ["a"], "n": [20], "max_tokens": [1]}))
    assert set(found["finish_reason"].to_pylist()) == {"complete"}
    assert found["token_ids"].combine_chunks().value_lengths().to_pylist() == [1] * 20


def test_samples_of_a_batch_are_those_of_records(
    sampler: BatchSampler, settings: dict[str, Any]
) -> None:
    records = [{"id": i, "prompt": f"the {i}th", "n": 1 + i % 3} for i in range(12)]
    table = pa.Table.from_pylist(records)
    found = pa.concat_tables([sampler(table.slice(0, 5)), sampler(table.slice(5))]).to_pylist()
    alone = one_process(records, slow_model()(), **settings)
    names = ("id", "index", "text", "token_ids", "logprob", "log_weight", "seed")
    assert [[row[name] for name in names] for row in found] == [
        [row[name] for name in names] for row in alone
    ]


@pytest.mark.parametrize("form", ["numpy", "lists", "pandas"])
def test_batches_of_any_format_give_the_same_samples(sampler: BatchSampler, form: str) -> None:
    batch = _batch().select(["id", "prompt", "year", "vector"]).slice(0, 2)
    expected = sampler(batch)
    columns: dict[str, Any] = {name: batch[name].to_pylist() for name in batch.column_names}
    if form == "numpy":
        columns = {
            "id": np.array(columns["id"], np.int32),
            "prompt": np.array(columns["prompt"], object),
            "vector": np.array(columns["vector"], np.float32),
        }
    given: Any = columns
    if form == "pandas":
        pandas = pytest.importorskip("pandas")
        # As pandas has whole numbers where a cell is empty.
        given = pandas.DataFrame(columns | {"n": [1.0, None]})
    found = sampler(given)
    names = ("id", "index", "text", "logprob", "seed")
    assert found.select(names).to_pylist() == expected.select(names).to_pylist()
    if form == "numpy":
        assert found.schema.field("id").type == pa.int32()
        assert found["vector"].to_pylist() == expected["vector"].to_pylist()
        assert found.schema.field("vector").type == pa.list_(pa.float32(), 2)


def test_rows_without_ids_get_those_of_records_wherever_batches_are_cut(
    sampler: BatchSampler, settings: dict[str, Any]
) -> None:
    rows = [{"prompt": f"the {i}th", "year": i} for i in range(4)]
    whole = sampler(pa.Table.from_pylist(rows))
    parts = [sampler(pa.Table.from_pylist([row])) for row in rows]
    ids = [id for part in parts for id in part["id"].to_pylist()]
    assert whole["id"].to_pylist() == ids
    assert ids == [row["id"] for row in one_process(rows, slow_model()(), **settings)]
    # Where some rows bring one, the others get theirs in the same column.
    some = pa.Table.from_pylist([rows[0], {**rows[1], "id": "mine"}], _batch_schema())
    assert sampler(some)["id"].to_pylist() == [ids[0], "mine"]


def _batch_schema() -> pa.Schema:
    return pa.schema({"id": pa.string(), "prompt": pa.string(), "year": pa.int64()})


def test_a_column_that_samples_have_too_is_refused_by_name(
    sampler: BatchSampler, settings: dict[str, Any]
) -> None:
    batch = _batch(text=pa.array(["mine"] * ROWS))
    with pytest.raises(UsageError, match="a column 'text', and samples have one") as caught:
        sampler(batch)
    assert "rename_columns" in (caught.value.hint or "")
    named = BatchSampler(slow_model(), fields=["id", "token_ids", "input"], **settings)
    found = named(batch)
    assert found["text"].to_pylist() == ["mine"] * 5
    assert [name for name in found.column_names if name not in batch.column_names] == [
        *("token_ids", "input", "error"),
    ]
    assert json.loads(found["input"][0].as_py())["paid"] == "1.50"
    with pytest.raises(UsageError, match="two columns of the batch are named 'prompt'"):
        sampler(pa.table([pa.array(["a"])] * 2, names=["prompt", "prompt"]))
    with pytest.raises(UsageError, match="the batch is a list"):
        sampler([{"prompt": "a"}])


def test_workers_may_have_an_engine_of_vllm(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def engine(model: str, **arguments: Any) -> Any:
        made.append((model, arguments, {name: os.environ[name] for name in IN_PROCESS}))
        return slow_model()()

    for name in IN_PROCESS:
        monkeypatch.setenv(name, "1")
    # vLLM is not needed to say so, only where the engine is made.
    told = pickle.loads(pickle.dumps(vllm_worker("a/model", max_model_len=64)))
    place = "cdec.integrations.vllm"
    monkeypatch.setitem(sys.modules, f"{place}.engine", SimpleNamespace(vllm_engine=engine))
    monkeypatch.setitem(sys.modules, f"{place}.model", SimpleNamespace(VllmModel=lambda llm: llm))
    batch = pa.table({"id": ["a"], "prompt": ["the 1st"]})
    found = BatchSampler(told, **settings)(batch)
    assert found.equals(BatchSampler(slow_model(), **settings)(batch))
    assert made == [("a/model", {"max_model_len": 64}, IN_PROCESS)]
