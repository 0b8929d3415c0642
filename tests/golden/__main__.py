"""Golden runs: records what the command line and the Python surface do, and compares recordings.

    python tests/golden check [--only PATTERN]    # against those of the repository: make golden
    python tests/golden freeze [--only PATTERN]   # puts new ones of these cases in their place
    python tests/golden record OUT_DIR [--cdec PATH_TO_CDEC] [--only PATTERN]
    python tests/golden compare A B               # folders, or archives

A recording is one JSON object a case, in a folder a file of the case's name. It holds command
lines, exit statuses, stdout, stderr and output files without what differs from run to run
(``normalise.py``), so two recordings of equal behaviour are equal. Those of the repository lie in
``recordings.jsonl.xz``, a case a line; they are made, and checked, as on the simplest processor
that the libraries know, so that every digit is the same on any. PATTERN is a list, separated by
commas, of names, kinds or patterns of cases. The corpus of hostile inputs is found through
``CDEC_SHARED``; what needs it is left out where it is absent.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from normalise import dateless

HERE = Path(__file__).resolve().parent
ARCHIVE = HERE / "recordings.jsonl.xz"
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
ANY_PROCESSOR = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL "
    "AVX512_ICL AVX512_SPR",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
}
"""What keeps torch, numpy and libm from instructions that only some processors have."""
SHARE = (
    *("check-[a-r]*", "compile-set-*", "config-w*", "corpus-cli-missing-file", "corpus-gr-*-start"),
    *("artifact-pickle", "help-sample", "help-run", "inspect-w*", "mass-set", "mass-grammar"),
    *("refused-0*", "retokenize-bad-batch", "sample-*-set-seed7", "score-bad-field"),
    *("score-no-input", "session-*", "tabular-[des]*-nested", "range-masked-top-m"),
)
"""Cases of every kind, for the tests."""


def record(
    out: Path,
    cdec: Path,
    pattern: str,
    *,
    workers: int,
    how: str = "fork",
    processor: Mapping[str, str] | None = None,
) -> int:
    """Record the cases that match into a folder.

    Args:
        out: The folder; recordings in it are replaced.
        cdec: The script of the program; its first line names the interpreter.
        pattern: Which cases.
        workers: Processes that run cases.
        how: ``fork``; ``own-compilers``: forks that compile grammars in a new process each;
            ``processes``: a new process a command line. All give the same, slower and slower.
        processor: Variables that choose instructions; None: whatever is fastest.

    Returns:
        The exit status.
    """
    out.mkdir(parents=True, exist_ok=True)
    python = cdec.read_text().splitlines()[0].removeprefix("#!").split()[0]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        environment = os.environ | ENVIRONMENT | {"CDEC_CACHE_DIR": f"{scratch}/cache"}
        environment |= processor or {}
        environment.setdefault("CDEC_SHARED", str(Path("../shared").resolve()))
        words = [str(cdec), str(out.resolve()), pattern, str(workers), how]
        done = subprocess.run([python, str(HERE / "runner.py"), *words], env=environment)
        times = Path(scratch, "seconds")
        if times.exists():
            shutil.copy(times, out / "seconds.txt")
    print(f"{len(list(out.glob('*.json')))} cases, {time.monotonic() - started:.0f} s")
    return done.returncode


def compare(a: dict[str, Any], b: dict[str, Any]) -> int:
    """Print what differs between two recordings; return 1 if anything does."""
    counts: Counter[str] = Counter()
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            print(f"--- {name}: only in the {'first' if name in a else 'second'}")
            counts["missing"] += 1
        elif a[name] != b[name]:
            print(f"--- {name} ({a[name]['kind']})")
            print("\n".join(_difference(a[name], b[name])))
            counts[f"differ ({a[name]['kind']})"] += 1
    alike = len(a.keys() & b.keys()) - sum(n for kind, n in counts.items() if kind != "missing")
    print("; ".join([f"{alike} alike", *(f"{n} {kind}" for kind, n in sorted(counts.items()))]))
    return 1 if counts else 0


def check(cdec: Path, pattern: str, *, workers: int, archive: Path = ARCHIVE) -> int:
    """Record the cases that match and compare them with those of an archive.

    Cases that the archive lacks, and such of it as are gone, are differences when all are asked
    for; where the shared data is absent, what needs it is not missed.
    """
    with tempfile.TemporaryDirectory(prefix="golden-check-") as name:
        out = Path(name, "now")
        status = record(out, cdec, pattern, workers=workers, processor=ANY_PROCESSOR)
        now, kept = _load(out), _load(archive)
    if pattern != "*" or not any(case["kind"] == "corpus" for case in now.values()):
        kept = {case: kept[case] for case in kept.keys() & now.keys()}
    return compare(kept, now) or status


def freeze(cdec: Path, pattern: str, *, workers: int) -> int:
    """Record the cases that match and put them into the repository's archive.

    A case that is gone leaves the archive when all are recorded.
    """
    with tempfile.TemporaryDirectory(prefix="golden-freeze-") as name:
        out = Path(name, "now")
        status = record(out, cdec, pattern, workers=workers, processor=ANY_PROCESSOR)
        kept = _load(ARCHIVE) if pattern != "*" and ARCHIVE.exists() else {}
        rows = sorted((kept | _load(out)).values(), key=lambda case: (case["kind"], case["name"]))
    lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows]
    ARCHIVE.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(rows)} cases in {ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes")
    return status


def _load(place: Path) -> dict[str, Any]:
    """Read a folder or an archive of recordings: case -> recording."""
    if place.is_dir():
        texts = [path.read_text() for path in sorted(place.glob("*.json"))]
    else:
        texts = lzma.decompress(place.read_bytes()).decode().splitlines()
    cases = [json.loads(dateless(text)) for text in texts]
    return {case["name"]: case for case in cases}


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
    for command, help in (
        ("check", "compare the cases with those of the repository"),
        ("freeze", "put the cases into the repository's archive"),
        ("record", "record the cases into a folder"),
    ):
        recording = commands.add_parser(command, help=help)
        if command == "record":
            recording.add_argument("out", type=Path)
            ways = ("fork", "own-compilers", "processes")
            recording.add_argument("--how", choices=ways, default="fork", help="fork is fast")
        recording.add_argument("--cdec", help="script of the program; the one beside this Python")
        recording.add_argument("--only", default="*", help="names, kinds or patterns; share")
        recording.add_argument("--workers", type=int, default=2)
    comparing = commands.add_parser("compare", help="say what differs between two recordings")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return compare(_load(given.first), _load(given.second))
    program = _program(given.cdec)
    only = ",".join(SHARE) if given.only == "share" else given.only
    if given.command == "record":
        return record(given.out, program, only, workers=given.workers, how=given.how)
    return {"check": check, "freeze": freeze}[given.command](program, only, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
