"""Starts under limits of memory and files: a code and a hint within seconds, or the work done."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

from tools.campaign.attack import Try
from tools.campaign.commands import prepare
from tools.campaign.typed import WHOLE

_WORDS = (
    ("compile-set", "names.txt", "-o", "o.arrow", "--force"), ("methods",), ("--help",),
    ("inspect", "letters.arrow"), ("check", "letters.arrow", "-i", "names.txt"),
    ("compile-regex", "a+", "-o", "r.arrow", "--force"), ("sample", "-a", "letters.arrow"),
)  # fmt: skip
_START = "import sys\nfrom cdec.cli.app import main\nsys.exit(main(sys.argv[1:]))"
_LEAST_FILES = 8
"""Below it Python itself does not start."""
_SECONDS = 240.0


def open_starts(folder: Path) -> Try:
    """Return what starts a command line under limits drawn at random."""
    work = prepare(folder)

    def start(seed: int) -> str:
        rng = np.random.default_rng(seed)
        words = _WORDS[int(rng.integers(len(_WORDS)))]
        # A model takes its libraries tens of seconds: only where there is no room for them.
        most = 2000 if words[0] == "sample" else 4000
        room = int(rng.integers(100, most)) << 20 if rng.random() < 0.7 else None
        files = int(rng.integers(_LEAST_FILES, 40)) if room is None or rng.random() < 0.2 else None

        def limit() -> None:
            if room is not None:
                resource.setrlimit(resource.RLIMIT_AS, (room, room))
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        done = subprocess.run(
            [sys.executable, "-c", _START, *words],
            cwd=work,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            preexec_fn=limit,
            timeout=_SECONDS,
            check=False,
        )
        said = done.stderr.decode(errors="replace")
        told = (seed, words, room and room >> 20, files, done.returncode, said[-1500:])
        assert done.returncode in WHOLE and "Traceback" not in said, told
        assert "E_INTERNAL" not in said, told
        if done.returncode:
            return f"{words[0]}: {said.partition('error ')[2].split(':')[0]}"
        return f"{words[0]}: done"

    return start
