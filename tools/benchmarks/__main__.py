"""Runs a benchmark from any folder: ``python PATH/TO/tools/benchmarks NAME [ARGUMENT ...]``.

NAME is ``sets``, ``grammars``, ``schemas``, ``verdicts``, ``aligned``, ``drafts``,
``estimates``, ``classify``, ``answers``, ``candidates``, ``free``, ``start``, ``fields``,
``cluster`` or ``integrations``; ``--help`` after it lists its arguments. JSON files go to
``--output``, by default ``bench-results`` here.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

NAMES = (
    "sets",
    "grammars",
    "schemas",
    "verdicts",
    "aligned",
    "drafts",
    "estimates",
    "classify",
    "answers",
    "candidates",
    "free",
    "start",
    "fields",
    "cluster",
    "integrations",
)

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"{__doc__}")
    # subtle: the first path is this folder, whose files would hide others of their names.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    name = sys.argv.pop(1)
    runpy.run_module(f"tools.benchmarks.bench_{name}", run_name="__main__", alter_sys=True)
