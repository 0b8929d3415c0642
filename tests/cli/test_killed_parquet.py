"""Whole runs that write Parquet, killed in the middle: what --resume makes of what is left."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyarrow.parquet import ParquetFile

from tests.laws.sizes import heavy_or

from . import light
from .conftest import Runner

RECORDS = heavy_or(30, 300)
KILLS = heavy_or(1, 40)
GROUP = 7
NAMES = ("id", "index", "text", "seed", "logprob")
CODE = f"""
import runpy, sys
from cdec.data.output import parquet
parquet.GROUP_ROWS = {GROUP}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs ``light.py`` with row groups that a short run fills."""


def _start(folder: Path, *more: str, seconds: float = 0.02) -> subprocess.Popen[bytes]:
    words = ["sample", "-a", "letters.arrow", "-i", "p.jsonl", "--batch-size", "2", "-n", "2"]
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(Path(light.__file__)), str(seconds), *words, *more],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _rows(place: Path) -> list[Any]:
    rows = ParquetFile(place).read(use_threads=False).to_pylist()
    return [[str(row[name]) for name in NAMES] for row in rows]


def _groups(folder: Path) -> list[Path]:
    return sorted(folder.glob("out.parquet.parts/[0-9]*.parquet"))


def test_a_killed_run_is_gone_on_with_without_loss_or_repetition(
    cdec: Runner, letters: Path, tmp_path: Path
) -> None:
    lines = (json.dumps({"id": f"r{i}", "prompt": f"p{i}"}) + "\n" for i in range(RECORDS))
    (tmp_path / "p.jsonl").write_text("".join(lines))
    output, rng, killed = tmp_path / "out.parquet", random.Random(3), 0
    parts = tmp_path / "out.parquet.parts"
    for attempt in range(KILLS):
        resume = ["--resume"] if attempt else []
        before = {path.name: path.stat().st_ino for path in _groups(tmp_path)}
        running = _start(tmp_path, "-o", output.name, *resume)
        # In the middle of what is written: once there is a group more, or a bit later.
        deadline = time.monotonic() + 60
        while running.poll() is None and len(_groups(tmp_path)) <= len(before):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.03))
        running.kill()
        running.communicate(timeout=20)
        killed += running.returncode == -9
        if output.exists():
            break
        # Groups that stood there stand, each a file that any program reads.
        after = {path.name: path.stat().st_ino for path in _groups(tmp_path)}
        assert after.items() >= before.items()
        assert all(len(_rows(path)) == GROUP for path in _groups(tmp_path))
    assert killed >= 1
    final = _start(tmp_path, "-o", output.name, "--resume", seconds=0)
    _, stderr = final.communicate(timeout=120)
    assert final.returncode == 0, stderr
    assert not parts.exists()
    words = ("-i", tmp_path / "p.jsonl", "--batch-size", "2", "-n", "2")
    whole = cdec("sample", "-a", letters, *words).records
    assert _rows(output) == [[str(record[name]) for name in NAMES] for record in whole]
    assert len(whole) == 2 * RECORDS
