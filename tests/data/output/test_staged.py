"""Staged outputs: kills, terminals."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cdec.core.errors import CdecError, DataError, FieldError, LockedError, OutputExistsError
from cdec.data.output.compress import plain_chunks
from cdec.data.output.terminal import escape_json
from cdec.data.output.writer import RecordWriter, open_writer, records_path
from tools.campaign.shim import CALLS, Fault, Shim, can_shim

# --- Outputs that stand in parts while a run goes on: a kill anywhere loses nothing.

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


@pytest.mark.share(1)
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


# --- A run killed at any moment is resumed without a lost record and without a double one.

KILLS = 100
KILLED_RECORDS = 200
DRAWS = 3
KILLED_CONFIG = {"seed": 0}


def one_run(path: Path) -> None:
    """Write all draws that are missing, as ``cdec sample --resume`` does."""
    with open_writer(path, config=KILLED_CONFIG, resume=True) as writer:
        for record_id in range(KILLED_RECORDS):
            for index in writer.finished.missing(record_id, DRAWS):
                # Long records of wide characters: a kill can fall within one.
                text = "東" * (record_id % 7) * 3000
                writer.write({"id": record_id, "index": index, "text": text})


def run_in_child(path: Path, seconds: float | None) -> bool:
    """Fork a run; kill it after ``seconds``. Returns whether it ended by itself, well."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            one_run(path)
            status = 0
        except CdecError as error:
            os.write(2, f"{error.code} {error.message}\n".encode())
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


@pytest.mark.slow
def test_killed_runs_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    killed = 0
    for attempt in range(KILLS):
        path = tmp_path / f"{attempt % 10}.jsonl"
        killed += not run_in_child(path, float(rng.uniform(0.0, 0.02)))
    assert killed >= KILLS // 2
    for number in range(10):
        path = tmp_path / f"{number}.jsonl"
        assert run_in_child(path, None)
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        pairs = Counter((record["id"], record["index"]) for record in records)
        assert pairs == Counter({(i, k): 1 for i in range(KILLED_RECORDS) for k in range(DRAWS)})
    assert not list(tmp_path.glob("*.partial"))


# --- JSON on a terminal: the same values, and no character that moves or hides what is shown.

TEXT = "a\x7f\x9b31m\u202eb\u2028c\U000e0001\ufeff \u00e9\u4e2d"


class Stream(io.BytesIO):
    """A stream that may be a terminal."""

    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


class Terminal(Stream):
    is_terminal = True


def test_escaped_json_means_the_same() -> None:
    written = json.dumps({"text": TEXT}, ensure_ascii=False) + "\n"
    shown = escape_json(written)
    assert json.loads(shown) == {"text": TEXT}
    assert not set("\x7f\x9b\u202e\u2028\U000e0001\ufeff") & set(shown)
    assert "\u00e9\u4e2d" in shown
    assert shown.endswith("}\n")


def test_a_terminal_gets_escapes_and_a_pipe_the_characters() -> None:
    shown = {}
    for kind in (Stream, Terminal):
        stream = kind()
        RecordWriter(stream, "stdout").write({"text": TEXT})
        shown[kind] = stream.getvalue().decode()
        assert json.loads(shown[kind]) == {"text": TEXT}
    assert "\x9b" in shown[Stream]
    assert "\u202e" in shown[Stream]
    assert "\x9b" not in shown[Terminal]
    assert "\u202e" not in shown[Terminal]
