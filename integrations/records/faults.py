"""Errors that nobody raised on purpose, as ones with a code; objects in failed records' places."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdec.core.errors import (
    CdecError,
    LimitError,
    OutputError,
)

if TYPE_CHECKING:
    pass


_CAUSES = 16
"""Most causes of causes that are looked at."""


_MEMORY = re.compile(
    r"failed to map segment|can(no|')t allocate memory|not enough memory|out of memory|bad_alloc"
    r"|can't start new thread|unable to mmap",
    re.IGNORECASE,
)
"""How loaders and native libraries say that there is no memory left."""


_NATIVE = (ImportError, OSError, RuntimeError, SystemError)
"""Errors in which they say so."""


def as_cdec_error(error: BaseException) -> CdecError:
    """Return what is to be said of an error; a ``CdecError`` is itself, unless memory was short."""
    if not isinstance(error, LimitError) and is_out_of_memory(error):
        return LimitError(
            "memory is used up",
            # Without backquotes: to spell parameters as they are typed takes memory, too.
            hint="use a smaller batch-size, n, K or branch; memory-limit when compiling",
        )
    if isinstance(error, CdecError):
        return error
    if isinstance(error, OSError):
        return OutputError(
            f"input or output failed: {error.strerror or error}",
            hint="look at the space and the permissions of the files named",
        )
    return CdecError(
        f"unexpected {type(error).__name__}: {error}",
        hint="this is a fault of cdec: run again with `debug` and report the traceback",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error, or what it comes from, says that there is no memory left."""
    return any(
        isinstance(cause, MemoryError)
        or type(cause).__name__ == "OutOfMemoryError"
        or (isinstance(cause, OSError) and cause.errno == errno.ENOMEM)
        or (isinstance(cause, _NATIVE) and _MEMORY.search(str(cause)) is not None)
        for cause in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; for one that nobody raised on purpose also what it hides."""
    current: BaseException | None = error
    for _ in range(_CAUSES):
        if current is None:
            return
        yield current
        hidden = None if isinstance(current, CdecError) else current.__context__
        current = current.__cause__ or hidden


def error_object(error: CdecError, record_id: object) -> dict[str, object]:
    """Return the object that stands in a failed record's place."""
    return {"id": record_id, "error": error.to_json()}
