"""A higher recursion limit while the standard library parses a deeply nested pattern."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES_A_LEVEL = 4
_lock = threading.Lock()


@contextmanager
def deep_calls(levels: int) -> Iterator[None]:
    """Allow ``levels`` more nested calls of a parser while the block runs.

    Calls between Python functions need no stack of the C language, so a higher limit is safe; the
    input's nesting is bounded before.

    Args:
        levels: Bracket levels the parser may meet.
    """
    with _lock:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + _FRAMES_A_LEVEL * levels)
        try:
            yield
        finally:
            sys.setrecursionlimit(before)
