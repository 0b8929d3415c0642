"""Outputs that may be none: URLs, and the files that a run reads."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from cdec.core.errors import CdecError, UsageError


def refuse_url(path: str | Path) -> None:
    """Refuse an output that is a URL.

    Raises:
        UsageError: It is one.
    """
    # A path has lost one of the slashes.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)) and not Path(path).parent.exists():
        raise UsageError(
            f"{path} is a URL; records are written to a file, which can be continued",
            hint="write to a file and copy it when it is finished; workers write part files there "
            "(`engine` ray)",
        )


def refuse_input(path: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output that is one of the files a run reads.

    Raises:
        UsageError: It is.
    """
    try:
        status = path.stat()
    except OSError:
        return  # not there, so no input; what else is wrong shows when it is opened
    if stat.S_ISREG(status.st_mode):
        for name in inputs:
            if is_same(status, name):
                raise input_error(str(path), name)


def is_same(output: os.stat_result, name: str | Path) -> bool:
    """Say whether an input is the file of a status; ``-`` is stdin."""
    try:
        status = os.fstat(sys.stdin.fileno()) if str(name) == "-" else Path(name).stat()
    except (OSError, ValueError):
        return False
    return os.path.samestat(output, status)


def input_error(output: str, name: str | Path) -> CdecError:
    """Return the error of an output that is an input."""
    shown = "stdin" if str(name) == "-" else name
    return UsageError(
        f"{output} would be the output and is the input {shown}",
        hint="name another file with `path`",
    )
