"""How many workers, with what, and how often the work of one that died is done again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.core.errors import UsageError
from cdec.integrations.ray.capacity import most_of, resources
from cdec.integrations.ray.library import ray_library

if TYPE_CHECKING:
    from ray.data import Dataset

IN_FLIGHT = 2
"""Pieces of work a worker has at most: one under way, and one so that it need not wait."""


_READING = 1.0
"""Processors that Ray gives to a task that reads a dataset: it waits for them without end."""


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

    def size(self, work: int | None = None, *, spare: float = 0.0) -> int:
        """Return how many workers there are.

        Args:
            work: Pieces of work there are; None where that is not known.
            spare: Processors that are left to others, where ``workers`` does not say how many.

        Raises:
            UsageError: The cluster can never have what a single worker asks for.
        """
        asked = {"CPU": self.cpus, "GPU": self.gpus}
        for kind, amount in asked.items():
            # What it has now is not all: it may begin with none, and add machines as it is asked.
            if amount > resources().get(kind, 0) and amount > (most := most_of(kind)):
                raise UsageError(
                    f"a worker asks for {amount:g} {kind}, and the cluster has {most:g} at most",
                    hint="ask for less, or start Ray on more machines",
                )
        fits = self.workers
        if fits is None:
            has = resources()
            has["CPU"] = has.get("CPU", 0) - spare
            fits = min(
                (int(has.get(kind, 0) // amount) for kind, amount in asked.items() if amount > 0),
                default=1,
            )
        return max(1, fits if work is None else min(fits, work))

    def cpus_beside(self, spare: float) -> float:
        """Return the processors that a worker asks for; none where ``spare`` takes the last."""
        has = resources().get("CPU", 0)
        leaves = self.workers is not None or self.cpus <= has - spare or self.cpus > has
        return self.cpus if leaves else 0.0

    def mapped(
        self,
        dataset: Dataset,
        worker: type,
        arguments: Mapping[str, Any],
        *,
        batch_size: int,
        work: int | None = None,
        is_read: bool = False,
    ) -> Dataset:
        """Return a dataset with its batches sent through workers.

        Args:
            dataset: The batches' rows.
            worker: Class of the workers: made once a process, called with each batch as a table.
            arguments: Keywords it is made with.
            batch_size: Rows a batch.
            work: Pieces of work there are; None where that is not known.
            is_read: Whether the rows may have to be read first, which takes a processor.

        Raises:
            UsageError: As ``size``.
        """
        data, spare = ray_library().data, _READING if is_read else 0.0
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
                    size=self.size(work, spare=spare), max_tasks_in_flight_per_actor=IN_FLIGHT
                ),
                num_cpus=self.cpus_beside(spare),
                num_gpus=self.gpus or None,
                **again,
            )
        return mapped
