"""``import cdec``: the public names of its packages, each imported when it is first used.

This file installs as ``cdec/__init__.py``; the names are those that ``cdec.core``,
``cdec.compilers`` and ``cdec.samplers`` list. Nothing is imported until a name is asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.compilers import *  # noqa: F403
    from cdec.core import *  # noqa: F403
    from cdec.samplers import *  # noqa: F403

_NAMED = ("core", "compilers", "samplers")
"""Packages whose public names are names of ``cdec``, too."""
_PACKAGES = (*_NAMED, "data", "integrations")


def __getattr__(name: str) -> object:
    """Return a package, or a public name of one.

    Raises:
        AttributeError: There is none of this name.
    """
    if name == "__all__":
        return _names()
    if name in _PACKAGES:
        return import_module(f"cdec.{name}")
    for package in map(_package, _NAMED):
        if name in package.__all__:
            return getattr(package, name)
    raise AttributeError(f"module 'cdec' has no attribute {name!r}; `dir(cdec)` lists what it has")


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *_PACKAGES, *_names()})


def _names() -> list[str]:
    return sorted({name for package in map(_package, _NAMED) for name in package.__all__})


def _package(name: str) -> ModuleType:
    return import_module(f"cdec.{name}")
