"""The table of samplers: one line an algorithm."""

from __future__ import annotations

from cdec.samplers.asap import AsapSampler
from cdec.samplers.base import Sampler
from cdec.samplers.beam import BeamSampler
from cdec.samplers.cdlh import CdlhApproxSampler, CdlhSampler
from cdec.samplers.cdsl import CdslSampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.exact import ExactSampler
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.smc import SmcSampler
from cdec.samplers.speculative import SpeculativeSampler
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
    "speculative": SpeculativeSampler,
    "mentored": MentoredSampler,
    "cdlh": CdlhSampler,
    "cdlh-approx": CdlhApproxSampler,
    "cdsl": CdslSampler,
}
