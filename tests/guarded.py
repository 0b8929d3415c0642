"""Arrays that end (or begin) at memory nobody may touch, and work that may die of touching it.

A kernel that reads or writes one element too far is ended by SIGSEGV, where it would otherwise
only see what happens to lie there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0


def guarded(array: NDArray[Any], *, at_end: bool = True) -> NDArray[Any]:
    """Return a read-only copy of an array with a page that nobody may touch behind it.

    Args:
        array: One-dimensional.
        at_end: Else the page lies before it.
    """
    flat = np.ascontiguousarray(array)
    pages = -(-flat.nbytes // _PAGE)
    memory = mmap.mmap(-1, (pages + 1) * _PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    wall = base + pages * _PAGE if at_end else base
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(wall), _PAGE, _NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect")
    start = pages * _PAGE - flat.nbytes if at_end else _PAGE
    copy = np.frombuffer(memory, flat.dtype, len(flat), start) if len(flat) else flat.copy()
    copy[:] = flat
    copy.flags.writeable = False
    return copy


def faults(work: Callable[[int], None], count: int, seconds: int = 20) -> dict[int, str]:
    """Do pieces of work in processes of their own; return which were ended by a signal, and which.

    Args:
        work: Takes the number of the piece; what it raises ends the whole.
        count: How many there are.
        seconds: What one piece may take before SIGALRM ends it.

    Raises:
        AssertionError: A piece of work raised; its traceback is on stderr.
    """
    reached = mmap.mmap(-1, 8)
    dead: dict[int, str] = {}
    first = 0
    while first < count:
        child = os.fork()
        if child == 0:
            _do(work, range(first, count), reached, seconds)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        at = int.from_bytes(reached[:], "little")
        assert ended <= 0, f"piece {at} raised"
        if ended == 0:
            break
        dead[at] = signal.Signals(-ended).name
        first = at + 1
    return dead


def _do(work: Callable[[int], None], numbers: range, reached: mmap.mmap, seconds: int) -> None:
    """Do the work in this process, note how far it is, and end the process."""
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number in numbers:
            reached[:] = number.to_bytes(8, "little")
            signal.alarm(seconds)
            work(number)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
