"""Command lines typed into this process: how each ends, and all that it says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cdec.cli.app import main

WHOLE = (0, 2, 3, 65, 66, 69, 73, 74, 75)
"""Statuses of runs that ended as they should, and of those that were refused."""


def typed(words: list[str], said: Path, seed: int) -> tuple[int, str]:
    """Run a command line; return its status, and stdout and stderr together.

    Raises:
        AssertionError: It ended by an error of the program's own.
    """
    before = [(number, os.dup(number)) for number in (1, 2)]
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    stdout, stderr = sys.stdout, sys.stderr
    try:
        with (
            os.fdopen(1, "w", closefd=False) as sys.stdout,
            os.fdopen(2, "w", closefd=False) as (sys.stderr),
        ):
            status = main(words)
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        for number, kept in before:
            os.dup2(kept, number)
            os.close(kept)
    text = said.read_text(errors="replace")
    assert status in WHOLE and "Traceback" not in text and "E_INTERNAL" not in text, (
        seed,
        words,
        status,
        text[-1500:],
    )
    return status, text
