"""How many workers, with what, and how often the work of one that died is done again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.core.errors import UsageError
from cdec.integrations.ray.library import ray_library

if TYPE_CHECKING:
    from ray.data import Dataset

IN_FLIGHT = 2
"""Pieces of work a worker has at most: one under way, and one so that it need not wait."""


@dataclass(frozen=True)
class Pool:
    """A pool of workers, each of which holds a model of its own.

    Attributes:
        workers: How many; None takes as many as the cluster has processors for.
        cpus: Processors a worker asks for.
        gpus: Graphics processors a worker asks for; a fraction lets workers share one.
        memory: Bytes of memory that a worker asks for; None asks for none.
        retries: How often work is done again whose worker died.

    Raises:
        UsageError: A number out of range.
    """

    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    retries: int = 3

    def __post_init__(self) -> None:
        least = {"workers": 1, "cpus": 0, "gpus": 0, "memory": 1, "retries": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and not value >= bound:
                raise UsageError(f"`{name}` is {value}, expected at least {bound}")

    def size(self, work: int | None = None) -> int:
        """Return how many workers there are.

        Args:
            work: Pieces of work there are; None where that is not known.

        Raises:
            UsageError: The cluster has not what a single worker asks for.
        """
        has: Mapping[str, float] = ray_library().cluster_resources()
        asked = {"CPU": self.cpus, "GPU": self.gpus}
        for kind, amount in asked.items():
            if amount > has.get(kind, 0):
                raise UsageError(
                    f"a worker asks for {amount:g} {kind}, and the cluster has "
                    f"{has.get(kind, 0):g}",
                    hint="ask for less, or start Ray on more machines",
                )
        fits = self.workers
        if fits is None:
            fits = min(int(has[kind] // amount) for kind, amount in asked.items() if amount > 0)
        return max(1, fits if work is None else min(fits, work))

    def mapped(
        self,
        dataset: Dataset,
        worker: type,
        arguments: Mapping[str, Any],
        *,
        batch_size: int,
        work: int | None = None,
    ) -> Dataset:
        """Return a dataset with its batches sent through workers.

        Args:
            dataset: The batches' rows.
            worker: Class of the workers: made once a process, called with each batch as a table.
            arguments: Keywords it is made with.
            batch_size: Rows a batch.
            work: Pieces of work there are; None where that is not known.

        Raises:
            UsageError: As ``size``.
        """
        data = ray_library().data
        again: dict[str, Any] = {"max_restarts": -1, "max_task_retries": self.retries}
        if self.memory is not None:
            again["memory"] = self.memory
        with warnings.catch_warnings():
            # Ray has no other way to say how often a worker's work is done again.
            warnings.filterwarnings("ignore", message=".*ray_remote_args.*")
            mapped: Dataset = dataset.map_batches(
                worker,
                fn_constructor_kwargs=dict(arguments),
                batch_size=batch_size,
                batch_format="pyarrow",
                compute=data.ActorPoolStrategy(
                    size=self.size(work), max_tasks_in_flight_per_actor=IN_FLIGHT
                ),
                num_cpus=self.cpus,
                num_gpus=self.gpus or None,
                **again,
            )
        return mapped
