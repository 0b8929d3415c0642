"""``make bench-grammars``: every figure that grammars must reach, beside the peers, as tables.

    python -m tools.benchmarks.bench_grammars [--only PART ...] [--engines NAME ...] [--output DIR]

Each engine replays each workload in processes of its own (``grammars/masks``); cold figures
take the least of several fresh processes position by position, so that preemption drops out.
Targets are printed beside the figures and judge nothing. Needs the shared data.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.shared import shared_folder
from tools.benchmarks import report
from tools.benchmarks.grammars import decoding, memory
from tools.benchmarks.grammars.cliffs import CLIFFS
from tools.benchmarks.grammars.engines import CLOCKS
from tools.benchmarks.grammars.workloads import workloads
from tools.benchmarks.processes import in_child
from tools.benchmarks.setting import Setting, parser_of

ENGINES = ("cdec", "glrmask", "llguidance", "xgrammar", "outlines-core")
TOKENIZERS = ("mistral32k", "tekken131k")
PARTS = ("masks", "cliffs", "decoding", "memory")
_FRESH = 3
_SECONDS = 60
_COMPILE_TARGET = {"json_free": "≤ 500", "c_subset": "≤ 4000", "template": "≤ 1000"}


def asked(module: str, *arguments: object) -> dict[str, Any] | str:
    """Ask a worker in a fresh process; return its figures, or why there are none."""
    seconds = _SECONDS if "wall" in arguments else 10 * _SECONDS
    try:
        found: dict[str, Any] = in_child(module, *arguments, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no end within {seconds} s"
    except subprocess.CalledProcessError as failed:
        last = failed.stderr.strip().splitlines()[-1:] or [f"exit status {failed.returncode}"]
        return last[0][:90]
    return found


def run_worker(
    engine: str, tokenizer: str, workload: str, processes: int, clock: str
) -> dict[str, Any] | str:
    """Measure in fresh processes; return the figures, or why there are none."""
    answers: list[dict[str, Any]] = []
    for _ in range(processes):
        found = asked(
            "tools.benchmarks.grammars.masks", engine, tokenizer, workload, "--clock", clock
        )
        if isinstance(found, str):
            return found
        answers.append(found)
    best = answers[0]
    lengths = {len(answer["cold_ns"]) for answer in answers}
    if len(lengths) == 1:
        best["cold_ns"] = np.min([answer["cold_ns"] for answer in answers], axis=0)
        best["warm_ns"] = np.min([answer["warm_ns"] for answer in answers], axis=0)
    best["compile_ms"] = min(answer["compile_ms"] for answer in answers)
    return best


def mask_row(engine: str, workload: str, found: dict[str, Any] | str) -> str:
    """Format one engine's figures on one workload."""
    if isinstance(found, str):
        return f"| {workload} | {engine} | {found} | | | | | | | |"
    cold, warm = (np.asarray(found[key]) / 1000 for key in ("cold_ns", "warm_ns"))
    return (
        f"| {workload} | {engine} | {found['compile_ms']:.0f} "
        f"| {found['artifact_bytes'] / 2**20:.1f} | {cold.mean():.1f} "
        f"| {np.percentile(cold, 50):.1f} | {np.percentile(cold, 99):.0f} "
        f"| {warm.mean():.2f} | {np.percentile(warm, 99):.1f} "
        f"| {found['failed']}/{found['documents']} |"
    )


def extra_rows(workload: str, found: dict[str, Any]) -> Iterator[str]:
    """Format what only cdec's worker measures."""
    check = np.asarray(found["check_ns"]) / 1000
    yield (
        f"| {workload} | {_COMPILE_TARGET.get(workload, '')} | {found['cached_compile_ms']:.0f} "
        f"| {found['open_ms']:.2f} | {np.percentile(check, 50):.2f} | {found['memo']} |"
    )


def print_head(columns: str) -> None:
    """Print a table's head."""
    print(f"| {columns} |\n|{'---|' * (columns.count('|') + 1)}")


