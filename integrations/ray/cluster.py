"""Begins Ray and ends it: a cluster that is there is joined, else this machine becomes one."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from cdec.core.errors import UnavailableError
from cdec.core.files.whole import scratch_folder
from cdec.integrations.ray.library import ray_library, restore

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
