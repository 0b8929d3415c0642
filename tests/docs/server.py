"""A process that has imported all that ``cdec`` needs, and forks for each command.

A page has dozens of commands; starting each anew would spend minutes on imports. What runs is
``cdec.cli.app.main`` with the caller's words, files, folder and environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path

_IMPORTED = (
    "torch",
    "transformers",
    "transformers.models.llama.modeling_llama",
    "cdec.cli.app",
    "cdec.cli.runs.sample",
    "cdec.cli.mass",
    "cdec.cli.score",
    "cdec.core.artifacts.opened",
    "cdec.core.models.loading",
    "cdec.compilers.sets.compile",
    "cdec.samplers.exact",
    "cdec.samplers.topn",
)


_WARMING = (
    ["compile-set", "-", "-o", "w.arrow"],
    ["sample", "-a", "w.arrow", "--prompt", "x", "--method", "exact"],
    ["compile-grammar", "json", "-o", "j.arrow"],
    ["sample", "-a", "j.arrow", "--prompt", "x", "--method", "greedy", "--max-new-tokens", "4"],
)
"""Commands that are run before any other, so that kernels are loaded and models imported."""


def _warm() -> None:
    from cdec.cli.app import main

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        entities = Path("w.txt")
        entities.write_text("yes\nno\n")
        stdin = os.open(entities, os.O_RDONLY)
        os.dup2(stdin, 0)
        for words in _WARMING:
            main([*words, "--quiet"])


def _serve(path: str) -> None:
    for module in _IMPORTED:
        import_module(module)
    _warm()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            with connection:
                data, fds, _, _ = socket.recv_fds(connection, 1 << 20, 3)
                if os.fork() == 0:
                    listening.close()
                    _answer(connection, json.loads(data), fds)
                for fd in fds:
                    os.close(fd)
            _reap()


def _answer(connection: socket.socket, asked: dict[str, object], fds: list[int]) -> None:
    from cdec.cli.app import main

    status = 70
    try:
        for place, fd in enumerate(fds):
            os.dup2(fd, place)
            os.close(fd)
        # subtle: the server's own streams may remember that they were files, which can seek.
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.chdir(str(asked["folder"]))
        os.environ.clear()
        os.environ.update(asked["environment"])  # type: ignore[call-overload]
        words = asked["words"]
        sys.argv = ["cdec", *words]  # type: ignore[misc]
        status = main(words)  # type: ignore[arg-type]
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        with contextlib.suppress(OSError):
            connection.sendall(str(status).encode())
        os._exit(0)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


if __name__ == "__main__":
    _serve(sys.argv[1])
