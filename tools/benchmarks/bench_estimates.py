"""``make bench-estimates``: whether estimates of the mass are what they say, in random worlds.

    python -m tools.benchmarks.bench_estimates [--worlds 500] [--output DIR]

For each way of estimating, over worlds whose P(S) is known by enumeration, by decade of P(S): how
many estimates say that they are reliable, and how many intervals of 1.96 standard errors hold the
truth. Two to five minutes on one core.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from tests.samplers.calibration import WAYS, Judged, Shares, by_decade, judged
from tools.benchmarks.report import save, show


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--output", type=Path, default=Path("bench-results"))
    arguments = parser.parse_args()
    found = {way.name: list(judged(way, arguments.worlds)) for way in WAYS}
    figures = {name: _by_decade(each) for name, each in found.items()}
    columns = ("estimated by", "P(S)", "worlds", "reliable", "of these covered", "of all", "se")
    rows = [
        (name, decade, s.worlds, s.reliable, s.coverage, s.all_coverage, s.error)
        for name, decades in figures.items()
        for decade, s in decades.items()
    ]
    show("log_mass: shares that are reliable, and that hold the truth", columns, rows)
    rounded = {
        name: {decade: asdict(s) for decade, s in decades.items()}
        for name, decades in figures.items()
    }
    print(save(arguments.output / "estimates.json", rounded, worlds=arguments.worlds))


def _by_decade(found: list[Judged]) -> dict[str, Shares]:
    shares = {"all": Shares.of(found)}
    return shares | {name: Shares.of(mine) for name, mine in by_decade(found).items()}


if __name__ == "__main__":
    main()
