"""Samplers: texts drawn from a model under a constraint; one algorithm a file, listed in SAMPLERS.

``sample`` of ``sampling`` is the way in. Read ``registry`` (the table of methods and what each
takes), ``base`` (from options to records) and ``masked``; then ``walks`` (how texts grow), and of
the other rooms what a method names. ``wrappers`` lists what is put around any method: free text, a
reward.
Names are imported on first use, so that ``import cdec.samplers`` costs nothing that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.samplers.base import Sampler as Sampler
    from cdec.samplers.mentored import mentored_distribution as mentored_distribution
    from cdec.samplers.potentials import Potential as Potential
    from cdec.samplers.registry import SAMPLERS as SAMPLERS
    from cdec.samplers.request import Request as Request
    from cdec.samplers.rewards import build_reward as build_reward
    from cdec.samplers.sampling import sample as sample
    from cdec.samplers.scoring.classify import Classification as Classification
    from cdec.samplers.scoring.classify import classify as classify

__all__ = [
    "SAMPLERS",
    "Classification",
    "Potential",
    "Request",
    "Sampler",
    "build_reward",
    "classify",
    "mentored_distribution",
    "sample",
]

__getattr__ = exports(
    __name__,
    {
        "SAMPLERS": "registry",
        "Classification": "scoring.classify",
        "Potential": "potentials",
        "Request": "request",
        "Sampler": "base",
        "build_reward": "rewards",
        "classify": "scoring.classify",
        "mentored_distribution": "mentored",
        "sample": "sampling",
    },
)
