"""Options of the engine: records are drawn in this process, or by workers on Ray."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cdec.cli.frame.declaration import NumberOrWord, option
from cdec.cli.options.shared import refuse_unused
from cdec.core.errors import UsageError

ENGINE = "Many machines"
OF_RAY = (
    "workers",
    "ray_address",
    "worker_cpus",
    "worker_gpus",
    "worker_memory",
    "worker_accelerator",
    "retries",
    "part_size",
    "part_format",
)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options of the engine that draws records and deals them out to workers."""

    engine: Literal["local", "ray"] = option(
        "local",
        "`ray` draws on many workers: --input may be a folder or pattern of part files, and "
        "--output is the folder or its URL that gets one for each.",
        ENGINE,
    )
    workers: NumberOrWord | None = option(
        None,
        "Workers, each with a model of its own, or the least and the most of them (1..8); as many "
        "as the cluster has processors for if not given.",
        ENGINE,
        metavar="N[..M]",
    )
    ray_address: str | None = option(
        None,
        "Cluster to join (`auto`, HOST:PORT); this machine alone if not given.",
        ENGINE,
        metavar="ADDRESS",
        typed_only=True,
    )
    worker_cpus: float = option(
        1.0, "Processors a worker asks for.", ENGINE, metavar="X", at_least=0
    )
    worker_gpus: float = option(
        0.0,
        "Graphics processors a worker asks for; 0.5 lets two share one.",
        ENGINE,
        metavar="X",
        at_least=0,
    )
    worker_memory: str | None = option(
        None, "Memory a worker asks for, such as 16GB.", ENGINE, metavar="SIZE"
    )
    worker_accelerator: str | None = option(
        None, "Type of a worker's accelerator, as Ray names it: A100.", ENGINE, metavar="NAME"
    )
    retries: int = option(
        3,
        "How often a part file is begun again whose worker died.",
        ENGINE,
        metavar="N",
        at_least=0,
    )
    part_size: int = option(
        1024,
        "Records a part file, where the input is no folder of part files.",
        ENGINE,
        metavar="N",
        at_least=1,
    )
    part_format: Literal["jsonl", "parquet"] = option(
        "jsonl", "Format of the part files written.", ENGINE
    )

    def pool_sizes(self) -> int | tuple[int, int] | None:
        """Return how many workers there are, or the least and the most; None if nothing is said.

        Raises:
            UsageError: Numbers that make no sense.
        """
        if self.workers is None:
            return None
        match = _WORKERS.fullmatch(self.workers)
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            raise UsageError(
                f"--workers is {self.workers!r}, expected a number of at least 1, or two of them",
                hint="write for example --workers 8, or --workers 1..8",
            )
        return least if least == most else (least, most)


_WORKERS = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?", re.ASCII)
_OF_ONE_PROCESS = ("tree", "save_counts", "copy", "trace", "idle", "max_bad")


def check_engine(options: EngineOptions, typed: frozenset[str]) -> None:
    """Refuse options that mean nothing to the engine."""
    if options.engine == "local":
        refuse_unused(OF_RAY, typed, "without --engine ray")
        return
    options.pool_sizes()
    refuse_unused(
        _OF_ONE_PROCESS, typed, "with --engine ray, which deals records out to other processes"
    )


def needs_folder() -> UsageError:
    """Return the error of a run on many workers that names no output."""
    return UsageError(
        "--engine ray writes part files, and no output is named",
        hint="name a folder for them with -o FOLDER",
    )
