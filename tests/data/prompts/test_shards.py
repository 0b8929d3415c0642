"""Shards: every record in exactly one, whatever its place and the format of the file."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import UsageError
from cdec.data.ids import Shard
from cdec.data.prompts.read import BadRecord, read_prompts

ROWS: list[dict[str, Any]] = [
    *({"id": i, "prompt": f"p{i}"} for i in range(150)),
    *({"id": f"é{i}", "prompt": "same"} for i in range(150)),
]


def ids(source: Any, shard: Shard | None, **options: Any) -> list[object]:
    return [record.id for record in read_prompts(source, shard=shard, **options)]


def lines(rows: list[dict[str, Any]], more: bytes = b"") -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode() + more)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_record_is_in_exactly_one_shard(count: int) -> None:
    bad = b'{oops\nplain text\nplain text\n{"prompt": 3}\n{"id": "bad", "prompt": 4}\n\xff\n'
    whole = ids(lines(ROWS, bad), None)
    parts = [ids(lines(ROWS, bad), Shard(index, count)) for index in range(1, count + 1)]
    assert Counter(whole) == Counter(record_id for part in parts for record_id in part)
    assert len(whole) == 306
    for part in parts:
        kept = set(part)
        assert part == [record_id for record_id in whole if record_id in kept], "order is kept"
        assert 0.6 * len(whole) / count < len(part) < 1.5 * len(whole) / count


def test_shards_do_not_depend_on_order_or_format(tmp_path: Path) -> None:
    rows = [{**row, "id": str(row["id"])} for row in ROWS]
    shuffled = rows.copy()
    random.Random(0).shuffle(shuffled)
    table = pa.Table.from_pylist(shuffled)
    pa.parquet.write_table(table, tmp_path / "p.parquet", row_group_size=50)
    with pa.ipc.new_stream(str(tmp_path / "p.arrows"), table.schema) as writer:
        writer.write_table(table)
    cells = ["id,prompt", *(f"{row['id']},{row['prompt']}" for row in reversed(rows))]
    (tmp_path / "p.csv").write_text("\n".join(cells))
    for index in range(1, 4):
        expected = Counter(ids(lines(rows), Shard(index, 3)))
        for name in ("p.parquet", "p.arrows", "p.csv"):
            assert Counter(ids(tmp_path / name, Shard(index, 3))) == expected
        # A number and its text are two ids, in one shard.
        assert Counter(map(str, ids(lines(ROWS), Shard(index, 3)))) == expected


def test_records_without_ids_are_in_shards_by_their_content(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{i}", "kind": i % 3} for i in range(60)]
    pa.parquet.write_table(pa.Table.from_pylist(rows[::-1]), tmp_path / "p.parquet")
    for index in (1, 2):
        shard = Shard(index, 2)
        assert Counter(ids(lines(rows), shard)) == Counter(ids(tmp_path / "p.parquet", shard))


def test_bad_rows_are_in_one_shard_too(tmp_path: Path) -> None:
    prompts = pa.array([b"\xff" if i % 5 == 0 else b"x" for i in range(50)], pa.binary())
    table = pa.table({"id": list(range(50)), "prompt": prompts})
    pa.parquet.write_table(table, tmp_path / "p.parquet")
    found = [
        record.line
        for index in range(1, 5)
        for record in read_prompts(tmp_path / "p.parquet", shard=Shard(index, 4))
        if isinstance(record, BadRecord)
    ]
    assert sorted(found) == list(range(1, 51, 5))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="shard"):
        Shard.parse(text)
    assert str(Shard.parse(" 2/3 ")) == "2/3"
