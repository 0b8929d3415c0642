"""``make bench-aligned``: what samples that follow the model's own distribution cost and show.

    python -m tools.benchmarks.bench_aligned [--only PART ...] [--model NAME] [--output DIR]

Each part prints tables and writes JSON under ``--output``; targets are printed beside the
figures and judge nothing. ``--tasks 1 --draws 200 --seeds 30 --visited 200000`` is a quick look;
all of it takes some forty minutes on two cores. The parts ``rate`` and ``convergence`` need the
shared data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from tools.benchmarks.aligned import (
    calls,
    convergence,
    memory,
    rate,
    step,
)
from tools.benchmarks.report import run_parts
from tools.benchmarks.setting import Setting, parser_of

PARTS = ("calls", "step", "memory", "rate", "convergence")
_NEED_SHARED = {"rate", "convergence"}


def work(arguments: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Return what each part runs; an option that was left out takes the part's own default."""
    setting = Setting.of(arguments)
    tasks = {} if arguments.tasks is None else {"tasks": arguments.tasks}
    draws = {} if arguments.draws is None else {"draws": arguments.draws}
    return {
        "calls": partial(calls.run, setting, arguments.seeds),
        "step": partial(step.run, setting, **draws),
        "memory": partial(memory.run, setting, arguments.visited),
        "rate": partial(rate.run, setting, **tasks, **draws),
        "convergence": partial(
            convergence.run, setting, **tasks, **draws, workers=arguments.workers
        ),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tasks", type=int, help="SyGuS tasks, spread evenly")
    parser.add_argument("--draws", type=int, help="texts a task and method")
    parser.add_argument("--seeds", type=int, default=300, help="records of the part calls")
    parser.add_argument("--visited", type=int, default=1_000_000, help="prefixes of memory")
    parser.add_argument("--workers", type=int, default=2, help="processes of convergence")
    arguments = parser.parse_args()
    run_parts(arguments.only, work(arguments), _NEED_SHARED)


if __name__ == "__main__":
    main()
