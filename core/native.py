"""The compiled library (``native/``): this file alone imports it.

What its functions take and do stands in ``native/include/cdec_native.h``. Arrays are given as numpy
arrays of exactly the type and dimensions named there, contiguous, and writable where they are
written; a struct of arrays is a named tuple of its fields, or what ``hold_NAME`` made of one, which
is read once and keeps the arrays. Anything else is a TypeError or ValueError that names the
argument. Calls release the interpreter's lock.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

from cdec.core.errors import NativeLibraryError

_BUILD = "build the compiled library: `pip install .`, or `python native/build.py` in a checkout"


def load() -> ModuleType:
    """Return the library.

    Raises:
        NativeLibraryError: It is missing, cannot be loaded, or was made of other sources.
    """
    try:
        found = import_module("cdec.core._native")
    except ImportError as error:
        message = f"the compiled library cannot be loaded: {error}"
        raise NativeLibraryError(message, hint=_BUILD) from error
    sources = Path(__file__).resolve().parent.parent / "native"
    if (sources / "build.py").exists() and found.sources != _digest(sources):
        raise NativeLibraryError("the compiled library was made of other sources", hint=_BUILD)
    return found


def _digest(sources: Path) -> str:
    """Return what ``native/build.py`` calls the sources."""
    found = hashlib.sha256()
    for path in sorted([*sources.rglob("*.cc"), *sources.rglob("*.h"), sources / "build.py"]):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


library = load()


def element_types(struct: type) -> dict[str, str]:
    """Return the element type of every array of a struct, as numpy names it, by field."""
    fields = get_type_hints(struct).items()
    return {name: get_args(get_args(array)[1])[0].__name__ for name, array in fields}
