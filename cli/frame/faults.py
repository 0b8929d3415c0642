"""Too little memory or too few files to begin with: refused before what needs them is loaded."""

from __future__ import annotations

import os
import resource

from cdec.core.errors import LimitError

_ONE_THREAD_BYTES = 4 << 30
_LEAST_FILES = 16
"""Files open at once: of the model, the artifact, the output and a process beside this one."""


def address_space() -> int | None:
    """Return the bytes of address space that this process may take; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_room(least_mib: int) -> None:
    """Refuse to begin under limits that leave the libraries of a command too little.

    subtle: OpenBLAS takes some 30 MiB a thread while it is loaded, and where it gets none it tries
    again without end, as other libraries do that compile or start threads: no signal is answered
    then, and nothing can be caught afterwards. Under a limit it gets one thread.

    Args:
        least_mib: Address space that the command's libraries need, MiB (``ulimit -v``).

    Raises:
        LimitError: The limit is below that, or few files may be opened.
    """
    _require_files()
    limit = address_space()
    if limit is None or limit >= _ONE_THREAD_BYTES:
        return
    if limit < least_mib << 20:
        raise LimitError(
            f"the address space is limited to {limit >> 20} MiB, expected at least {least_mib}",
            hint="raise the limit: ulimit -v",
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _require_files() -> None:
    """Refuse to begin where too few files can be opened.

    Raises:
        LimitError: So it is, by a limit or because others are open.
    """
    opened: list[int] = []
    try:
        while len(opened) < _LEAST_FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise LimitError(
            f"{len(opened)} files can be opened, expected at least {_LEAST_FILES}: "
            f"{error.strerror}",
            hint="raise the limit: ulimit -n",
        ) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)
