"""Cheap starts: public names that are imported on first use, and no search for garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``; every package has ``__version__``, the installed one.

    Args:
        package: The package's name, such as ``cdec.core``.
        homes: Public name → module of the package that defines it.
    """

    def find(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("cdec")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep what is loaded in the block to the end: it is never looked through for garbage.

    Collecting while torch is imported, and once more at the end, took a quarter of a short run; in
    a process that forks, a collection would only copy pages.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
