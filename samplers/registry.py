"""The table of samplers: one line an algorithm."""

from __future__ import annotations

from cdec.samplers.asap import AsapSampler
from cdec.samplers.base import Sampler
from cdec.samplers.beam import BeamSampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.exact import ExactSampler
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.smc import SmcSampler
from cdec.samplers.topn import TopnSampler
from cdec.samplers.unconstrained import UnconstrainedSampler

SAMPLERS: dict[str, type[Sampler]] = {
    "unconstrained": UnconstrainedSampler,
    "greedy": GreedySampler,
    "masked": MaskedSampler,
    "beam": BeamSampler,
    "disc": DiscSampler,
    "asap": AsapSampler,
    "exact": ExactSampler,
    "smc": SmcSampler,
    "topn": TopnSampler,
}
