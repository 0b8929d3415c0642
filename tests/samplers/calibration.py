"""Whether estimates of the mass are what they say, world by world."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdec.integrations.findings.enumeration import mass
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from tests.laws.worlds import Toy, graded_world, random_world

COMMON = 1e-3
"""P(S) above which most estimates have to be reliable."""
DEVIATIONS = 1.96
DECADES = ((-2, 0), (-4, -2), (-7, -4), (-10, -7), (-math.inf, -10))
"""Of P(S): the powers of ten between which tables and tests sum up."""


@dataclass(frozen=True)
class Way:
    """How a mass is estimated: a method (or ``mass``), the texts asked for, its options."""

    method: str
    n: int
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """What tables call it."""
        shown = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.method} n={self.n}" + (f" {shown}" if shown else "")


WAYS = (
    Way("masked", 16, {}),
    Way("masked", 256, {}),
    Way("disc", 1, {"K": 4}),
    Way("disc", 16, {"K": 4}),
    Way("disc", 16, {"K": 4, "mass_draws": 4}),
    Way("asap", 16, {"burn_in": 0}),
    Way("asap", 1, {}),
    Way("exact", 8, {}),
    Way("exact", 8, {"abort": True}),
    Way("smc", 16, {}),
    Way("mass", 256, {}),
)


@dataclass(frozen=True)
class Judged:
    """One estimate held against the truth, natural logs.

    Attributes:
        log_truth: log P(S) by enumeration.
        covers: Whether ``log_mass`` within 1.96 standard errors holds it.
        in_bracket: Whether both lie in the certified bracket.
    """

    log_truth: float
    is_reliable: bool
    covers: bool
    in_bracket: bool
    error: float | None

    @classmethod
    def of(cls, fields: dict[str, Any], log_truth: float) -> Judged:
        """Judge the fields of a record; P(S) must be above 0."""
        log_mass, error = fields["log_mass"], fields["log_mass_se"]
        lower, upper = fields["log_mass_lower"], fields["log_mass_upper"]
        lowest = -math.inf if lower is None else lower
        inside = [log_truth] if log_mass is None else [log_truth, log_mass]
        return cls(
            log_truth=log_truth,
            is_reliable=fields["log_mass_reliable"],
            covers=log_mass is not None and abs(log_mass - log_truth) <= DEVIATIONS * error + 1e-9,
            in_bracket=all(lowest - 1e-9 <= log <= upper + 1e-9 for log in inside),
            error=error,
        )


def judged(way: Way, worlds: int) -> Iterator[Judged]:
    """Estimate the mass of worlds 0, 1, ... once each; every other one is of tiny mass."""
    for seed in range(worlds):
        toy = graded_world(seed) if seed % 2 else random_world(seed)
        yield Judged.of(_fields(way, toy, seed), math.log(mass(toy)))


def by_decade(found: list[Judged]) -> dict[str, list[Judged]]:
    """Return what was judged, by decades of P(S)."""
    groups = {}
    for low, high in DECADES:
        name = f"1e{low} to 1e{high}" if low > -math.inf else f"below 1e{high}"
        groups[name] = [one for one in found if low < one.log_truth / math.log(10) <= high]
    return groups


def _fields(way: Way, toy: Toy, seed: int) -> dict[str, Any]:
    if way.method == "mass":
        estimator = MassEstimator(candidates=way.n, **way.options)
        (found,) = estimator.run(toy.model(), [Request("", toy.constraint, [seed])])
        assert isinstance(found, Mass)
        return found.to_json()
    sampler = SAMPLERS[way.method](**way.options)
    rng = np.random.default_rng([3, seed])
    return sampler.draw(toy.model(), toy.constraint, "", n=way.n, rng=rng)[0].to_json()


@dataclass(frozen=True)
class Shares:
    """What some judged estimates come to.

    Attributes:
        worlds: How many. reliable: Share of them that say so.
        coverage: Share that covers among the reliable ones. all_coverage: Among all.
        error: Median standard error of the reliable ones, nats.
    """

    worlds: int
    reliable: float
    coverage: float
    all_coverage: float
    error: float

    @classmethod
    def of(cls, found: list[Judged]) -> Shares:
        """Sum up; NaN where there is nothing to sum up."""
        trusted = [each for each in found if each.is_reliable]
        return cls(
            worlds=len(found),
            reliable=_share([each.is_reliable for each in found]),
            coverage=_share([each.covers for each in trusted]),
            all_coverage=_share([each.covers for each in found]),
            error=float(np.median([each.error for each in trusted])) if trusted else math.nan,
        )


def _share(values: list[bool]) -> float:
    return sum(values) / len(values) if values else math.nan
