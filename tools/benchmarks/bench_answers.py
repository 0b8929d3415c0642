"""``make bench-answers``: the best members of a catalogue, what they cost and how often they are.

    python -m tools.benchmarks.bench_answers [--members N] [--prompts N] [--output DIR]

``--members 5000 --prompts 4`` is a quick look; all of it takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from tools.benchmarks.answers import best
from tools.benchmarks.report import run_parts
from tools.benchmarks.setting import Setting, parser_of

PARTS = ("best",)


def work(arguments: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Return what each part runs."""
    setting = Setting.of(arguments)
    return {"best": partial(best.run, setting, arguments.members, arguments.prompts)}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--members", type=int, default=50_000, help="products of the catalogue")
    parser.add_argument("--prompts", type=int, default=16, help="questions, 16 at most")
    arguments = parser.parse_args()
    run_parts(arguments.only, work(arguments), set())


if __name__ == "__main__":
    main()
