"""Trace: what happened at every token of the samples of a run, to whoever takes its lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdec.core.sample import Sample
    from cdec.samplers.base import Observer


class Trace:
    """Where traces go, if anywhere.

    Args:
        append: Takes each line; None takes nothing, and nothing is computed.
    """

    def __init__(self, append: Callable[[Mapping[str, object]], None] | None = None) -> None:
        self._append = append

    def watching(
        self, draw_batch: Callable[..., Any], observer: Observer | None = None
    ) -> Callable[..., Any]:
        """Return a sampler's ``draw_batch`` with somebody who looks on, if traces are written.

        Args:
            draw_batch: Of the sampler.
            observer: Who looks on in any case; None for nobody.
        """
        if self._append is None and observer is None:
            return draw_batch
        from cdec.samplers.scoring.trace import Tracer

        return partial(draw_batch, observer=observer or Tracer())

    def write(self, sample: Sample) -> None:
        """Write the lines of a sample."""
        if self._append is None:
            return
        from cdec.samplers.scoring.trace import traced_lines

        for line in traced_lines(sample):
            self._append(line)
