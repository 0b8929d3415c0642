"""Who looks on while a model evaluates: nobody, or a clock."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Watch: TypeAlias = Callable[[NDArray[np.int64]], AbstractContextManager[None]]
"""Stands around each pass, given the contexts that it evaluates, int64[n]."""


def unwatched(contexts: NDArray[np.int64]) -> AbstractContextManager[None]:
    """Look away."""
    return nullcontext()


def clock(tell: Callable[[NDArray[np.int64], float], None]) -> Watch:
    """Return a watch that tells of each pass its contexts and its wall seconds."""

    @contextmanager
    def watch(contexts: NDArray[np.int64]) -> Iterator[None]:
        started = time.monotonic()
        yield
        tell(contexts, time.monotonic() - started)

    return watch


class Watchable(Protocol):
    """What asks its watch around each pass."""

    watch: Watch


WatchableT = TypeVar("WatchableT", bound=Watchable)


def watched(model: WatchableT, watch: Watch) -> WatchableT:
    """Return a view of a model whose passes ``watch`` sees."""
    view = copy.copy(model)
    view.watch = watch
    return view
