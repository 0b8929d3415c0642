"""Golden runs: records what the command line and the Python surface do, and compares recordings.

    python tests/golden record OUT_DIR [--cdec PATH_TO_CDEC] [--only PATTERN]
    python tests/golden compare DIR_A DIR_B

A recording is one JSON file a case, named after it. It holds command lines, exit statuses, stdout,
stderr and output files without what differs from run to run (``normalise.py``), so two recordings
of equal behaviour are equal. PATTERN is a list, separated by commas, of names, kinds or regular
expressions of cases. The corpus of hostile inputs is found through ``CDEC_SHARED``.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHOWN_LINES = 14
SHOWN_COLUMNS = 220
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
    "COLUMNS": "100",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "LC_ALL": "C.UTF-8",
}


def record(out: Path, cdec: Path, pattern: str, *, workers: int, how: str) -> int:
    """Record the cases that match into a folder.

    Args:
        out: The folder; recordings in it are replaced.
        cdec: The script of the program; its first line names the interpreter.
        pattern: Which cases.
        workers: Processes that run cases.
        how: ``fork``; ``own-compilers``: forks that compile grammars in a new process each;
            ``processes``: a new process a command line. All give the same, slower and slower.

    Returns:
        The exit status.
    """
    out.mkdir(parents=True, exist_ok=True)
    python = cdec.read_text().splitlines()[0].removeprefix("#!").split()[0]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        environment = os.environ | ENVIRONMENT | {"CDEC_CACHE_DIR": f"{scratch}/cache"}
        environment.setdefault("CDEC_SHARED", str(Path("../shared").resolve()))
        words = [str(cdec), str(out.resolve()), pattern, str(workers), how]
        done = subprocess.run([python, str(HERE / "runner.py"), *words], env=environment)
        times = Path(scratch, "seconds")
        if times.exists():
            shutil.copy(times, out / "seconds.txt")
    print(f"{len(list(out.glob('*.json')))} cases, {time.monotonic() - started:.0f} s")
    return done.returncode


def compare(first: Path, second: Path) -> int:
    """Print what differs between two recordings; return 1 if anything does."""
    a, b = _load(first), _load(second)
    counts: Counter[str] = Counter()
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            print(f"--- {name}: only in {first if name in a else second}")
            counts["missing"] += 1
        elif a[name] != b[name]:
            print(f"--- {name} ({a[name]['kind']})")
            print("\n".join(_difference(a[name], b[name])))
            counts[f"differ ({a[name]['kind']})"] += 1
    alike = len(a.keys() & b.keys()) - sum(n for kind, n in counts.items() if kind != "missing")
    print("; ".join([f"{alike} alike", *(f"{n} {kind}" for kind, n in sorted(counts.items()))]))
    return 1 if counts else 0


def _load(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def _difference(a: dict[str, Any], b: dict[str, Any]) -> Iterator[str]:
    lines = difflib.unified_diff([*_rendered(a)], [*_rendered(b)], lineterm="", n=0)
    shown = [line for line in lines if not line.startswith(("---", "+++"))]
    for line in shown[:SHOWN_LINES]:
        yield line if len(line) <= SHOWN_COLUMNS else line[:SHOWN_COLUMNS] + "..."
    if len(shown) > SHOWN_LINES:
        yield f"... and {len(shown) - SHOWN_LINES} lines more"


def _rendered(value: Any, place: str = "") -> Iterator[str]:
    """Yield one line a leaf; a line of JSON within a text is taken apart, too."""
    if isinstance(value, str) and value[:1] == "{":
        with contextlib.suppress(ValueError):
            # Numbers stay as they were written: the last digit counts.
            value = json.loads(value, parse_float=str, parse_int=str)
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _rendered(part, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and any(isinstance(part, (dict, list, str)) for part in value):
        for number, part in enumerate(value):
            yield from _rendered(part, f"{place}[{number}]")
    else:
        yield f"{place}: {value!r}"


def _program(named: str | None) -> Path:
    beside = Path(sys.executable).with_name("cdec")
    found = named or (str(beside) if beside.exists() else shutil.which("cdec"))
    if found is None or not Path(found).is_file():
        raise SystemExit("no cdec script: name one with --cdec")
    return Path(found).absolute()


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="record the cases into a folder")
    recording.add_argument("out", type=Path)
    recording.add_argument("--cdec", help="script of the program; the one beside this Python")
    recording.add_argument("--only", default="*", help="names, kinds or regular expressions")
    recording.add_argument("--workers", type=int, default=2)
    ways = ("fork", "own-compilers", "processes")
    recording.add_argument("--how", choices=ways, default="fork", help="fork is the fast one")
    comparing = commands.add_parser("compare", help="say what differs between two folders")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.first, given.second)
    program = _program(given.cdec)
    return record(given.out, program, given.only, workers=given.workers, how=given.how)


if __name__ == "__main__":
    sys.exit(main())
