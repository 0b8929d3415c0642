"""Resuming: what is there is known, a torn end is cut, another configuration is refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import FieldError, JsonError, OutputError, ResumeMismatchError, UsageError
from cdec.data.output.manifest import manifest_path
from cdec.data.output.writer import RecordWriter, open_writer

CONFIG = {"seed": 1, "method": "disc"}


def write(path: Path, *records: dict[str, Any], **options: Any) -> RecordWriter:
    with open_writer(path, **({"config": CONFIG} | options)) as writer:
        for record in records:
            writer.write(record)
    return writer


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_resume_starts_a_missing_or_empty_output(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    writer = write(path, {"id": 1, "index": 0}, resume=True)
    assert writer.finished.missing(1, 1) == [0]
    path.write_bytes(b"")
    write(path, {"id": 2, "index": 0}, resume=True, config={"other": 1})
    assert lines(path) == [{"id": 2, "index": 0}]


def test_resume_knows_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(
        path,
        {"id": "a", "index": 0},
        {"id": "a", "index": 2},
        {"id": 1, "error": {"code": "E_JSON"}},
    )
    writer = write(path, {"id": "a", "index": 1}, resume=True)
    assert writer.finished.missing("a", 4) == [1, 3]
    assert writer.finished.missing(1, 4) == []
    assert writer.finished.missing("1", 2) == [0, 1]
    assert writer.finished.records == 3
    assert writer.notices == []
    assert [record["id"] for record in lines(path)] == ["a", "a", 1, "a"]


GOOD = '{"id":"é","index":0,"text":"東京"}\n'.encode()


@pytest.mark.parametrize(
    "tail",
    [
        b'{"id": 5, "te',
        GOOD[:9],  # within a character
        GOOD[:-1],  # all but the newline
        b"\0" * 5000,
        b"\0" * 50 + b"\n",
        b"{\n{\n",
        b"3\n",
    ],
)
def test_torn_end_is_cut_and_noticed(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "o.jsonl"
    write(path)
    path.write_bytes(GOOD + tail)
    writer = write(path, {"id": 5, "index": 0}, resume=True)
    assert path.read_bytes() == GOOD + b'{"id":5,"index":0}\n'
    (notice,) = writer.notices
    assert (notice.code, notice.details) == ("W_TORN_LINE", {"bytes": len(tail)})
    assert writer.finished.missing("é", 2) == [1]


def test_output_of_a_torn_line_alone_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path)
    path.write_bytes(b'{"id": 5, "te')
    write(path, {"id": 5, "index": 0}, resume=True)
    assert lines(path) == [{"id": 5, "index": 0}]


def test_bad_line_between_records_is_an_error_and_nothing_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path)
    data = GOOD + b"{torn" + GOOD + GOOD
    path.write_bytes(data)
    with pytest.raises(JsonError) as caught:
        open_writer(path, config=CONFIG, resume=True)
    assert caught.value.details["line"] == 2
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"index": 0, "text": "a"}, "id"),
        ({"id": 1, "text": "a"}, "index"),
        ({"id": 1, "index": -1}, "index"),
        ({"id": 1, "index": 10**12}, "index"),
        ({"id": 1, "index": True}, "index"),
        ({"error": {}, "index": 0}, "id"),
    ],
)
def test_records_without_id_or_index_cannot_be_resumed(
    tmp_path: Path, record: dict[str, Any], field: str
) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 0, "index": 0}, record)
    with pytest.raises(FieldError) as caught:
        open_writer(path, config=CONFIG, resume=True)
    assert caught.value.details == {"line": 2, "field": field}


def test_resume_with_another_configuration_lists_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 1, "index": 0})
    with pytest.raises(ResumeMismatchError) as caught:
        open_writer(path, config={"seed": 2, "method": "disc", "K": 4}, resume=True)
    assert caught.value.details["differing"] == ["K", "seed"]
    assert "K was not set, is 4; seed was 1, is 2" in caught.value.message
    assert lines(path) == [{"id": 1, "index": 0}]


def test_a_manifest_that_the_system_keeps_back_is_no_reason_to_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 1, "index": 0})
    real = Path.read_bytes

    def read(self: Path) -> bytes:
        if self == manifest_path(path):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(self)

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(
        OutputError, match=r"manifest\.json cannot be read: Too many open"
    ) as caught:
        write(path, resume=True)
    assert "force" not in str(caught.value.hint)
    assert lines(path) == [{"id": 1, "index": 0}]


@pytest.mark.parametrize("manifest", [None, b"", b"{}", b"[1]", b'{"config": 1}', b"\xff"])
def test_resume_without_a_good_manifest_is_refused(tmp_path: Path, manifest: bytes | None) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 1, "index": 0})
    manifest_path(path).unlink()
    if manifest is not None:
        manifest_path(path).write_bytes(manifest)
    with pytest.raises(ResumeMismatchError, match="manifest"):
        open_writer(path, config=CONFIG, resume=True)


def test_another_version_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 1, "index": 0})
    manifest = json.loads(manifest_path(path).read_bytes())
    manifest_path(path).write_bytes(json.dumps(manifest | {"cdec_version": "0.0.0"}).encode())
    writer = write(path, resume=True)
    assert [notice.code for notice in writer.notices] == ["W_VERSION"]


def test_devices_and_unconfigured_outputs_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="regular file"):
        open_writer("/dev/null", config=CONFIG, resume=True)
    with pytest.raises(UsageError, match="configuration"):
        open_writer(tmp_path / "o.jsonl", resume=True)
    write(tmp_path / "p.jsonl", {"id": 1}, config=None)
    assert not manifest_path(tmp_path / "p.jsonl").exists()
