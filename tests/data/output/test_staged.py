"""Outputs that stand in parts while a run goes on: a kill anywhere loses nothing."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdec.core.errors import DataError, FieldError, LockedError, OutputExistsError
from cdec.data.output.compress import plain_chunks
from cdec.data.output.writer import open_writer, records_path
from tests.campaign.shim import CALLS, Fault, Shim, can_shim

CONFIG = {"seed": 1}
RECORDS: list[dict[str, Any]] = [
    {"id": i if i % 2 else f"=x{i}", "index": 0, "text": f'{i},"\r\n', "logprob": -0.5 * i}
    for i in range(6)
]
ERROR = {"id": 9, "error": {"code": "E_JSON", "message": "bad"}}
NAMES = ("o.csv", "o.tsv.xz", "o.jsonl.gz", "o.jsonl.zst")


def write(path: Path, *records: dict[str, Any], **options: Any) -> Any:
    with open_writer(path, **({"config": CONFIG} | options)) as writer:
        for record in records:
            writer.write(record)
    return writer


def rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    text = b"".join(plain_chunks(path)).decode()
    if ".jsonl" in path.name:
        return [json.loads(line) for line in text.splitlines()]
    separator = "\t" if ".tsv" in path.name else ","
    return list(csv.DictReader(text.splitlines(keepends=True), delimiter=separator))


def broken_off(path: Path, *records: dict[str, Any]) -> None:
    """Leave what a run leaves that is killed."""
    with pytest.raises(KeyboardInterrupt), open_writer(path, config=CONFIG, resume=True) as writer:
        for record in records:
            writer.write(record)
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", NAMES)
def test_an_unfinished_output_is_gone_on_with(tmp_path: Path, name: str) -> None:
    path, whole = tmp_path / name, tmp_path / f"whole-{name}"
    broken_off(path, *RECORDS[:2])
    assert not path.exists()
    (lines,) = records_path(path).glob("*.jsonl")
    assert [json.loads(line)["index"] for line in lines.read_bytes().splitlines()] == [0, 0]
    with lines.open("ab") as file:
        file.write(b'{"id": "torn')
    writer = write(path, *RECORDS[2:], ERROR, resume=True)
    assert [notice.code for notice in writer.notices] == ["W_TORN_LINE"]
    assert writer.finished.missing("=x0", 1) == []
    assert writer.finished.missing("=x2", 1) == [0]
    write(whole, *RECORDS, ERROR)
    assert rows(path) == rows(whole)
    assert not records_path(path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_finished_output_is_gone_on_with_after_a_kill_too(tmp_path: Path, name: str) -> None:
    path, whole = tmp_path / name, tmp_path / f"whole-{name}"
    write(path, *RECORDS[:3], ERROR)
    broken_off(path, *RECORDS[3:5])
    assert not path.exists()
    writer = write(path, *RECORDS[5:], resume=True)
    assert (writer.finished.records, writer.finished.errors) == (6, 1)
    assert [writer.finished.missing(record["id"], 1) for record in RECORDS] == [[]] * 5 + [[0]]
    assert writer.finished.missing(9, 3) == []
    write(whole, *RECORDS[:3], ERROR, *RECORDS[3:])
    assert rows(path) == rows(whole)


@pytest.mark.parametrize("name", NAMES)
def test_existing_outputs_and_unfinished_ones_are_kept(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    broken_off(path, *RECORDS[:2])
    with pytest.raises(OutputExistsError):
        write(path, RECORDS[0])
    with open_writer(path, config=CONFIG, resume=True), pytest.raises(LockedError):
        write(path, resume=True)
    with pytest.raises(OutputExistsError):
        write(path, RECORDS[0])
    write(path, RECORDS[0], force=True)
    assert len(rows(path)) == 1


def test_ids_of_one_cell_are_not_taken_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    write(path, {"id": 1, "index": 0, "text": "a"})
    finished = write(path, resume=True).finished
    assert finished.missing(1, 1) == []
    with pytest.raises(FieldError, match="same cell"):
        finished.missing("1", 1)
    write(path, *({"id": each, "index": 0, "text": "a"} for each in (1, "1")), force=True)
    with pytest.raises(FieldError, match="id '1'"):
        write(path, resume=True)


def test_tables_that_no_run_wrote_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    write(path, {"id": 1, "index": 0})
    for text, error in (("text\nx\n", FieldError), ("id,index\n1,x\n", FieldError)):
        path.write_text(text)
        with pytest.raises(error):
            write(path, resume=True)
    path.write_bytes(b"id,index\n\xff,0\n")
    with pytest.raises(DataError):
        write(path, resume=True)


_SERVER = """
import os, sys, json
from pathlib import Path
from cdec.data.output import parquet
from cdec.data.output.writer import open_writer
parquet.GROUP_ROWS = 2
def run(path):
    fields = ["id", "index", "text"]
    with open_writer(path, config={"seed": 1}, resume=True, fields=fields) as writer:
        for record_id in range(5):
            for index in writer.finished.missing(record_id, 1):
                writer.write({"id": record_id, "index": index, "text": "x" * 100 * record_id})
run(sys.argv[1])  # once, so that children need not import what this did
print(0, flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.skipif(not can_shim(), reason="no compiler for the preloaded shim")
@pytest.mark.parametrize("name", ["o.parquet", "o.csv", "o.jsonl.zst"])
def test_a_kill_at_every_call_loses_nothing_and_repeats_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, name: str
) -> None:
    # Every other call, and every one of all kinds with --heavy, there twice.
    is_heavy = bool(request.config.getoption("--heavy"))
    (tmp_path / "shop").mkdir()
    shim = Shim(tmp_path / "shop")
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(tmp_path / "shop" / f"warm-{name}")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | shim.environment,
        text=True,
    )

    def run(path: Path, fault: Fault) -> int:
        assert server.stdin is not None
        assert server.stdout is not None
        shim.order(path.parent, fault, logged=False)
        server.stdin.write(json.dumps(str(path)) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        shim.stop()
        return status

    def require_whole(path: Path, place: object) -> None:
        pairs = Counter(str(row["id"]) for row in rows(path))
        assert pairs == Counter({str(i): 1 for i in range(5)}), place
        assert not records_path(path).exists(), place

    assert server.stdout is not None
    server.stdout.readline()
    kills = 0
    for call in CALLS:
        at = 0 if is_heavy else CALLS.index(call) % 2 - 1
        while True:
            at += 1 if is_heavy else 2
            if at == 0:
                continue
            folder = tmp_path / f"{call}-{at}"
            folder.mkdir()
            path = folder / name
            if run(path, Fault(call, at, "kill")) == 0:
                break
            kills += 1
            # Killed once more on the way, then to the end.
            if not is_heavy or run(path, Fault(call, at, "kill")):
                assert run(path, Fault()) == 0, (call, at)
            require_whole(path, (call, at))
            assert not list(folder.glob(".*.partial")), (call, at)
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    server.stdout.close()
    least = 30 if name == "o.parquet" else 10
    assert kills >= (2 * least if is_heavy else least)
