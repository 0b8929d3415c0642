"""Ids of prompt records: stable for the same content, duplicates found as early as possible."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import DuplicateIdError
from cdec.data.prompts.read import BadRecord, PromptRecord, read_prompts


def read(data: bytes | str, **options: Any) -> list[PromptRecord | BadRecord]:
    data = data.encode() if isinstance(data, str) else data
    return list(read_prompts(io.BytesIO(data), **options))


def test_id_of_a_record_without_one_is_its_contents_hash() -> None:
    first, second, third = read('{"prompt": "a", "n": 2}\n{ "n":2,"prompt":"a"}\na\n')
    assert isinstance(first.id, str)
    assert len(first.id) == 16
    assert int(first.id, 16) >= 0
    assert second.id == f"{first.id}-1"
    assert third.id != first.id


def test_distinct_records_have_the_same_ids_in_pieces_of_a_file() -> None:
    lines = [json.dumps({"prompt": f"prompt {i}"}) for i in range(50)] + ["text", "{bad"]
    whole = [record.id for record in read("\n".join(lines))]
    assert whole == [read(line)[0].id for line in lines]
    assert len(set(whole)) == len(lines)


def test_many_repeats_of_one_record_are_numbered_in_linear_time() -> None:
    records = read("a\n" * 20_000)
    assert len({record.id for record in records}) == 20_000
    assert str(records[-1].id).endswith("-19999")


DUPLICATE = b'{"id":1,"prompt":"a"}\n{"id":"1","prompt":"c"}\n{"id":1,"prompt":"b"}\n'


def test_duplicate_id_in_a_file_is_found_before_the_first_record(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(DUPLICATE)
    with pytest.raises(DuplicateIdError) as caught:
        next(read_prompts(path))
    assert caught.value.details == {"line": 3, "id": 1}
    assert caught.value.exit_status == 65


def test_duplicate_id_on_stdin_from_a_file_is_found_before_the_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(DUPLICATE)
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(DuplicateIdError):
            next(read_prompts("-"))
    path.write_bytes(DUPLICATE.replace(b'1,"prompt":"b"', b'2,"prompt":"b"'))
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert [record.id for record in read_prompts("-")] == [1, "1", 2]


def test_duplicate_id_in_a_pipe_is_found_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_bytes, args=(DUPLICATE,))
    feeder.start()
    records = read_prompts(path)
    assert [next(records).id, next(records).id] == [1, "1"]
    with pytest.raises(DuplicateIdError):
        next(records)
    feeder.join()


def test_a_record_of_a_pipe_comes_before_the_next_line_is_written(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as sink:
        records = read_prompts(stream)
        sink.write(b"first prompt\n")
        first = next(records)
        assert isinstance(first, PromptRecord)
        assert first.prompt == "first prompt"
