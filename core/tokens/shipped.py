"""The names that stand for what ships with the package, and where its files lie."""

from __future__ import annotations

from importlib.resources import files
from os import PathLike
from pathlib import Path

EMBEDDED = "embedded"
"""The name of the model that ships with the package."""
EMBEDDED_DRAFT = "embedded-draft"
"""The name of its draft, a smaller model of the same vocabulary."""

_FOLDERS = {EMBEDDED: "target", EMBEDDED_DRAFT: "draft"}


def located(name_or_path: str | PathLike[str]) -> str:
    """Return what to load: the folder of a shipped model for its name, else what was given."""
    folder = _FOLDERS.get(str(name_or_path))
    if folder is None:
        return str(name_or_path)
    # subtle: found as a resource and not imported, since core knows nothing of data's modules.
    return str(Path(str(files("cdec.data"))) / "embedded" / folder)


def named(path: str) -> str:
    """Return what to call a folder: a shipped model's place on this machine says nothing."""
    return next((name for name in _FOLDERS if located(name) == path), path)


def is_shipped(name: str) -> bool:
    """Whether this is the name of a shipped model."""
    return name in _FOLDERS
