"""A higher recursion limit while what is deeply nested is parsed, or compiled."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES_A_LEVEL = 4
"""Calls that a level of brackets takes where a pattern is parsed."""
_MOST = 1 << 24
_lock = threading.Lock()


@contextmanager
def deep_calls(levels: int, frames: int = FRAMES_A_LEVEL) -> Iterator[None]:
    """Allow ``levels`` more nested levels of calls while the block runs.

    Calls between Python functions need next to no stack of the C language, so a higher limit is
    safe; the input's nesting is bounded before. Blocks may stand within each other, and run in
    several threads.

    Args:
        levels: Levels of brackets that may be met.
        frames: Calls that each takes.
    """
    calls = min(levels * frames, _MOST)
    _raise_limit(calls)
    try:
        yield
    finally:
        _raise_limit(-calls)


def _raise_limit(calls: int) -> None:
    with _lock:
        sys.setrecursionlimit(sys.getrecursionlimit() + calls)
