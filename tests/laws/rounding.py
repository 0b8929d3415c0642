"""Two batches, devices or processors compared: equal but for the rounding that is documented.

Wherever a real model is asked twice in another arithmetic, tests compare by this file alone: an
event's rounding (``cdec.core.models.language_model``) times the number of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from cdec.core.models.language_model import EVENT_ROUNDING

FLOAT32 = EVENT_ROUNDING["float32"]


def tolerance(events: int, rounding: float = FLOAT32) -> float:
    """Return the nats by which a log probability of so many events may be off."""
    return events * rounding


def near(value: Any, events: int, rounding: float = FLOAT32) -> Any:
    """Return what equals a value whose numbers with a point are off by no more than rounding.

    Args:
        value: As JSON has it; texts, integers and nulls must be the same ones.
        events: That a number stands for: of a ratio of two such, as Q is, those of both.
        rounding: Of one event, nats: absolute in logs, relative in probabilities.
    """
    if isinstance(value, Mapping):
        return {name: near(item, events, rounding) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [near(item, events, rounding) for item in value]
    if not isinstance(value, float):
        return value
    off = tolerance(events, rounding)
    return pytest.approx(value, rel=off, abs=off)


def near_records(records: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return what equals the records of another batch: Q and bounds are ratios of two texts."""
    found = list(records)
    longest = max((len(record.get("token_ids", ())) for record in found), default=0)
    return [near(record, 2 * (longest + 1)) for record in found]


def near_lines(lines: bytes) -> list[Any]:
    """Return what equals the records that other lines hold."""
    return near_records(read_lines(lines))


def read_lines(lines: bytes) -> list[Any]:
    """Return the records of an output; each line must be whole."""
    assert not lines or lines.endswith(b"\n")
    return [json.loads(line) for line in lines.splitlines()]
