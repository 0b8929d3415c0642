"""The run clock: every moment belongs to one activity."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.core.models.tabular import TabularModel
from cdec.core.run_clock import RunClock
from cdec.integrations.records.sampling import RecordSampler
from tests.cli import light


class _Ticks:
    """A clock that goes on by what it is told."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_each_moment_is_the_innermost_activitys() -> None:
    ticks = _Ticks()
    clock = RunClock(ticks)
    ticks.now += 3_000_000_000
    clock.begin()
    ticks.now += 1_000_000_000
    with clock.masks:
        ticks.now += 2_000_000_000
        with clock.model:
            ticks.now += 5_000_000_000
        with clock.masks:
            ticks.now += 7_000_000_000
        ticks.now += 1_000_000_000
    ticks.now += 4_000_000_000
    found = clock.seconds("drawing")
    assert found == {"loading": 3, "model": 5, "masks": 10, "drawing": 5, "waiting": 0}
    assert sum(found.values()) == ticks.now / 1e9
    clock.end()
    ticks.now += 6_000_000_000
    assert clock.seconds("drawing") == found | {"waiting": 6}


def test_an_error_leaves_the_activity_that_was_before() -> None:
    ticks = _Ticks()
    clock = RunClock(ticks)
    clock.begin()
    with pytest.raises(KeyError), clock.waiting, clock.model:
        ticks.now += 1_000_000_000
        raise KeyError
    ticks.now += 2_000_000_000
    assert clock.seconds("drawing")["drawing"] == 2


def test_reading_waits_for_each_item_and_not_for_what_is_done_with_it() -> None:
    ticks = _Ticks()
    clock = RunClock(ticks)
    clock.begin()

    def items() -> Iterator[int]:
        for item in range(3):
            ticks.now += 1_000_000_000
            yield item
        ticks.now += 1_000_000_000

    for _ in clock.reading(items()):
        ticks.now += 10_000_000_000
    found = clock.seconds("drawing")
    assert (found["waiting"], found["drawing"]) == (4, 30)


def _drawn(folder: Path, method: str, **more: Any) -> list[dict[str, Any]]:
    def law(prefix: tuple[int, ...]) -> list[float]:
        return [0.4, 0.1, 0.2, 0.3] if len(prefix) % 2 else [0.1, 0.3, 0.4, 0.2]

    artifact = light.compile_letters(folder / "letters.arrow")
    model = TabularModel(law, light.vocabulary())
    with RecordSampler(model, method, artifact=artifact, n=5, **more) as sampler:
        return list(sampler.sample([{"prompt": "p"}, {"prompt": "q", "seed": 3}]))


@pytest.mark.parametrize("method", ["masked", "disc", "exact", "topn", "greedy", "beam"])
def test_a_timed_run_draws_the_same_and_its_activities_sum_to_the_whole(
    tmp_path: Path, method: str
) -> None:
    # Each look at the clock is a tick: what was entered has some, and nothing less than none.
    ticks = itertools.count()
    clock = RunClock(lambda: next(ticks))
    clock.begin()
    assert _drawn(tmp_path, method, clock=clock) == _drawn(tmp_path, method)
    found = clock.seconds("drawing")
    spent = [activity.nanoseconds for activity in (clock.model, clock.masks, clock.working)]
    assert min(spent) > 0
    assert round(sum(found.values()) * 1e9) == next(ticks) - 1
