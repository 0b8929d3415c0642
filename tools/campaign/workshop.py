"""Workshop: command lines run by the hundred, each in a fork of one warm, watched process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tools.campaign.shim import NO_FAULT, Fault, Shim

if TYPE_CHECKING:
    from typing import Self

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 300
"""After which a command line counts as hanging; the first one may have kernels to compile."""


@dataclass(frozen=True)
class Ended:
    """What became of a command line; a status of None: it hung."""

    status: int | None
    stdout: bytes
    stderr: str


class Workshop:
    """A server (``server.py``) under a shim. A context manager.

    Args:
        folder: Of its own, outside the folders in which command lines run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shim = Shim(folder)
        own = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tools.campaign.server"],
            cwd=REPOSITORY,
            env=os.environ | own | self.shim.environment | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self, words: tuple[str, ...], folder: Path, fault: Fault = NO_FAULT, *, logged: bool = False
    ) -> Ended:
        """Run one command line in a folder, watched, with one broken call."""
        self.shim.order(folder, fault, logged=logged or fault.at > 0)
        job = {
            "words": words,
            "folder": str(folder),
            "cache": str(folder / "cache"),
            "streams": str(self.folder),
            "seconds": SECONDS,
        }
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(job).encode() + b"\n")
        self._server.stdin.flush()
        status = self._answer()["status"]
        self.shim.stop()
        stderr = (self.folder / "stderr").read_text(errors="replace")
        return Ended(status, (self.folder / "stdout").read_bytes(), stderr)

    def close(self) -> None:
        """End the server."""
        if self._server.stdin is not None:
            self._server.stdin.close()
        self._server.wait(SECONDS)
        if self._server.stdout is not None:
            self._server.stdout.close()

    def _answer(self) -> Any:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError("the server of the campaign ended")
        return json.loads(line)
