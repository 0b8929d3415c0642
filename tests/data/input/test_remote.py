"""URLs: read through fsspec; what is missing is said, with the command that installs it."""

from __future__ import annotations

import builtins
import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import ExtraMissingError, InputMissingError
from cdec.core.files.remote import is_url
from cdec.data.entities.source import read_entities
from cdec.data.input.count import count_records
from cdec.data.input.source import open_source
from cdec.data.prompts.read import read_prompts


@pytest.fixture
def bucket() -> Iterator[str]:
    """A folder of files in memory."""
    files = fsspec.filesystem("memory")
    table = pa.table({"id": [1, 2, 3], "prompt": ["a", "b", "c"], "text": ["x", "y", "z"]})
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink)
    contents = {
        "p.parquet": sink.getvalue(),
        "p.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist()),
        "p.csv": b"id,prompt,text\n1,a,x\n2,b,y\n3,c,z\n",
    }
    contents["p.jsonl.gz"] = gzip.compress(contents["p.jsonl"])
    for name, data in contents.items():
        files.pipe(f"/bucket/{name}", data)
    yield "memory://bucket"
    files.rm("/bucket", recursive=True)


@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl", "p.jsonl.gz", "p.csv"])
def test_prompts_and_entities_come_from_urls(bucket: str, name: str) -> None:
    url = f"{bucket}/{name}"
    assert [str(record.id) for record in read_prompts(url)] == ["1", "2", "3"]
    (batch,) = read_entities(url, field="text", id_field="id")
    assert (batch.texts, batch.ids) == (["x", "y", "z"], ["1", "2", "3"])
    assert count_records(url) is None


def test_a_file_url_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"one\ntwo\n")
    url = (tmp_path / "p.txt").as_uri()
    assert [record.line for record in read_prompts(url)] == [1, 2]


def test_paths_are_no_urls() -> None:
    assert is_url("s3://b/k")
    assert is_url("simplecache::s3://b/k")
    for path in ("a.txt", "-", "/a//b", "c:/x", "s3:/b/k", "://x", Path("s3://b/k")):
        assert not is_url(path)


@pytest.mark.parametrize(
    ("url", "code"),
    [("memory://bucket/none", "no such file"), ("nokind://a/b", "nokind")],
)
def test_a_url_that_cannot_be_read_is_named(url: str, code: str) -> None:
    with pytest.raises(InputMissingError, match=code) as caught, open_source(url):
        pass
    assert caught.value.details["path"] == url


@pytest.mark.parametrize(
    ("url", "package"), [("s3://b/k", "s3fs"), ("gs://b/k", "gcsfs"), ("memory://b", "fsspec")]
)
def test_a_missing_package_is_named_with_its_command(
    url: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        if package != "fsspec":
            monkeypatch.delitem(sys.modules, name)
    if package != "fsspec":
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExtraMissingError, match=package) as caught, open_source(url):
        pass
    assert caught.value.hint == 'pip install "cdec[remote]"'


def test_a_failing_read_of_a_url_is_an_input_error(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.memory import MemoryFile

    class ServiceError(Exception):
        """What packages of file systems raise: nothing that they share."""

    def broken(self: Any, *_: Any) -> bytes:
        raise ServiceError("slow down")

    monkeypatch.setattr(MemoryFile, "read1", broken)
    with pytest.raises(InputMissingError, match="ServiceError: slow down"):
        list(read_prompts(f"{bucket}/p.jsonl"))
