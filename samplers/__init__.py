"""Samplers draw texts from a model under a constraint; one algorithm a file, listed in SAMPLERS.

Names are imported on first use, so that ``import cdec.samplers`` costs nothing that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.samplers.base import Request as Request
    from cdec.samplers.base import Sampler as Sampler
    from cdec.samplers.registry import SAMPLERS as SAMPLERS

__all__ = ["SAMPLERS", "Request", "Sampler"]


def __getattr__(name: str) -> object:
    if name == "SAMPLERS":
        from cdec.samplers.registry import SAMPLERS

        return SAMPLERS
    if name in __all__:
        from cdec.samplers import base

        return getattr(base, name)
    raise AttributeError(f"module 'cdec.samplers' has no attribute {name!r}")
