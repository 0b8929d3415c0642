"""Samplers draw texts from a model under a constraint; one algorithm a file, listed in SAMPLERS.

Names are imported on first use, so that ``import cdec.samplers`` costs nothing that is not needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.samplers.base import Request as Request
    from cdec.samplers.base import Sampler as Sampler
    from cdec.samplers.mentored_solver import mentored_distribution as mentored_distribution
    from cdec.samplers.registry import SAMPLERS as SAMPLERS
    from cdec.samplers.rewards import build_reward as build_reward

__all__ = ["SAMPLERS", "Request", "Sampler", "build_reward", "mentored_distribution"]

_HOMES = {
    "SAMPLERS": "registry",
    "Request": "base",
    "Sampler": "base",
    "build_reward": "rewards",
    "mentored_distribution": "mentored_solver",
}
"""Name → module of this package."""


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"cdec.samplers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'cdec.samplers' has no attribute {name!r}")
