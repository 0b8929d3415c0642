"""Clusters of Ray: joined or started and ended, what they have, and workers of a size that fits."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import ExtraMissingError, UnavailableError, UsageError
from cdec.core.files.whole import scratch_folder

if TYPE_CHECKING:
    from ray.data import Dataset


INSTALL = 'pip install "cdec[ray]"'


def ray_library() -> Any:
    """Return the module ``ray``, with ``ray.data`` loaded.

    Raises:
        ExtraMissingError: It is not installed.
    """
    # subtle: importing it and starting it put handlers of its own in the place of the caller's.
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ExtraMissingError(
            f"many machines need Ray, which is not installed ({error.name} is missing)",
            hint=INSTALL,
        ) from error
    restore(before)
    return ray


def restore(handlers: dict[signal.Signals, Any]) -> None:
    """Put handlers of signals back, where that can be done."""
    for signum, handler in handlers.items():
        try:
            if handler is not None and signal.getsignal(signum) is not handler:
                signal.signal(signum, handler)
        except ValueError:
            # subtle: only the main thread may, and only it has had them replaced.
            return


OBJECT_STORE_BYTES = 256 << 20
"""Shared memory of a machine that becomes a cluster; what does not fit goes to its disk."""


class ClusterError(UnavailableError):
    """No cluster can be reached, or none can be started."""

    code = "E_CLUSTER"


@contextmanager
def cluster(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """Join a cluster, or make this machine one, for the time of the context.

    A machine that becomes a cluster serves no dashboard, tells nobody of its use, and leaves no
    process and no file behind. Where Ray runs in this process already, it is used and left as it
    is.

    Args:
        address: Of a cluster, as Ray takes it (``auto``, ``HOST:PORT``, ``ray://HOST:PORT``); None
            for this machine.
        cpus: Processors of this machine that Ray may give to workers; None for all.

    Raises:
        ExtraMissingError: Ray is not installed.
        ClusterError: It cannot be joined or started.
    """
    # subtle: Ray reads it once, when it is imported.
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Its own logs go with the folder.
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray = ray_library()
    if ray.is_initialized():
        yield
        return
    with scratch_folder() if address is None else nullcontext() as folder:
        with _own_signals():
            _start(ray, address, folder, cpus)
        try:
            yield
        finally:
            ray.shutdown()


def _start(ray: Any, address: str | None, folder: Path | None, cpus: int | None) -> None:
    given: dict[str, Any] = {"address": address}
    if folder is not None:
        given = {
            "address": "local",
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_temp_dir": str(folder),
        }
    try:
        # What workers have to say comes with their reports.
        ray.init(**given, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        # Its own errors share no base class.
        where = "on this machine" if folder is not None else f"at {address}"
        raise ClusterError(
            f"no Ray cluster can be had {where}: {error}",
            hint="check its address and that it runs (ray status)"
            if address is not None
            else "see that /tmp has room, and that this machine lets Ray open local ports",
        ) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of signals that are set, which Ray would replace."""
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore(before)


@contextmanager
def quiet_data() -> Iterator[None]:
    """Let Ray's datasets say nothing by themselves; parts that are lost are looked for anyway."""
    data = ray_library().data
    context = data.DataContext.get_current()
    before = context.enable_progress_bars, context.max_errored_blocks
    logger = logging.getLogger("ray.data")
    level = logger.level
    context.enable_progress_bars, context.max_errored_blocks = False, -1
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        context.enable_progress_bars, context.max_errored_blocks = before
        logger.setLevel(level)


_ACCELERATOR = "accelerator_type:"
"""Begins the name of what a machine has, one for each type of its accelerators."""
_STATUS = b"__autoscaling_status"
"""Where Ray's monitor keeps its last report, of a cluster that scales or not."""


def resources() -> dict[str, float]:
    """Return what the cluster has now, by kind."""
    return dict(ray_library().cluster_resources())


def most_of(kind: str) -> float:
    """Return the most of a kind that the cluster can ever have; inf where that cannot be known.

    A cluster with an autoscaler begins with none of what nobody has asked for yet.
    """
    ray_library()
    now = resources().get(kind, 0.0)
    declared = _declared()
    if declared is not None:
        return max(now, float(declared.get(kind, 0)))
    return math.inf if _scales(_report()) else now


def _accelerators() -> list[str] | None:
    """Return the types of the accelerators there are; None where machines may be added."""
    if _declared() is not None or _scales(_report()):
        return None
    names = sorted(resources())
    return [name.removeprefix(_ACCELERATOR) for name in names if name.startswith(_ACCELERATOR)]


def _declared() -> Mapping[str, float] | None:
    """Return what the autoscaler's configuration allows, where Ray knows it."""
    try:
        from ray._private.state import state

        found: Mapping[str, float] | None = state.get_max_resources_from_cluster_config()
    except Exception:
        # subtle: not Ray's public surface, though its own datasets ask so.
        return None
    return found


def _report() -> Mapping[str, Any]:
    """Return the last report of the autoscaler; empty where there is none."""
    try:
        from ray.experimental.internal_kv import _internal_kv_get

        found = json.loads(_internal_kv_get(_STATUS) or b"{}")
    except Exception:
        return {}
    return found if isinstance(found, Mapping) else {}


def _scales(report: Mapping[str, Any]) -> bool:
    """Say whether a report is of an autoscaler that may add machines.

    subtle: one that only looks on makes up a type of its own for each machine, named after it.
    """
    told = report.get("autoscaler_report") or {}
    types = told.get("node_type_mapping") or {}
    return any(kind != f"node_{node}" for node, kind in types.items())


IN_FLIGHT = 2
"""Pieces of work a worker has at most: one under way, and one so that it need not wait."""


_READING = 1.0
"""Processors that Ray gives to a task that reads a dataset: it waits for them without end."""


@dataclass(frozen=True)
class Pool:
    """A pool of workers, each of which holds a model of its own.

    Attributes:
        workers: How many, or the least and the most of them, between which Ray chooses by what
            there is to do; None takes as many as the cluster has processors for, and up to as many
            as it can ever have.
        cpus: Processors a worker asks for.
        gpus: Graphics processors a worker asks for; a fraction lets workers share one.
        memory: Bytes of memory that a worker asks for; None asks for none.
        retries: How often work is done again whose worker died.
        accelerator: Type of the machines' accelerators, as Ray names it (``A100``); None for any.

    Raises:
        UsageError: A number out of range.
    """

    workers: int | tuple[int, int] | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    retries: int = 3
    accelerator: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.workers, tuple):
            first, last = self.workers
            if not 1 <= first <= last:
                raise UsageError(
                    f"`workers` is {self.workers}", hint="give the least and the most, as (1, 8)"
                )
        least = {"workers": 1, "cpus": 0, "gpus": 0, "memory": 1, "retries": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if isinstance(value, int | float) and not value >= bound:
                raise UsageError(f"`{name}` is {value}, expected at least {bound}")

    @property
    def most(self) -> int | None:
        """The most workers that were asked for; None where nobody said it."""
        return self.workers[1] if isinstance(self.workers, tuple) else self.workers

    def sizes(self, work: int | None = None, *, spare: float = 0.0) -> tuple[int, int | None]:
        """Return the least and the most workers there are; no most where nobody knows it.

        Args:
            work: Pieces of work there are; None where that is not known.
            spare: Processors that are left to others, where ``workers`` does not say how many.

        Raises:
            UsageError: The cluster can never have what a single worker asks for.
        """
        asked = {"CPU": self.cpus, "GPU": self.gpus}
        has = resources()
        can_have = {kind: has.get(kind, 0.0) for kind in asked}
        for kind, amount in asked.items():
            # What it has now is not all: it may begin with none, and add machines as it is asked.
            if amount > can_have[kind] or self.workers is None:
                can_have[kind] = most_of(kind)
            if amount > can_have[kind]:
                raise UsageError(
                    f"a worker asks for {amount:g} {kind}, and the cluster has "
                    f"{can_have[kind]:g} at most",
                    hint="ask for less, or start Ray on more machines",
                )
        self._require_accelerator()
        if self.workers is None:
            least, most = (
                min((_fitting(there, kind, amount, spare) for kind, amount in asked.items()))
                for there in (has, can_have)
            )
        else:
            first = self.workers if isinstance(self.workers, int) else self.workers[0]
            least, most = float(first), float(self.most or first)
        least, most = max(1.0, least), max(1.0, most)
        if work is not None:
            least, most = min(least, work), min(most, work)
        if math.isinf(least):
            # Nothing that is counted is asked for.
            least = most = 1.0
        return int(least), None if math.isinf(most) else int(most)

    def _require_accelerator(self) -> None:
        there = _accelerators() if self.accelerator is not None else None
        if there is not None and self.accelerator not in there:
            raise UsageError(
                f"a worker asks for an accelerator {self.accelerator}, and the cluster has "
                f"{', '.join(there) or 'none'}",
                hint="name one that it has (ray status), or start Ray on other machines",
            )

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
            UsageError: As ``sizes``.
        """
        data, spare = ray_library().data, _READING if is_read else 0.0
        again: dict[str, Any] = {"max_restarts": -1, "max_task_retries": self.retries}
        if self.memory is not None:
            again["memory"] = self.memory
        if self.accelerator is not None:
            again["accelerator_type"] = self.accelerator
        least, most = self.sizes(work, spare=spare)
        with warnings.catch_warnings():
            # Ray has no other way to say how often a worker's work is done again.
            warnings.filterwarnings("ignore", message=".*ray_remote_args.*")
            mapped: Dataset = dataset.map_batches(
                worker,
                fn_constructor_kwargs=dict(arguments),
                batch_size=batch_size,
                batch_format="pyarrow",
                compute=data.ActorPoolStrategy(
                    min_size=least, max_size=most, max_tasks_in_flight_per_actor=IN_FLIGHT
                ),
                num_cpus=self.cpus_beside(spare),
                num_gpus=self.gpus or None,
                **again,
            )
        return mapped


def _fitting(there: Mapping[str, float], kind: str, amount: float, spare: float) -> float:
    """Return how many workers fit of whom each asks for an amount of a kind; inf where for none."""
    if amount <= 0:
        return math.inf
    fits = (there.get(kind, 0.0) - (spare if kind == "CPU" else 0.0)) / amount
    return fits if math.isinf(fits) else math.floor(fits)
