"""A run of workers from bucket to bucket, on a server that speaks S3."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.files.remote import Url
from cdec.data.prompts.places import input_files

from .buckets import object_store
from .ray_worlds import artifact, as_written, one_process, prompts, slow_model

pytest.importorskip("ray", reason='needs Ray: pip install "cdec[ray]"')
pytest.importorskip("s3fs", reason='needs s3fs: pip install "cdec[remote]"')
pytest.importorskip("moto.server", reason='needs moto: pip install "moto[server]"')

from cdec.integrations.ray import sample_parts
from cdec.integrations.ray.cluster import Pool, cluster
from cdec.integrations.ray.far_parts import part_folder
from cdec.integrations.ray.parts import parts_of_files
from cdec.integrations.ray.settings import Settings
from cdec.integrations.records.settings import RunSettings

pytestmark = pytest.mark.heavy


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store with an empty bucket, which workers find by the environment."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    with object_store() as files:
        files.mkdir("bucket")
        yield files


def test_two_workers_draw_from_bucket_to_bucket(
    store: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "werkzeug")
    records = [record for record in prompts(40) if record["id"] != "bad"]
    records = [{**record, "id": str(record["id"])} for record in records]
    for number in range(4):
        sink = io.BytesIO()
        rows = records[number::4]
        pa.parquet.write_table(pa.Table.from_pylist(rows), sink)
        store.pipe(f"bucket/prompts/{number}.parquet", sink.getvalue())
    store.pipe("bucket/cities.arrow", artifact(tmp_path).read_bytes())
    place = "s3://bucket/cities.arrow"
    settings = Settings.of(
        RunSettings.of(model=slow_model(), artifact=place, method="masked", batch_size=4)
    )
    folder = part_folder(Url("s3://bucket/out"), "parquet", config={"seed": 0})
    folder.prepare(force=False, resume=False)
    assert not store.exists("bucket/out/.writable")
    parts = parts_of_files(input_files(["s3://bucket/prompts/*.parquet"]))
    assert [part.facts["bytes"] for part in parts] == [store.size(part.source) for part in parts]
    with cluster(cpus=2):
        reports = list(sample_parts(parts[:3], folder, settings, Pool(workers=2)))
        assert sorted(report.name for report in reports) == ["0", "1", "2"]
        done = store.info("bucket/out/1.parquet")["LastModified"]
        rest = list(sample_parts(parts, folder, settings, Pool(workers=2)))
        assert [report.name for report in rest] == ["3"]
    assert store.info("bucket/out/1.parquet")["LastModified"] == done
    drawn = [row for number in range(4) for row in _rows(store, f"bucket/out/{number}.parquet")]
    alone = one_process(
        [row for number in range(4) for row in records[number::4]],
        slow_model()(),
        artifact=place,
        method="masked",
    )
    names = ("id", "index", "text", "logprob", "seed")
    assert [[row[name] for name in names] for row in drawn] == [
        [record[name] for name in names] for record in as_written(alone)
    ]
    # Driver and workers of one machine share what one of them fetched.
    assert sum("GET /bucket/cities.arrow" in message for message in caplog.messages) == 1


def _rows(store: Any, path: str) -> list[dict[str, Any]]:
    data = store.cat_file(path)
    assert json.loads(store.cat_file(f"{path}.manifest.json"))["done"]["bytes"] == len(data)
    found: list[dict[str, Any]] = pa.parquet.read_table(pa.BufferReader(data)).to_pylist()
    return found
