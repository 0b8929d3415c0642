"""Too little memory to begin with: refused before what needs it is loaded."""

from __future__ import annotations

import os
import resource

from cdec.core.errors import LimitError

LEAST_BYTES = 256 << 20
"""Below this the linear algebra that numpy loads asks the system for memory without end."""
_ONE_THREAD_BYTES = 4 << 30


def address_space() -> int | None:
    """Return the bytes of address space that this process may take; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_address_space() -> None:
    """Refuse to load numpy where a limit (``ulimit -v``) leaves it too little.

    subtle: OpenBLAS takes some 30 MiB a thread while it is loaded, and where it gets none it tries
    again without end, so nothing can be caught afterwards. Under a limit it gets one thread.

    Raises:
        LimitError: The limit is below what numpy needs with one thread.
    """
    limit = address_space()
    if limit is None or limit >= _ONE_THREAD_BYTES:
        return
    if limit < LEAST_BYTES:
        raise LimitError(
            f"the address space is limited to {limit >> 20} MiB, "
            f"expected at least {LEAST_BYTES >> 20}",
            hint="raise the limit: ulimit -v",
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
