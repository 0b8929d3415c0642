"""Workers on Ray: records and tokens a second, and the memory of a worker, by their number.

    python -m tools.benchmarks.bench_cluster [--workers 1 2] [--records N] [--entities N]
                                             [--output DIR]

A set of many entities (mapped from its file, as it is larger than 4 MiB), the shipped questions
over and over under ids of their own, ``masked``, one draw each, part files of 64 records. Seconds
are those from the first report of a worker to the last one, so that starting Ray and loading the
models is told apart. Memory is what Linux says of the workers' processes: RSS counts shared pages
in every process, PSS divides them among those that share them. Minutes; needs ``cdec[ray]``.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdec.compilers import compile_set
from cdec.core import Vocabulary
from cdec.core.tokens.locations import EMBEDDED
from cdec.data.assets import evaluation_prompts
from cdec.data.prompts.read import prompts_from_records, read_prompts
from cdec.integrations.ray.cluster import Pool, cluster
from cdec.integrations.ray.parts import PartFolder, parts_of_records
from cdec.integrations.ray.run import sample_parts
from cdec.integrations.ray.settings import Settings
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting, parser_of

COLUMNS = ("workers", "start s", "records/s", "tokens/s", "RSS MiB", "PSS MiB", "artifact PSS MiB")
SIZE = 64


def _records(count: int) -> Iterator[dict[str, Any]]:
    prompts = list(read_prompts(str(evaluation_prompts("facts"))))
    for number, record in zip(range(count), itertools.cycle(prompts), strict=False):
        yield {"id": number, "prompt": getattr(record, "prompt", "")}


def _memory(process: int, artifact: Path) -> tuple[float, float, float]:
    """Return RSS and PSS of a process, and the PSS of its pages of a file, MiB."""
    whole = Path(f"/proc/{process}/smaps_rollup").read_text()
    mapped = False
    of_file = 0
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        head = line.split()
        if "-" in head[0] and not head[0].endswith(":"):
            mapped = line.endswith(str(artifact))
        elif mapped and head[0] == "Pss:":
            of_file += int(head[1])
    return (*(_kib(whole, name) / 1024 for name in ("Rss:", "Pss:")), of_file / 1024)


def _kib(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name))


def measured(workers: int, records: int, artifact: Path, folder: Path) -> list[float]:
    """Return the figures of ``COLUMNS`` for a number of workers."""
    settings = Settings.of({"model": EMBEDDED, "artifact": str(artifact), "method": "masked"})
    output = PartFolder(folder / f"out{workers}", "jsonl")
    output.prepare(force=True, resume=False)
    parts = parts_of_records(prompts_from_records(_records(records)), SIZE)
    begin = time.perf_counter()
    first, done, tokens = 0.0, 0, 0
    memory: dict[int, tuple[float, ...]] = {}
    with cluster(cpus=workers):
        for report in sample_parts(parts, output, settings, Pool(workers=workers)):
            now = time.perf_counter()
            if not first:
                first = now
                continue
            done, tokens, last = done + report.counts.records, tokens + report.counts.tokens, now
            process = int(report.worker.rpartition(":")[2])
            # The most of it: behind its last part a worker has let go of the artifact.
            found, before = _memory(process, artifact), memory.get(process, (0.0, 0.0, 0.0))
            memory[process] = tuple(map(max, found, before))
    took = last - first
    means = [sum(each) / len(memory) for each in zip(*memory.values(), strict=True)]
    return [workers, first - begin, done / took, tokens / took, *means]


def main() -> None:
    """Print the table and save it."""
    parser = parser_of(__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--records", type=int, default=4096)
    parser.add_argument("--entities", type=int, default=300_000)
    arguments: argparse.Namespace = parser.parse_args()
    setting = Setting.of(arguments)
    with tempfile.TemporaryDirectory() as name:
        artifact = Path(name) / "entities.arrow"
        entities = (f"Entity number {number}" for number in range(arguments.entities))
        compile_set(entities, Vocabulary.from_tokenizer(EMBEDDED), artifact)
        size = artifact.stat().st_size
        rows = [
            measured(workers, arguments.records, artifact, Path(name))
            for workers in arguments.workers
        ]
    show(f"workers on Ray, an artifact of {size / (1 << 20):.0f} MiB", COLUMNS, rows)
    print(setting.save("cluster", rows, records=arguments.records, artifact_bytes=size))


if __name__ == "__main__":
    main()
