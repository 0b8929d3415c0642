"""What a child process puts on itself: other standard streams, limits, its end with its parent."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from pathlib import Path

_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def claim_pipes() -> tuple[int, int]:
    """Return descriptors for requests and answers; what else would print goes to stderr."""
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    return requests, answers


def limit_memory(megabytes: int) -> None:
    """Bound the memory above what the process has now, where the system says what that is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _return_memory()
    size = _address_space()
    if size:
        most = size + (megabytes << 20)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        # What the user's own limit leaves is not made more.
        bounds = [most, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))


def limit_time(seconds: int) -> None:
    """Bound the processor time of the process from its beginning.

    What the user's own limit leaves is not made more.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = seconds + 1 if hard == resource.RLIM_INFINITY else min(seconds + 1, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, most), most))


def end_with_parent() -> None:
    """Ask the system to end this process with the thread that made it, where it can be asked."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def _return_memory() -> None:
    """Give freed memory back to the system, where it can be: the limit counts what is mapped."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _address_space() -> int:
    """Return the bytes of address space in use; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()
