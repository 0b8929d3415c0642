"""Runs command lines in forks of one process that has loaded everything; see ``workshop.py``.

A script: reads ``{"words": .., "folder": .., "cache": .., "streams": .., "seconds": ..}`` a line,
answers ``{"status": ..}`` a line: the exit status, -N for signal N, null where it hung. Models are
tabular (``tests/cli/light.py``), so that no torch is loaded and forks are cheap.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from cdec.cli.app import main
from cdec.cli.runs import draft, models
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.output import parquet
from tests.cli import light
from tools.campaign.commands import WARM_UP, prepare


def use_light_models() -> None:
    """Put tabular models in the place of the embedded ones; read the tokenizer once."""
    models.open_model = lambda options: light.slow_model(0)
    from_tokenizer = functools.cache(Vocabulary.from_tokenizer)
    Vocabulary.from_tokenizer = from_tokenizer  # type: ignore[method-assign]
    draft.Draft._load = lambda self, device: light.slow_model(0)  # type: ignore[method-assign]


def serve() -> None:
    """Answer until the input ends."""
    use_light_models()
    # A run of a few records is to have several row groups.
    parquet.GROUP_ROWS = 3
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        _warm_up(Path(folder), silence)
    answers.write(b'{"ready": true}\n')
    for line in requests:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _be_the_fork(job)
        answers.write(json.dumps({"status": _wait(pid, job["seconds"])}).encode() + b"\n")


def _warm_up(folder: Path, silence: int) -> None:
    """Run every command once: forks inherit what it loaded."""
    before, out, err = os.getcwd(), os.dup(1), os.dup(2)  # noqa: PTH109
    os.environ["CDEC_CACHE_DIR"] = str(folder / "cache")
    os.chdir(prepare(folder))
    os.dup2(silence, 1)
    if "CDEC_CAMPAIGN_DEBUG" not in os.environ:
        os.dup2(silence, 2)
    for words in WARM_UP:
        status = main(list(words))
        Path("out.jsonl").unlink(missing_ok=True)
        if status:
            print(f"warm-up ended with {status}: {' '.join(words)}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(before)
    # What is there stays there: collections in a fork would only copy its pages.
    gc.collect()
    gc.freeze()


def _be_the_fork(job: dict[str, Any]) -> None:
    """Run one command line; never returns."""
    status = 99
    try:
        os.chdir(job["folder"])
        os.environ["CDEC_CACHE_DIR"] = job["cache"]
        for number, name in ((1, "stdout"), (2, "stderr")):
            path = Path(job["streams"]) / name
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(  # noqa: SIM115
            2, "w", encoding="utf-8", errors="backslashreplace", closefd=False
        )
        status = main(job["words"])
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _wait(pid: int, seconds: float) -> int | None:
    """Wait for a fork; end it where it takes longer."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(pause)
        pause = min(pause * 1.3, 0.01)


if __name__ == "__main__":
    serve()
