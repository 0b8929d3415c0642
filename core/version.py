"""The installed version, read from the package's metadata when it is first asked for."""

from __future__ import annotations

from importlib.metadata import version

__version__: str = version("cdec")
