"""Guarded arrays: placed against pages that cannot be touched: a read outside is a fault."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
_MOST = 1 << 20
"""Bytes that one array may have."""
_NONE, _READ, _WRITE = 0, 1, 2
_PRIVATE_ANONYMOUS = 0x22
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guard:
    """Places columns between two pages that cannot be touched; each call takes the last one's room.

    What an earlier call placed must not be used after a later one.
    """

    def __init__(self) -> None:
        self._rooms: dict[str, int] = {}

    def place(self, arrays: Mapping[str, NDArray[Any]], *, at_end: bool) -> dict[str, NDArray[Any]]:
        """Copy arrays so that each ends before, or begins after, a page that cannot be touched."""
        return {name: self._placed(name, array, at_end) for name, array in arrays.items()}

    def _placed(self, name: str, array: NDArray[Any], at_end: bool) -> NDArray[Any]:
        room, size = self._room(name), array.nbytes
        if size > _MOST:
            raise ValueError(f"{name} has {size} bytes, more than {_MOST}")
        address = room + (_MOST - size if at_end else 0)
        # subtle: a buffer of no bytes has no address of its own; one element before the page has.
        held = max(size, array.itemsize)
        start = room + _MOST - held if at_end else room
        buffer = (ctypes.c_char * held).from_address(start)
        whole: NDArray[Any] = np.frombuffer(buffer, array.dtype)
        if size:
            assert whole.ctypes.data == address
            whole[:] = array
            placed = whole
        else:
            placed = whole[1:] if at_end else whole[:0]
        placed.flags.writeable = False
        return placed

    def _room(self, name: str) -> int:
        """Return where a column's room begins, right after a page that cannot be touched."""
        if name not in self._rooms:
            size = _MOST + 2 * PAGE
            start = _libc.mmap(None, size, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
            if start in (None, ctypes.c_void_p(-1).value):
                raise MemoryError("no room for guarded arrays")
            for page in (start, start + PAGE + _MOST):
                if _libc.mprotect(page, PAGE, _NONE):
                    raise OSError(ctypes.get_errno(), "mprotect")
            self._rooms[name] = start + PAGE
        return self._rooms[name]
