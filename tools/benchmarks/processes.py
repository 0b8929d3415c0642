"""Measuring in processes of their own: fresh ones, the memory of one, and several side by side."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[2]


def in_child(
    module: str, *arguments: object, timeout: float | None = None, **environment: str
) -> Any:
    """Run a module of the tests in a fresh process, from any folder; return the JSON it prints.

    Args:
        module: Dotted name. arguments: of its command line.
        timeout: Seconds; None for none.
        environment: Variables beside those of this process.

    Returns:
        What the last line of its standard output holds.

    Raises:
        subprocess.SubprocessError: It failed, or took longer.
    """
    path = os.pathsep.join(filter(None, (str(_REPOSITORY), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | {"PYTHONPATH": path} | environment,
    )
    return json.loads(done.stdout.splitlines()[-1])


def side_by_side(
    function: Callable[..., Any],
    *columns: Iterable[Any],
    workers: int,
    initializer: Callable[[], None] | None = None,
) -> list[Any]:
    """Return ``map(function, *columns)`` from processes of their own; for what is not timed."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=initializer) as pool:
        return list(pool.map(function, *columns))


def peak_bytes() -> int:
    """Return the most memory that this process held since its program began.

    subtle: ``ru_maxrss`` of a child starts with what its parent held when it was begun.
    """
    return _status("VmHWM")


def resident_bytes() -> int:
    """Return the memory that this process holds."""
    return _status("VmRSS")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {name}: memory is measured on Linux")
    return 1024 * int(found[1])


if __name__ == "__main__":
    print(peak_bytes())
