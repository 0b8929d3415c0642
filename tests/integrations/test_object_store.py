"""Prompts and entities from ``s3://``, on moto's server on the loopback."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("s3fs", reason="needs the extra remote: s3fs")
pytest.importorskip("moto.server", reason="needs moto[server]")

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from cdec.core.errors import InputMissingError
from cdec.data import Shard, read_entities, read_prompts
from tests.integrations.buckets import object_store

ROWS = [{"id": i, "prompt": f"prompt {i}", "text": f"entity {i}"} for i in range(3000)]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket with prompts in several formats."""
    with object_store() as store:
        store.mkdir("prompts")
        lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
        store.pipe("prompts/p.jsonl", lines)
        store.pipe("prompts/p.jsonl.xz", lzma.compress(lines))
        with store.open("prompts/p.parquet", "wb") as file:
            pq.write_table(pa.Table.from_pylist(ROWS), file, row_group_size=1000)
        yield "s3://prompts"


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.xz", "p.parquet"])
def test_prompts_and_entities_come_from_a_bucket(bucket: str, name: str) -> None:
    url = f"{bucket}/{name}"
    assert [record.id for record in read_prompts(url)] == list(range(3000))
    texts = [text for batch in read_entities(url, field="text") for text in batch.texts]
    assert texts == [row["text"] for row in ROWS]
    parts = [[r.id for r in read_prompts(url, shard=Shard(i, 3))] for i in (1, 2, 3)]
    assert sorted(record_id for part in parts for record_id in part) == list(range(3000))


def test_what_a_bucket_does_not_have_or_give_is_named(bucket: str) -> None:
    for url in (f"{bucket}/none.jsonl", "s3://no-such-bucket/p.jsonl"):
        with pytest.raises(InputMissingError) as caught:
            next(read_prompts(url))
        assert caught.value.details["path"] == url


def test_the_command_line_reads_a_bucket(bucket: str, tmp_path: Path) -> None:
    from cdec.cli.app import main

    (tmp_path / "cities.txt").write_text("Paris\nRome\n")
    assert main(["compile-set", str(tmp_path / "cities.txt"), "--quiet"]) == 0
    fsspec.filesystem("s3").pipe("prompts/q.csv", b"id,prompt\nfr,What is the capital of France?\n")
    output = tmp_path / "o.parquet"
    words = ["sample", "-a", str(tmp_path / "cities.arrow"), "-i", f"{bucket}/q.csv"]
    assert main([*words, "--method", "greedy", "-o", str(output), "--quiet"]) == 0
    assert pq.read_table(output)["text"].to_pylist() == ["Paris"]