def print_masks(
    engines: list[str], tokenizers: list[str], names: list[str], fresh: int, clock: str
) -> list[dict[str, Any]]:
    """Print the tables of masks: all engines, then what only cdec has; return the figures."""
    figures = []
    for tokenizer in tokenizers:
        print(f"\n**{tokenizer}** (µs a position: mask row and advance; warm mean ≤ 5)\n")
        print(
            "| workload | engine | compile ms | MiB | cold mean | p50 | p99 "
            "| warm mean | p99 | fails |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        own = []
        for workload in names:
            for engine in engines:
                found = run_worker(engine, tokenizer, workload, fresh, clock)
                figures.append(
                    {
                        "tokenizer": tokenizer,
                        "workload": workload,
                        "engine": engine,
                        "found": found,
                    }
                )
                print(mask_row(engine, workload, found), flush=True)
                if engine == "cdec" and not isinstance(found, str):
                    own += list(extra_rows(workload, found))
        if own:
            print(f"\n**cdec, {tokenizer}** (targets: open ≤ 10 ms, check p50 ≤ 2 µs)\n")
            print(
                "| workload | compile target ms | compile ms | open + mask ms | check µs | memo |"
            )
            print("|---|---|---|---|---|---|")
            print("\n".join(own), flush=True)
    return figures


def cliff_cells(found: dict[str, Any] | str) -> str:
    """Format what an engine makes of a cliff, or why it makes nothing of it."""
    if isinstance(found, str):
        return f"{found} | |"
    cold, refused = np.asarray(found["cold_ns"]) / 1000, found["refused"]
    ends = "" if refused < 0 else f", refuses position {refused}"
    return (
        f"{found['compile_ms'] / 1000:.2f} | {found['artifact_bytes'] / 2**20:.1f} "
        f"| {cold.mean():.0f}, {cold.max():.0f}{ends}"
    )


def print_cliffs(engines: list[str], tokenizer: str, clock: str) -> list[dict[str, Any]]:
    """Print the table of grammars that were slow or refused; return the figures."""
    figures = []
    print(f"\n**{tokenizer}**, first pass; at most {_SECONDS} s and 8 GiB each\n")
    print_head("grammar | engine | compile s | artifact MiB | mask and advance µs: mean, most")
    for cliff in CLIFFS:
        for engine in engines:
            found = asked(
                "tools.benchmarks.grammars.cliffs", engine, tokenizer, cliff, "--clock", clock
            )
            figures.append({"cliff": cliff, "engine": engine, "found": found})
            name = cliff.replace("|", "\\|")
            print(f"| {name} | {engine} | {cliff_cells(found)} |", flush=True)
    return figures


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--tokenizers", nargs="+", choices=TOKENIZERS, default=list(TOKENIZERS))
    parser.add_argument("--workloads", nargs="+", default=[])
    parser.add_argument("--fresh", type=int, default=_FRESH, help="processes for cold figures")
    parser.add_argument("--documents", type=int, default=10_000, help="of the part memory")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu on a busy machine")
    arguments = parser.parse_args()
    if not (shared_folder() / "bench").is_dir():
        parser.error(f"the shared data is not at {shared_folder()}; set CDEC_SHARED")
    names = arguments.workloads or list(workloads())
    setting = Setting.of(arguments)
    print(report.machine())
    if "masks" in arguments.only:
        found = print_masks(
            arguments.engines, arguments.tokenizers, names, arguments.fresh, arguments.clock
        )
        setting.save("grammar-masks", found)
    if "cliffs" in arguments.only:
        cliffs = print_cliffs(arguments.engines, arguments.tokenizers[-1], arguments.clock)
        setting.save("grammar-cliffs", cliffs)
    if "decoding" in arguments.only:
        setting.save("grammar-decoding", decoding.print_decoding(setting))
    if "memory" in arguments.only:
        held = memory.print_memory(arguments.tokenizers[-1], arguments.documents)
        by_name = {name: {str(n): size for n, size in row.items()} for name, row in held.items()}
        setting.save("grammar-memory", by_name)


if __name__ == "__main__":
    main()
