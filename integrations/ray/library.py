"""Ray itself: imported where it is used, asked for where it is missing."""

from __future__ import annotations

import signal
from typing import Any

from cdec.core.errors import ExtraMissingError

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
