"""Records of a pipe as they arrive: what tells that none comes for now."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from cdec.data.input.arrivals import Arrivals, never

ItemT = TypeVar("ItemT")


def arriving(
    records: Iterator[ItemT], source: str | None, idle_ms: int, size: int
) -> tuple[Iterator[ItemT], Callable[[], bool]]:
    """Return records so that one can tell when none comes for now, and what tells it.

    Args:
        records: Of the input, read from now on.
        source: Where they come from; None for no stream.
        idle_ms: Milliseconds without a record after which none comes for now.
        size: Of a full batch; one record is never waited for.
    """
    if source is None or size == 1 or not _is_awaited(source):
        return records, never
    arrivals = Arrivals(records, idle_ms / 1000, ahead=size)
    return arrivals, arrivals.is_idle


def _is_awaited(source: str) -> bool:
    """Whether somebody writes the input while it is read: a pipe, a socket, a device."""
    try:
        mode = (os.fstat(0) if source == "-" else Path(source).stat()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
