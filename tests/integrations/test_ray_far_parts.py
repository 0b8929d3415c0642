"""Part files in an object store: whole or not there, found again, refused and replaced as here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import (
    ExtraMissingError,
    OutputError,
    OutputExistsError,
    ResumeMismatchError,
)
from cdec.core.files.remote import Url
from cdec.data.prompts.read import prompts_from_records
from cdec.integrations.ray.far_parts import FarPartFolder, part_folder
from cdec.integrations.ray.parts import Part, PartFolder, PartFormat, parts_of_records
from cdec.integrations.records.counts import Counts

from .ray_worlds import prompts

STORE = fsspec.filesystem("memory")


@pytest.fixture
def url() -> Iterator[Url]:
    yield Url("memory://far/out")
    if STORE.exists("/far"):
        STORE.rm("/far", recursive=True)


def _folder(url: Url, format: PartFormat = "jsonl", **config: object) -> PartFolder:
    folder = part_folder(url, format, config=config)
    folder.prepare(force=False, resume=True)
    return folder


def _part(count: int = 4) -> Part:
    (part,) = parts_of_records(prompts_from_records(prompts(count)), count)
    return part


def _write(folder: PartFolder, part: Part) -> Counts:
    counts = Counts()
    with folder.writing(part, counts) as writer:
        for record in part.records:
            counts.records += 1
            writer.write({"id": record.id, "index": 0, "text": "x"})
    return counts


def _files() -> list[str]:
    return sorted(name.rpartition("/")[2] for name in STORE.ls("/far/out", detail=False))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_part_is_done_when_it_is_in_the_store(url: Url, format: PartFormat) -> None:
    folder, part = _folder(url, format, method="masked"), _part()
    assert isinstance(folder, FarPartFolder)
    assert (folder.names(), folder.finished(part)) == (frozenset(), None)
    counts = _write(folder, part)
    assert folder.names() == {"part-00000"}
    assert folder.finished(part) == counts
    name = f"part-00000.{format}"
    assert _files() == [name, f"{name}.manifest.json"]
    data = STORE.cat(f"/far/out/{name}")
    if format == "parquet":
        rows = pa.parquet.read_table(pa.BufferReader(data)).to_pylist()
    else:
        rows = [json.loads(line) for line in data.splitlines()]
    assert [row["text"] for row in rows] == ["x"] * 4


def test_a_part_that_broke_off_is_not_done(url: Url) -> None:
    folder, part = _folder(url), _part()
    with pytest.raises(RuntimeError), folder.writing(part, Counts()) as writer:
        writer.write({"id": 1, "index": 0})
        raise RuntimeError
    assert folder.names() == frozenset()
    counts = _write(folder, part)
    whole = STORE.cat("/far/out/part-00000.jsonl")
    # A file system far away may show what has not arrived.
    STORE.pipe("/far/out/part-00000.jsonl", whole[:-5])
    assert folder.finished(part) is None
    _write(folder, part)
    assert (folder.finished(part), STORE.cat("/far/out/part-00000.jsonl")) == (counts, whole)


def test_parts_of_another_run_are_refused_and_replaced_by_force(url: Url) -> None:
    folder, part = _folder(url, seed=0), _part()
    _write(folder, part)
    with pytest.raises(ResumeMismatchError, match="seed was 0, is 1"):
        _folder(url, seed=1).finished(part)
    with pytest.raises(ResumeMismatchError, match="part was"):
        _folder(url, seed=0).finished(_part(5))
    STORE.pipe("/far/out/notes.txt", b"mine")
    with pytest.raises(OutputExistsError, match=r"memory://far/out holds part-00000\.jsonl"):
        folder.prepare(force=False, resume=False)
    folder.prepare(force=True, resume=False)
    assert _files() == ["notes.txt"]


def test_a_folder_that_cannot_be_written_is_said_before_the_work(
    url: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(type(STORE), "pipe_file", refused)
    with pytest.raises(OutputError, match=r"memory://far/out: PermissionError: AccessDenied"):
        _folder(url)
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(ExtraMissingError, match="without s3fs"):
        part_folder(Url("s3://far/out"), "jsonl")


def test_a_url_of_this_machine_is_a_folder_here(tmp_path: Path) -> None:
    folder = part_folder(Url((tmp_path / "out").as_uri()), "jsonl")
    assert folder == PartFolder(tmp_path / "out", "jsonl")
