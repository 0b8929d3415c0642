"""Items read ahead: their order, their errors, and when nothing comes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from cdec.core.errors import DataError
from cdec.data.input.arrivals import Arrivals

LONG_S = 3600.0
SHORT_S = 0.001


def test_items_come_in_their_order_and_end() -> None:
    arrivals = Arrivals(iter(range(1000)), LONG_S, ahead=3)
    assert list(arrivals) == list(range(1000))
    assert list(arrivals) == [], "the end stays the end"
    assert not arrivals.is_idle(), "an input at its end is not idle"


def test_an_error_stands_behind_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise DataError("damaged", hint="x")

    arrivals = Arrivals(items(), LONG_S, ahead=8)
    assert [next(arrivals), next(arrivals)] == [1, 2]
    with pytest.raises(DataError, match="damaged"):
        next(arrivals)
    with pytest.raises(StopIteration):
        next(arrivals)


def test_an_input_is_idle_while_its_writer_waits_and_not_when_something_is_there() -> None:
    written: queue.Queue[int | None] = queue.Queue()
    arrivals = Arrivals(iter(written.get, None), SHORT_S, ahead=8)
    assert arrivals.is_idle()
    written.put(1)
    assert next(arrivals) == 1
    assert arrivals.is_idle()
    patient = Arrivals(iter(written.get, None), LONG_S, ahead=8)
    written.put(2)
    written.put(3)
    # The older reader took one of the two: the newer sees what is left, or the end.
    written.put(None)
    written.put(None)
    assert not patient.is_idle()


def test_no_more_is_held_than_was_asked_for() -> None:
    taken: list[int] = []
    seen = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            seen.release()
            yield number

    arrivals = Arrivals(items(), LONG_S, ahead=4)
    assert next(arrivals) == 0
    for _ in range(6):
        assert seen.acquire(timeout=60), "the one taken, four held, one in hand"
    assert not seen.acquire(timeout=0.05)
    assert len(taken) == 6
