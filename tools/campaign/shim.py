"""The preloaded shim: compiling it, ordering a fault, reading what was called (see ``shim.c``)."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CALLS = ("write", "fsync", "rename", "link", "open", "unlink", "ftruncate")
"""The calls that can be broken, as ``shim.c`` numbers them."""
DEEDS = ("fail", "short", "kill")
ERRORS = {
    "write": errno.ENOSPC,
    "fsync": errno.EIO,
    "rename": errno.EACCES,
    "link": errno.EPERM,
    "open": errno.EMFILE,
    "unlink": errno.EACCES,
    "ftruncate": errno.EIO,
}
"""What each call fails with: what systems answer where disks fill up, break or are not ours."""
_SIZE = 16384
_HEAD = struct.Struct("<8I")
_COUNTS = struct.Struct("<8I")
_TEXT = 4096


@dataclass(frozen=True)
class Fault:
    """One broken call.

    Attributes:
        call: Which kind of call, of ``CALLS``.
        at: Which of them, from 1; 0 breaks none.
        deed: It fails, is cut short (writes alone), or the process is killed before it.
        lasts: All later ones are broken as well.
    """

    call: str = "write"
    at: int = 0
    deed: str = "fail"
    lasts: bool = False

    def __str__(self) -> str:
        return f"{self.deed} {self.call} {self.at}{' and all later' if self.lasts else ''}"


NO_FAULT = Fault()


@dataclass(frozen=True)
class Note:
    """One call that was made in the watched folder, in the order of all processes.

    Attributes:
        call: Of ``CALLS``.
        how: ``done``, ``made`` or ``emptied`` (open), ``broken``.
        inode: Of the file; 0 where names alone are changed.
        offset: Where bytes were written; the new size of ``ftruncate``.
        path: The file; the old name of ``rename`` and ``link``.
        other: Their new name.
        data: What was written.
    """

    call: str
    how: str
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


class Shim:
    """A compiled shim and the file through which processes are told what to break.

    Args:
        folder: Of its own, outside the folders that are watched.
    """

    def __init__(self, folder: Path) -> None:
        self.library = folder / "shim.so"
        self.log = folder / "calls.log"
        self._orders = folder / "orders"
        source = Path(__file__).with_name("shim.c")
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([_compiler(), *flags, "-o", str(self.library), str(source)], check=True)
        self._orders.write_bytes(bytes(_SIZE))
        with self._orders.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be watched, and its children with it."""
        return {"LD_PRELOAD": str(self.library), "CDEC_SHIM": str(self._orders)}

    def order(self, folder: Path, fault: Fault = NO_FAULT, *, logged: bool = True) -> None:
        """Watch a folder from now on, counts at 0, and break what ``fault`` says."""
        self.stop()
        self.log.write_bytes(b"")
        self._text(_HEAD.size + _COUNTS.size, os.fspath(folder.resolve()))
        self._text(_HEAD.size + _COUNTS.size + _TEXT, str(self.log) if logged else "")
        call, deed = CALLS.index(fault.call), DEEDS.index(fault.deed)
        head = (1, call, fault.at, fault.lasts, deed, ERRORS[fault.call], 0, 0)
        self._map[: _HEAD.size + _COUNTS.size] = _HEAD.pack(*head) + _COUNTS.pack(*[0] * 8)

    def stop(self) -> None:
        """Watch nothing, and break nothing."""
        self._map[:4] = bytes(4)

    def counts(self) -> dict[str, int]:
        """Return how often each call was made since the order."""
        counts = _COUNTS.unpack_from(self._map, _HEAD.size)
        return dict(zip(CALLS, counts, strict=False))

    def hits(self) -> int:
        """Return how many calls were broken since the order."""
        return int(_HEAD.unpack_from(self._map)[6])

    def notes(self) -> Iterator[Note]:
        """Yield the calls since the order."""
        data, at = self.log.read_bytes(), 0
        while at < len(data):
            end = data.index(b"\n", at)
            call, how, inode, offset, size, path, other = data[at:end].decode().split("\x1f")
            stop = end + 1 + (int(size) if call == "write" and how == "done" else 0)
            yield Note(call, how, int(inode), int(offset), path, other, data[end + 1 : stop])
            at = stop

    def _text(self, at: int, text: str) -> None:
        self._map[at : at + _TEXT] = os.fsencode(text).ljust(_TEXT, b"\0")


def can_shim() -> bool:
    """Say whether this machine can compile and preload the shim."""
    return os.uname().sysname == "Linux" and _compiler() != ""


def _compiler() -> str:
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), "")
