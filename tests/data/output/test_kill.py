"""A run killed at any moment is resumed without a lost record and without a double one."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np

from cdec.core.errors import CdecError
from cdec.data.output.writer import open_writer

KILLS = 100
RECORDS = 200
DRAWS = 3
CONFIG = {"seed": 0}


def one_run(path: Path) -> None:
    """Write all draws that are missing, as ``cdec sample --resume`` does."""
    with open_writer(path, config=CONFIG, resume=True) as writer:
        for record_id in range(RECORDS):
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
        assert pairs == Counter({(i, k): 1 for i in range(RECORDS) for k in range(DRAWS)})
    assert not list(tmp_path.glob("*.partial"))
