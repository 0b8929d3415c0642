"""The writer of records, and runs resumed."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import (
    FieldError,
    JsonError,
    LockedError,
    OutputError,
    OutputExistsError,
    ResumeMismatchError,
    UsageError,
)
from cdec.data.output.manifest import manifest_path
from cdec.data.output.writer import RecordWriter, open_writer

# --- The writer: whole lines, one writer a file, nothing overwritten that was not given up.

CONFIG = {"seed": 1, "method": "disc"}


def write(path: Path, *records: dict[str, Any], **options: Any) -> RecordWriter:
    with open_writer(path, **({"config": CONFIG} | options)) as writer:
        for record in records:
            writer.write(record)
    return writer


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_record_is_one_line_of_utf8_json(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": "é\n\u2028", "x": np.float32(0.5), "nan": float("nan")}, {"id": 2})
    assert path.read_bytes() == '{"id":"é\\n\u2028","x":0.5,"nan":null}\n{"id":2}\n'.encode()


def test_each_record_is_one_write(tmp_path: Path) -> None:
    class Raw(io.BytesIO):
        calls = 0

        def write(self, data: Any) -> int:
            self.calls += 1
            return super().write(data)

    raw = Raw()
    writer = RecordWriter(raw, "x")
    writer.write({"id": "x" * 1_000_000})
    writer.write({"id": 2})
    assert raw.calls == 2


def test_short_writes_are_continued() -> None:
    class Short(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data)[:3])

    raw = Short()
    RecordWriter(raw, "x").write({"id": "long enough"})
    assert raw.getvalue() == b'{"id":"long enough"}\n'


def test_full_nonblocking_pipe_is_waited_for() -> None:
    reader, sink = os.pipe()
    os.set_blocking(sink, False)
    record = {"id": "x" * 500_000}
    taken = bytearray()

    def drain() -> None:
        while chunk := os.read(reader, 65536):
            taken.extend(chunk)

    thread = threading.Thread(target=drain)
    with io.FileIO(sink, "w") as raw:
        thread.start()
        RecordWriter(raw, "pipe").write(record)
    thread.join()
    os.close(reader)
    assert json.loads(taken) == record


def test_closed_pipe_is_left_to_the_caller() -> None:
    reader, sink = os.pipe()
    os.close(reader)
    with io.FileIO(sink, "w") as raw, pytest.raises(BrokenPipeError):
        RecordWriter(raw, "pipe").write({"id": 1})


def test_full_device_is_an_output_error() -> None:
    with open_writer("/dev/full") as writer, pytest.raises(OutputError) as caught:
        writer.write({"id": 1})
    assert caught.value.exit_status == 74
    assert "No space left" in caught.value.message


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_file_ends_with_a_whole_line_after_a_failed_write(
    tmp_path: Path, failure: BaseException
) -> None:
    path = tmp_path / "o.jsonl"

    class Failing:
        """Takes half of the second record, then fails."""

        closed = False

        def __init__(self, raw: Any) -> None:
            self.raw, self.fileno, self.close = raw, raw.fileno, raw.close
            self.calls = 0

        def write(self, data: Any) -> int:
            self.calls += 1
            if self.calls == 3:
                raise failure
            taken: int = self.raw.write(data if self.calls == 1 else data[:4])
            return taken

    with open_writer(path, config=CONFIG) as writer:
        writer._stream = Failing(writer._stream)
        writer.write({"id": 1})
        expected = KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else OutputError
        with pytest.raises(expected):
            writer.write({"id": 2})
    assert path.read_bytes() == b'{"id":1}\n'


def test_existing_file_is_kept_without_force_or_resume(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 1, "index": 0})
    with pytest.raises(OutputExistsError) as caught:
        write(path, {"id": 2, "index": 0})
    assert "`force`" in (caught.value.hint or "")
    assert "`resume`" in (caught.value.hint or "")
    assert lines(path) == [{"id": 1, "index": 0}]


def test_force_replaces_records_and_manifest(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write(path, {"id": 1, "index": 0})
    write(path, {"id": 2, "index": 0}, force=True, config={"seed": 2})
    assert lines(path) == [{"id": 2, "index": 0}]
    assert json.loads(manifest_path(path).read_bytes())["config"] == {"seed": 2}


def test_second_writer_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    with open_writer(path, config=CONFIG) as writer:
        writer.write({"id": 1, "index": 0})
        for option in ("resume", "force"):
            with pytest.raises(LockedError) as caught:
                write(path, **{option: True})
            assert caught.value.exit_status == 75
        writer.write({"id": 2, "index": 0})
    assert len(lines(path)) == 2
    write(path, {"id": 3, "index": 0}, resume=True)
    assert len(lines(path)) == 3


def test_output_that_is_an_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "a.jsonl", tmp_path / "link.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n')
    link.hardlink_to(path)
    choices: list[dict[str, Any]] = [{}, {"force": True}, {"resume": True}]
    for options in choices:
        with pytest.raises(UsageError, match="is the input"):
            open_writer(path, config=CONFIG, inputs=["missing", link], **options)
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(UsageError, match="stdin"):
            open_writer(path, config=CONFIG, inputs=["-"], force=True)
    assert path.read_bytes() == b'{"prompt": "a"}\n'


def test_stdout_is_written_and_left_open(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for path in (None, "-"):
        with open_writer(path) as writer:
            writer.write({"id": 1})
    assert capfdbinary.readouterr().out == b'{"id":1}\n' * 2
    with pytest.raises(UsageError, match="stdout"):
        open_writer(None, resume=True, config=CONFIG)


def test_stdout_that_is_the_input_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x\n")
    with path.open("a") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(UsageError, match="stdout"):
            open_writer(None, inputs=[path])
        assert open_writer(None, inputs=["-"]).name == "stdout"


def test_output_that_cannot_be_opened_is_an_output_error(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "o.jsonl", tmp_path):
        with pytest.raises(OutputError) as caught:
            open_writer(path, config=CONFIG)
        assert str(path) in caught.value.message


def test_nothing_is_left_behind_where_the_manifest_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)
    with pytest.raises(OutputError, match="manifest"):
        open_writer(path, config=CONFIG)
    assert list(tmp_path.iterdir()) == []


def test_force_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    mine, path = tmp_path / "mine.txt", tmp_path / "o.jsonl"
    mine.write_text("precious")
    for target in (mine, tmp_path / "nowhere"):
        path.symlink_to(target)
        with pytest.raises(OutputExistsError):
            write(path, {"id": 1})
        write(path, {"id": 1}, force=True)
        assert not path.is_symlink()
        assert lines(path) == [{"id": 1}]
        path.unlink()
    assert mine.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    path.symlink_to(os.devnull)
    write(path, {"id": 1}, force=True)
    assert path.is_symlink()


# --- Resuming: what is there is known, a torn end is cut, another configuration is refused.


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
