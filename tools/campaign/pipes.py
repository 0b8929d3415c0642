"""Records over a pipe by a writer who waits for each answer, at batches of every size."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from cdec.cli.app import main
from tests.cli import light
from tools.campaign.attack import Try
from tools.campaign.records import REFUSED, record
from tools.campaign.server import use_light_models

_PATIENCE_S = 30.0


def open_pipes(folder: Path) -> Try:
    """Return what writes good and bad records to a pipe, each after the answer to the last."""
    use_light_models()
    light.compile_letters(folder / "letters.arrow")
    os.chdir(folder)
    words = ["sample", "-a", "letters.arrow", "--quiet", "--method", "masked"]
    words += ["--max-new-tokens", "5", "--max-n", "50"]

    def converse(seed: int) -> dict[str, int]:
        rng = np.random.default_rng(seed)
        size = str(rng.choice([1, 2, 3, 16]))
        lines = [record(rng, i, compiled=False) for i in range(int(rng.integers(2, 6)))]
        # Equal ids would refuse the input, blank lines are answered by nobody.
        lines = [
            line for line in lines if line.strip() and b'"id"' not in line.replace(b'"id": "r', b"")
        ]
        out = Path("stdout")
        answered, failures = _run([*words, "--batch-size", size], lines, out)
        assert not failures, (seed, size, failures)
        return {"answered": answered}

    return converse


def _run(words: list[str], lines: list[bytes], out: Path) -> tuple[int, list[str]]:
    """Run a command line on a pipe; return how many records were answered, and what went wrong."""
    reading, writing = os.pipe()
    failures: list[str] = []
    refused = threading.Event()
    out.write_bytes(b"")

    def write() -> None:
        # A run that refuses its input reads no more of it.
        with suppress(BrokenPipeError), os.fdopen(writing, "wb", buffering=0) as pipe:
            for number, line in enumerate(lines, 1):
                pipe.write(line + b"\n")
                deadline = time.monotonic() + _PATIENCE_S
                while len(_ids(out)) < number and not refused.is_set():
                    if time.monotonic() > deadline:
                        failures.append(f"no answer to {line[:200]!r}")
                        return
                    time.sleep(0.002)

    kept = os.dup(0)
    os.dup2(reading, 0)
    os.close(reading)
    writer = threading.Thread(target=write)
    stdin, stdout = sys.stdin, sys.stdout
    try:
        with out.open("w", buffering=1, encoding="utf-8") as sys.stdout:
            sys.stdin = os.fdopen(0, "r", closefd=False)
            writer.start()
            # An input that is refused as a whole, as UTF-16 is, answers nobody.
            if main(words) in REFUSED:
                failures.clear()
                refused.set()
    finally:
        sys.stdin, sys.stdout = stdin, stdout
        os.dup2(kept, 0)
        os.close(kept)
        writer.join(_PATIENCE_S)
    return len(_ids(out)), failures


def _ids(out: Path) -> set[str]:
    """Return the ids of the records that are answered."""
    whole = out.read_bytes().rpartition(b"\n")[0].splitlines()
    return {json.dumps(json.loads(line)["id"]) for line in whole}
