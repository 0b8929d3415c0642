"""The one loop: batches in order, failures in their places, what ends a run and what does not."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from cdec.cli.frame.command import SOME_RECORDS_FAILED, Run
from cdec.cli.frame.console import Console
from cdec.cli.frame.process import Signals
from cdec.cli.runs.loop import Loop
from cdec.core.errors import ChatTemplateMissingError, DataError, LimitError, UsageError
from cdec.core.models.warping import Warping
from cdec.integrations.records.tasks import Task, at_temperatures, batches, prepared

from . import light


def _run(*, debug: bool = False) -> Run:
    return Run(Signals(), Console(debug=debug, stderr=io.StringIO()))


def _loop(written: list[Mapping[str, Any]], *, strict: bool = False) -> Loop:
    """A loop that doubles numbers and fails where it is given an error as a text."""

    def work(tasks: Sequence[Task]) -> list[Any]:
        return [
            DataError(task.request) if isinstance(task.request, str) else 2 * task.request
            for task in tasks
        ]

    return Loop(
        work=work,
        records=lambda task, result: [{"id": task.name, "double": result}],
        write=written.append,
        strict=strict,
    )


def test_results_and_errors_stand_in_the_order_of_the_tasks() -> None:
    written: list[Any] = []
    tasks = [Task(0, 1), Task(1, DataError("bad")), Task(2, "worse"), Task(3, 4)]
    status = _loop(written).over(batches(tasks, 2), _run())
    assert status == SOME_RECORDS_FAILED
    assert [record["id"] for record in written] == [0, 1, 2, 3]
    assert [record.get("double") for record in written] == [2, None, None, 8]
    messages = [record["error"]["message"] for record in written if "error" in record]
    assert messages == ["bad", "worse"]
    assert _loop([]).over(batches([Task(0, 1)], 1), _run()) == 0


def test_a_strict_loop_ends_with_the_first_failure_after_what_stands_before_it() -> None:
    written: list[Any] = []
    tasks = [Task(0, 1), Task(1, "bad"), Task(2, 3)]
    with pytest.raises(DataError, match="bad"):
        _loop(written, strict=True).over([tasks], _run())
    assert [record["id"] for record in written] == [0]


def test_a_usage_error_is_the_runs_where_the_task_says_so() -> None:
    written: list[Any] = []
    _loop(written).over([[Task(0, UsageError("own"))]], _run())
    assert written[0]["error"]["code"] == "E_USAGE"
    with pytest.raises(UsageError):
        _loop(written).over([[Task(0, UsageError("the run's"), ends_run=True)]], _run())
    with pytest.raises(ChatTemplateMissingError):
        _loop(written).over([[Task(0, 1), Task(1, ChatTemplateMissingError("none"))]], _run())
    assert len(written) == 1


def test_how_an_error_came_about_is_said_once_and_only_when_asked_for() -> None:
    def caused(text: str) -> DataError:
        error = DataError(text)
        error.__cause__ = ValueError(f"because of {text}")
        return error

    for debug in (False, True):
        run = _run(debug=debug)
        tasks = [Task(0, DataError("plain")), Task(1, caused("one")), Task(2, caused("two"))]
        _loop([]).over([tasks], run)
        stderr = run.console.stderr
        assert isinstance(stderr, io.StringIO)
        assert ("because of one" in stderr.getvalue()) is debug
        assert "because of two" not in stderr.getvalue()


def test_batches_count_what_can_be_done_and_keep_errors_with_their_neighbours() -> None:
    bad = DataError("bad")
    tasks = [Task(i, bad if i % 2 else i) for i in range(8)]
    assert [[task.name for task in batch] for batch in batches(tasks, 2)] == [
        [0, 1, 2],
        [3, 4, 5, 6],
        [7],
    ]
    assert [len(batch) for batch in batches([Task(i, bad) for i in range(9)], 2)] == [8, 1]


def test_what_the_input_raises_comes_after_the_batch_before_it() -> None:
    def tasks() -> Iterator[Task]:
        yield Task(0, 1)
        raise DataError("torn")

    written: list[Any] = []
    with pytest.raises(DataError, match="torn"):
        _loop(written).over(batches(tasks(), 8), _run())
    assert [record["id"] for record in written] == [0]


def test_tasks_of_one_temperature_are_done_together() -> None:
    calls: list[tuple[float, list[int]]] = []

    def work(model: Any, requests: list[int]) -> list[int]:
        calls.append((model.warping.temperature, requests))
        return [10 * request for request in requests]

    done = at_temperatures(light.slow_model(0), Warping(0.5), work)
    tasks = [Task(0, 0), Task(1, 1, 2.0), Task(2, 2), Task(3, 3, 0.5), Task(4, 4, 2.0)]
    assert done(tasks) == [0, 10, 20, 30, 40]
    assert calls == [(0.5, [0, 2, 3]), (2.0, [1, 4])]


def _fragile(written: list[Mapping[str, Any]], broken: Mapping[int, Exception]) -> Loop:
    """A loop whose work raises what no one expects, and says which tasks were done together."""

    def work(tasks: Sequence[Task]) -> list[Any]:
        for task in tasks:
            if task.name in broken:
                raise broken[task.name]  # type: ignore[index]
        return [(task.request, len(tasks)) for task in tasks]

    return Loop(
        work=work,
        records=lambda task, result: [{"id": task.name, "result": result}],
        write=written.append,
        strict=False,
    )


def test_what_one_record_raises_is_its_error_and_the_others_are_done_together() -> None:
    written: list[Any] = []
    broken = {1: StopIteration(), 4: ZeroDivisionError("no"), 5: RecursionError("deep")}
    status = _fragile(written, broken).over([[Task(i, i) for i in range(8)]], _run())
    assert status == SOME_RECORDS_FAILED
    assert [record["id"] for record in written] == list(range(8))
    assert {r["id"]: r["error"]["code"] for r in written if "error" in r} == dict.fromkeys(
        broken, "E_INTERNAL"
    )
    assert "ZeroDivisionError" in written[4]["error"]["message"]
    assert [r["result"] for r in written if "result" in r] == [(i, 5) for i in (0, 2, 3, 6, 7)]


def test_memory_that_is_used_up_ends_the_run() -> None:
    with pytest.raises(LimitError, match="memory"):
        _fragile([], {1: MemoryError()}).over([[Task(0, 0), Task(1, 1)]], _run())


def test_a_result_that_cannot_be_written_is_its_records_error() -> None:
    written: list[Any] = []
    loop = Loop(
        work=lambda tasks: [task.request for task in tasks],
        records=lambda task, result: [{"id": task.name, "value": 1 / result}],
        write=written.append,
        strict=False,
    )
    assert loop.over([[Task(0, 1), Task(1, 0), Task(2, 2)]], _run()) == SOME_RECORDS_FAILED
    assert ["error" in record for record in written] == [False, True, False]


def test_what_preparing_a_record_raises_is_its_error() -> None:
    def fail(error: Exception) -> Task:
        raise error

    assert prepared(1, lambda: Task(1, 5)).request == 5
    assert prepared(1, lambda: fail(KeyError("x"))).request.code == "E_INTERNAL"
    assert prepared(1, lambda: fail(DataError("x"))).request.code == "E_DATA"
    with pytest.raises(UsageError):
        prepared(1, lambda: fail(UsageError("the run's")))
