"""The solver of mentored decoding: the law of most acceptance within a divergence.

Read ``solver`` (the public surface); ``torch_solver`` is the same on a device. ``drafts`` imports
from here; programs import ``mentored_distribution``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.samplers.mentored.solver import mentored_distribution as mentored_distribution

__all__ = ["mentored_distribution"]

__getattr__ = exports(__name__, {"mentored_distribution": "solver"})
