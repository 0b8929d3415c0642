"""Public names imported on first use, so that importing a room costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def exports(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's ``__getattr__``; every package has ``__version__``, the installed one.

    Args:
        package: The package's name, such as ``cdec.core``.
        homes: Public name → module of the package that defines it.
    """

    def find(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("cdec")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
