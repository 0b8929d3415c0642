"""Runs the shell and Python blocks of a page in a folder of their own, ``cdec`` on the path."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
_CLIENT = """#!{python} -SEs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect({path!r})
    asked = dict(words=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
    socket.send_fds(s, [json.dumps(asked).encode()], [0, 1, 2])
    sys.exit(int(s.recv(16) or b"70"))
"""
_TIMEOUT_S = 300


class Shell:
    """A server of ``cdec``, for the time of a context.

    Args:
        folder: Made anew; holds the socket and the ``cdec`` that the path leads to.
    """

    def __init__(self, folder: Path) -> None:
        self._bin = folder
        self._socket = folder / "socket"

    def __enter__(self) -> Shell:
        self._bin.mkdir()
        client = self._bin / "cdec"
        client.write_text(_CLIENT.format(python=sys.executable, path=str(self._socket)))
        client.chmod(0o755)
        words = [sys.executable, "-m", "tests.docs.server", str(self._socket)]
        # subtle: a fork of a process with threads of its own may wait for one that is not there.
        single = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._server = subprocess.Popen(
            words, cwd=ROOT, env=self._environment() | single, stdout=subprocess.DEVNULL
        )
        while not self._socket.exists() and self._server.poll() is None:
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.terminate()
        self._server.wait()

    def run(self, command: str, folder: Path) -> list[str]:
        """Return the lines that a command prints, to stdout and stderr together."""
        return _lines(self._result(["bash", "-o", "pipefail", "-c", command], folder, True).stdout)

    def run_python(self, script: str, folder: Path) -> list[str]:
        """Return the lines that a Python script prints to stdout; if it fails, to stderr."""
        result = self._result([sys.executable, "-c", script], folder, False)
        return _lines(result.stderr if result.returncode else result.stdout)

    def _result(
        self, words: list[str], folder: Path, together: bool
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
            timeout=_TIMEOUT_S,
            text=True,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CDEC_", "COV_"))}
        path = f"{self._bin}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        said = {"PATH": path, "NO_COLOR": "1", "COLUMNS": "80", "HF_HUB_OFFLINE": "1"}
        return kept | said | {"PYTHONUTF8": "1", "LC_ALL": "C.UTF-8", "CDEC_SHARED": "/nowhere"}


def _lines(printed: str) -> list[str]:
    return printed.rstrip("\n").split("\n") if printed.strip("\n") else []
