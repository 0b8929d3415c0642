"""``make bench-start``: what a command costs from its typing to its end, as one Markdown table.

    python -m tools.benchmarks.bench_start [--repeats N] [--only NAME ...] [--output DIR]

Processor seconds, user and system, of a process and of those that it starts: the first run in an
empty folder with an empty cache, and the best of ``--repeats`` runs after it, with as many threads
as torch takes and with one. Python keeps its bytecode, as where cdec is installed. Needs no
network.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.benchmarks import report
from tools.benchmarks.setting import parser_of

CITIES = ("Berlin", "Lisbon", "London", "Luanda", "Oslo", "Paris", "Prague", "Rome", "Vienna")
PROMPT = "What is the capital of France?"
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
CDEC = str(Path(sys.executable).with_name("cdec"))
WORDS: dict[str, tuple[str, ...]] = {
    "import torch": (sys.executable, "-c", "import torch"),
    "--help": (CDEC, "--help"),
    "sample": (CDEC, "sample", "-a", "cities.arrow", "--prompt", PROMPT),
    "classify": (CDEC, "classify", "cities.txt", "--prompt", PROMPT),
    "compile-set": (CDEC, "compile-set", "cities.txt", "-o", "again.arrow"),
    "compile-grammar": (CDEC, "compile-grammar", "json", "-o", "json.arrow"),
    "compile-schema": (CDEC, "compile-schema", "schema.json", "-o", "schema.arrow"),
    "compile-regex": (CDEC, "compile-regex", "[a-z]+", "-o", "regex.arrow"),
}
"""A second run of a command that compiles finds its artifact up to date."""
TARGETS = {
    "--help": "≤ 0.3 s",
    "sample": "≤ 2.6 s, or 1.3 × `import torch`",
    **{name: "≤ 1 s" for name in WORDS if name.startswith("compile-")},
}


def seconds(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """Run a command in a folder; return the processor seconds of it and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment_of(cache: Path) -> dict[str, str]:
    """Return the variables of this process with a cache of its own, and bytecode kept."""
    kept = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"CDEC_CACHE_DIR": str(cache), "HF_HUB_OFFLINE": "1"}


def figures_of(name: str, repeats: int) -> list[float]:
    """Return the processor seconds of a first run, of a later one, and of one on one thread."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, cache = Path(scratch, "work"), Path(scratch, "cache")
        folder.mkdir()
        (folder / "cities.txt").write_text("".join(f"{city}\n" for city in CITIES))
        (folder / "schema.json").write_text(SCHEMA)
        environment = environment_of(Path(scratch, "compiling"))
        compiling = (CDEC, "compile-set", "cities.txt", "-o", "cities.arrow")
        seconds(compiling, folder, environment)
        environment = environment_of(cache)
        first = seconds(WORDS[name], folder, environment)
        alone = environment | {"OMP_NUM_THREADS": "1"}
        later = [
            min(seconds(WORDS[name], folder, variables) for _ in range(repeats))
            for variables in (environment, alone)
        ]
    return [first, *later]


def main() -> None:
    parser = parser_of(__doc__, has_model=False)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=WORDS, default=list(WORDS))
    arguments = parser.parse_args()
    print(f"{report.machine()}\n")
    print("| processor seconds | target | first run | later | later, one thread |")
    print("|---|---|---|---|---|")
    figures = {}
    for name in arguments.only:
        figures[name] = found = figures_of(name, arguments.repeats)
        shown = f"`{name}`" if name == "import torch" else f"`cdec {name}`"
        cells = [shown, TARGETS.get(name, ""), *(f"{value:.2f} s" for value in found)]
        print(f"| {' | '.join(cells)} |", flush=True)
    report.save(arguments.output / "start.json", figures, repeats=arguments.repeats)


if __name__ == "__main__":
    main()
