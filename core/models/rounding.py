"""The rounding of one event's log probability, by the arithmetic of a model's weights.

A model adds up the same numbers in another order in another batch, on another device, on another
processor and with a draft: what it says of a prefix differs in the last digits. Certified bounds
are widened by that, for every event of the longest text that they are about.
"""

from __future__ import annotations

from collections.abc import Mapping

EVENT_ROUNDING: Mapping[str, float] = {
    "float64": 1e-5,
    "float32": 5e-5,
    "float16": 0.06,
    "bfloat16": 0.4,
}
"""Nats, by dtype of the weights; scores are float32 at best, whatever the weights.

Twice the most that was met in 84 prefixes of each of four models (the embedded ones, random llamas
of 4 and 12 layers; log P from -38 to 0), alone and in batches of 2, 5 and 12, with all instructions
of a processor and with the oldest: 2.5e-5, 0.031 and 0.22. It grows with the span of the scores:
where log P goes down to -63 it was five times as much."""


def warped_rounding(rounding: float, temperature: float) -> float:
    """Return the rounding of an event, in nats, of a model at a temperature.

    A token at the edge of ``top_k`` or ``top_p`` may fall out of the law altogether: no bound of
    rounding holds across that.
    """
    return rounding / min(1.0, temperature)


def event_rounding(dtype: str) -> float:
    """Return the rounding of a dtype, ``float32`` say, in nats; of another one the largest."""
    return EVENT_ROUNDING.get(dtype, max(EVENT_ROUNDING.values()))
