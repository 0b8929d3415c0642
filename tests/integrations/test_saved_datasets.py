"""Folders that the datasets package saves, read without it: the rows that it would show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import InputMissingError
from cdec.data import PromptRecord, read_entities, read_prompts

datasets = pytest.importorskip("datasets", reason="needs the datasets package, to write folders")

ROWS: list[dict[str, Any]] = [
    {"id": f"r{i}", "prompt": f"prompt {i}", "tags": [f"t{i}"], "n": 1 + i % 3, "text": f"é{i}"}
    for i in range(2500)
]


def said(path: Path) -> list[dict[str, Any]]:
    found = []
    for record in read_prompts(path):
        assert isinstance(record, PromptRecord), record.error
        fields = {"id": record.id, "prompt": record.prompt, "n": record.n}
        found.append(fields | (record.input or {}))
    return found


@pytest.mark.parametrize("shards", [1, 3])
def test_rows_come_in_their_order_from_all_files(tmp_path: Path, shards: int) -> None:
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "d", num_shards=shards)
    assert said(tmp_path / "d") == ROWS
    texts = [t for b in read_entities(tmp_path / "d", field="text") for t in b.texts]
    assert texts == [row["text"] for row in ROWS]


def test_selections_orders_and_formats_are_those_that_were_saved(tmp_path: Path) -> None:
    dataset = datasets.Dataset.from_list(ROWS).shuffle(seed=1).select(range(100))
    dataset = dataset.with_format("numpy", columns=["id", "prompt", "n"])
    dataset.save_to_disk(tmp_path / "d")
    shown = datasets.load_from_disk(str(tmp_path / "d")).with_format("python")
    expected = [{name: row[name] for name in ("id", "prompt", "n")} for row in shown]
    assert said(tmp_path / "d") == expected


def test_chats_and_splits(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    dataset = datasets.Dataset.from_list([{"id": "a", "messages": messages}])
    datasets.DatasetDict(train=dataset, test=dataset).save_to_disk(tmp_path / "d")
    (record,) = read_prompts(tmp_path / "d" / "test")
    assert isinstance(record, PromptRecord)
    assert record.messages == tuple(messages)
    with pytest.raises(InputMissingError, match="train, test"):
        next(read_prompts(tmp_path / "d"))
