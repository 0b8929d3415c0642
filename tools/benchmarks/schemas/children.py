"""An engine in a process of its own, begun again behind a schema that ends it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[3]
_START_S = 600


class Replay:
    """One run of ``replay``: lines as they come.

    Args:
        engine: As there.
        tokenizer: As there.
        words: Its further arguments.
    """

    def __init__(self, engine: str, tokenizer: str, *words: object) -> None:
        self._child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tools.benchmarks.schemas.replay",
                engine,
                tokenizer,
                *map(str, words),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(_REPOSITORY)},
        )
        assert self._child.stdout is not None
        self._out = self._child.stdout.fileno()
        self._read = b""

    def line(self, seconds: float) -> dict[str, Any] | None:
        """Return the next line; None where the process ended.

        Raises:
            TimeoutError: None came in time.
        """
        end = time.monotonic() + seconds
        while b"\n" not in self._read:
            if not select.select([self._out], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError
            piece = os.read(self._out, 1 << 20)
            if not piece:
                return None
            self._read += piece
        line, self._read = self._read.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> int:
        """End the process; return its status."""
        self._child.kill()
        assert self._child.stdout is not None
        self._child.stdout.close()
        return self._child.wait()


def replayed(
    engine: str, tokenizer: str, schemas: int, *words: object, seconds: float = 60
) -> Iterator[dict[str, Any]]:
    """Yield what became of each schema in turn; ``failed`` where one ended the process.

    Args:
        engine: Name of one.
        tokenizer: Of the shared harness.
        schemas: Number of them.
        words: Further arguments of ``replay``.
        seconds: By the clock, for compiling one schema and replaying its instances.
    """
    number = 0
    while number < schemas:
        run = Replay(engine, tokenizer, "--first", number, "--schemas", schemas - number, *words)
        is_ready = False
        try:
            if run.line(_START_S) is None:
                raise RuntimeError(f"{engine} does not start")
            is_ready = True
            while number < schemas:
                found = run.line(seconds)
                if found is None:
                    yield {"number": number, "failed": f"the process ended with {run.end()}"}
                    number += 1
                    break
                yield found
                number += 1
        except TimeoutError:
            if not is_ready:
                raise
            yield {"number": number, "failed": f"no end within {seconds:g} s"}
            number += 1
        finally:
            run.end()
