"""``make bench-drafts``: what draft models and lookahead with rewards cost and show.

    python -m tools.benchmarks.bench_drafts [--only PART ...] [--quick] [--output DIR]

Each part prints tables and writes JSON under ``--output``; targets are printed beside the figures
and judge nothing. The models are the embedded target and draft unless ``--model`` and ``--draft``
name others; on the CPU they run on one thread. The parts
``table-left``, ``table-right``, ``wall`` and ``coverage`` need the shared data; ``table-right``
trains two small classifiers for minutes unless ``--rewards`` names a folder that has them already.
``--device`` is theirs; the solver runs on a GPU where one is present.
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

from tools.benchmarks.drafts import (
    acceptance,
    calls,
    commongen,
    coverage,
    harmless,
    solver,
    tradeoff,
    wall,
)
from tools.benchmarks.drafts.common import save
from tools.benchmarks.report import run_parts, show
from tools.benchmarks.setting import Setting, parser_of

_QUICK: dict[str, dict[str, Any]] = {
    "solver": {"repeats": 5},
    "acceptance": {"pairs": 20},
    "calls": {"prompts": 24, "seeds": 1, "members": 16},
    "tradeoff": {"facts": 48, "records": 8},
    "table-left": {"sets": 24, "training": 24, "quick": True},
    "table-right": {"rows": 6, "pairs": 60},
    "wall": {"prompts": 16, "repeats": 1},
    "batches": {"prompts": 64, "repeats": 1},
}
_NEED_SHARED = {"table-left", "table-right", "wall", "coverage"}


def time_solver(setting: Setting, repeats: int = 30) -> dict[str, Any]:
    """Time the mentored solver, print and save."""
    figures = solver.measure(repeats)
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
    save(setting, "solver", figures)
    return figures


def work(arguments: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Return what each part runs."""
    setting, rewards = Setting.of(arguments), arguments.rewards
    full: dict[str, Callable[..., Any]] = {
        "solver": partial(time_solver, setting),
        "acceptance": partial(acceptance.run, setting),
        "calls": partial(calls.run, setting),
        "tradeoff": partial(tradeoff.run, setting),
        "table-left": partial(commongen.run, setting),
        "table-right": partial(harmless.run, setting, rewards),
        "wall": partial(wall.run_wall, setting),
        "batches": partial(wall.run_batches, setting),
        "coverage": partial(coverage.run, setting),
    }
    return {
        name: partial(part, **_QUICK.get(name, {})) if arguments.quick else part
        for name, part in full.items()
    }


PARTS = (
    *("solver", "acceptance", "calls", "tradeoff", "table-left", "table-right", "wall"),
    *("batches", "coverage"),
)


def main() -> None:
    parser = parser_of(__doc__, has_draft=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("--rewards", type=Path, help="folder of the two reward models")
    arguments = parser.parse_args()
    run_parts(arguments.only, work(arguments), _NEED_SHARED)


if __name__ == "__main__":
    main()
