"""Compiled kernels in the user's cache, so that a kernel is compiled once for all processes.

numba's own cache lies beside the sources, or in a folder that it does not check, and asks only
whether the file of the kernel itself changed. Here a kernel is kept under a digest of all that
decides its machine code: its bytecode and that of every function it calls, the constants they
read, the types of its arguments, the versions of Python and numba, and the processor. What does
not change is found by every checkout and installation; what changes is never mistaken.

What is read is unpickled and run: it is as much trusted as the program. ``CacheFolder`` reads only
what this user owns and nobody else may write to, in a folder of which the same holds, as Python
does with the modules that it imports from the user's home. A file that was cut short or damaged
shows in its digest, and is compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import config
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.extending import _Intrinsic

from cdec.core.files.cache import CacheFolder

_MOST_FILES = 4000
_MAX_BYTES = 1 << 24
_PLAIN = (int, float, complex, str, bytes, tuple, np.generic, types.Type)
_DIGEST = hashlib.sha256().digest_size


def kernels_folder() -> CacheFolder:
    """Return where kernels are kept: in cdec's cache, or in ``NUMBA_CACHE_DIR`` if that is set."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    return CacheFolder(
        "kernels",
        most=_MOST_FILES,
        max_bytes=_MAX_BYTES,
        within=Path(configured) if configured else None,
    )


class KernelCache(NullCache):
    """Where numba looks for one kernel before it compiles it, and puts it afterwards.

    Args:
        compiled: The kernel.
    """

    def __init__(self, compiled: Dispatcher | CFunc) -> None:
        self._compiled = compiled

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for arguments of these types; None where it is not kept."""
        target_context.refresh()
        data = kernels_folder().read(self._name(sig, target_context.codegen()))
        if data is None or hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(memoryview(data)[_DIGEST:]))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel."""
        kept = dumps(data._reduce())
        kernels_folder().keep(self._name(sig, data.codegen), hashlib.sha256(kept).digest() + kept)

    def _name(self, sig: Any, codegen: Any) -> str:
        """Return the name of the file for arguments of these types on this processor."""
        machine = numba.__version__, np.__version__, sys.version, config.OPT, config.BOUNDSCHECK
        decides = machine, codegen.magic_tuple(), sig, self._source
        return hashlib.sha256(repr(decides).encode()).hexdigest()

    @cached_property
    def _source(self) -> list[str]:
        """Texts that differ where the kernel does, or any function that it calls."""
        met: dict[object, str] = {self._compiled: ""}
        waiting: list[object] = [self._compiled]
        while waiting:
            called = waiting.pop()
            met[called] = _described(called)
            for value in _read_by(_function(called)):
                if _function(value) is not None and value not in met:
                    met[value] = ""
                    waiting.append(value)
        return sorted(met.values())


def _function(value: object) -> Any:
    """Return the function behind what kernels call; an intrinsic's writes machine code."""
    if isinstance(value, Dispatcher):
        return value.py_func
    if isinstance(value, CFunc):
        return value.__wrapped__
    if isinstance(value, _Intrinsic):
        return value._defn
    return value if isinstance(value, FunctionType) else None


@cache
def _described(called: object) -> str:
    """Return a text that differs where a function, its options or a number that it reads does."""
    function = _function(called)
    options = [
        (name, sorted(value) if isinstance(value, set) else value)
        for name, value in sorted(getattr(called, "targetoptions", {}).items())
    ]
    codes = [
        (code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for code in _codes(function.__code__)
    ]
    name = function.__module__, function.__qualname__
    return repr((name, options, codes, [_plain(value) for value in _read_by(function)]))


def _plain(value: object) -> object:
    """Return what a kernel takes of a value that it reads; None for what is compared elsewhere."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, type):
        return value.__module__, value.__qualname__, getattr(value, "_fields", ())
    return repr(value) if isinstance(value, _PLAIN) else None


def _read_by(function: Any) -> Iterator[object]:
    """Yield the constants, cells and global values that code reads, also through modules."""
    names = function.__globals__
    for code in _codes(function.__code__):
        yield from code.co_consts
        read = [names.get(name) for name in code.co_names]
        yield from read
        for module in read:
            if isinstance(module, ModuleType) and module.__name__.startswith("cdec."):
                yield from (vars(module).get(name) for name in code.co_names)
    yield from (cell.cell_contents for cell in function.__closure__ or ())


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code, and the codes of functions and comprehensions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
