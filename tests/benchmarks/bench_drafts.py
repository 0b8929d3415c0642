"""``make bench-drafts``: what draft models and lookahead with rewards cost and show.

    python -m tests.benchmarks.bench_drafts [--part PART ...] [--quick] [--rewards DIR]

Each part prints tables and writes JSON under ``bench-results``; targets are printed beside the
figures and judge nothing. The models are the embedded target and draft, on one thread. The parts
``table-left``, ``table-right``, ``wall`` and ``coverage`` need the shared data; ``table-right``
trains two small classifiers for minutes unless ``--rewards`` names a folder that has them already.
Nothing here is run on a GPU, but for the solver where one is present.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Before torch and numpy start threads of their own: figures are of one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.benchmarks import (
    drafts_acceptance,
    drafts_calls,
    drafts_commongen,
    drafts_coverage,
    drafts_harmless,
    drafts_solver,
    drafts_tradeoff,
    drafts_wall,
)
from tests.benchmarks.drafts_common import save, show
from tests.benchmarks.report import run_parts

_NEED_SHARED = {"table-left", "table-right", "wall", "coverage"}


def solver(repeats: int) -> dict[str, Any]:
    """Time the mentored solver, print and save."""
    figures = drafts_solver.measure(repeats)
    show(
        f"Mentored solver, one position of {figures['vocabulary']:,} events, milliseconds",
        ("input", "divergence", "best", "median", "target"),
        [
            (kind, limit, time_["best"], time_["median"], figures["target"])
            for kind, limits in figures["milliseconds"].items()
            for limit, time_ in limits.items()
        ],
    )
    device = figures["device"]
    print(f"on a GPU: {device if device is not None else 'not run on a GPU'}\n")
    save("solver", figures)
    return figures


def work(arguments: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Return what each part runs."""
    if arguments.quick:
        return {
            "solver": partial(solver, 5),
            "acceptance": partial(drafts_acceptance.run, 20),
            "calls": partial(drafts_calls.run, 24, 1, 16),
            "tradeoff": partial(drafts_tradeoff.run, 48, 8),
            "table-left": partial(drafts_commongen.run, 24, 24, quick=True),
            "table-right": partial(drafts_harmless.run, arguments.rewards, 6, 60),
            "wall": partial(drafts_wall.run_wall, 16, 1),
            "batches": partial(drafts_wall.run_batches, 64, 1),
            "coverage": drafts_coverage.run,
        }
    return {
        "solver": partial(solver, 30),
        "acceptance": drafts_acceptance.run,
        "calls": drafts_calls.run,
        "tradeoff": drafts_tradeoff.run,
        "table-left": drafts_commongen.run,
        "table-right": partial(drafts_harmless.run, arguments.rewards),
        "wall": drafts_wall.run_wall,
        "batches": drafts_wall.run_batches,
        "coverage": drafts_coverage.run,
    }


PARTS = (
    *("solver", "acceptance", "calls", "tradeoff", "table-left", "table-right", "wall"),
    *("batches", "coverage"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("--rewards", type=Path, help="folder of the two reward models")
    arguments = parser.parse_args()
    run_parts(arguments.part, work(arguments), _NEED_SHARED)


if __name__ == "__main__":
    main()
