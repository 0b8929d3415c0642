"""What vLLM's requests ask is compiled on a thread; its event loop goes on, and looks up."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from cdec.core.errors import CdecError, LimitError
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.settings import ServingLimits, ServingSettings
from cdec.integrations.vllm import middleware
from cdec.integrations.vllm.middleware import ConstraintMiddleware

SETTINGS = ServingSettings(
    allow=frozenset({"candidates", "regex"}),
    tokenizer="embedded",
    limits=ServingLimits(compile_seconds=60),
)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> ServedConstraints:
    found = ServedConstraints(SETTINGS)
    monkeypatch.setattr(middleware, "_checking", lambda: found)
    return found


class _Server:
    """An application that checks a request as vLLM does: on the event loop, without waiting."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            await send({"status": 200})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.bodies.append(json.loads(body))
        try:
            middleware.check(json.loads(body)["vllm_xargs"]["cdec"])
        except CdecError as error:
            await send({"status": 400, "code": error.code})
        else:
            await send({"status": 200})


async def _answer(app: ConstraintMiddleware, method: str, asked: object = None) -> dict[str, Any]:
    """Return the answer to one request, whose body comes in two pieces."""
    data = json.dumps({"prompt": "x", "vllm_xargs": {"cdec": asked}}).encode()
    pieces = [
        {"type": "http.request", "body": data[:9], "more_body": True},
        {"type": "http.request", "body": data[9:], "more_body": False},
    ]
    answers: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return pieces.pop(0)

    async def send(message: Mapping[str, Any]) -> None:
        answers.append(message)

    await app({"type": "http", "method": method}, receive, send)
    (answer,) = answers
    return dict(answer)


def test_the_event_loop_answers_others_while_a_constraint_is_compiled(
    served: ServedConstraints, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert served._sources is not None
    healthy, threads, compiled = threading.Event(), [], served._sources.of

    def slow(text: str, options: Any) -> Any:
        threads.append(threading.current_thread())
        assert healthy.wait(60)
        return compiled(text, options)

    monkeypatch.setattr(served._sources, "of", slow)
    server = _Server()
    app = ConstraintMiddleware(server)

    async def ask() -> list[dict[str, Any]]:
        waiting = [
            asyncio.create_task(_answer(app, "POST", json.dumps({"regex": "[a-e]{7}q"})))
            for _ in range(2)
        ]
        while not threads:
            await asyncio.sleep(0.01)
        known = await _answer(app, "POST", json.dumps({"candidates": ["a", "b"]}))
        health = await _answer(app, "GET")
        healthy.set()
        return [known, health, *await asyncio.gather(*waiting)]

    assert asyncio.run(ask()) == [{"status": 200}] * 4
    assert [body["prompt"] for body in server.bodies] == ["x"] * 3
    assert threads and threading.main_thread() not in threads
    assert len(threads) == 1
    assert not caplog.records
    served.close()


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"regex": "(a"}, "E_REGEX_SYNTAX"), ({"artifact": "none"}, "E_FIELD")],
)
def test_what_is_refused_is_refused_where_the_server_asks(
    served: ServedConstraints, asked: dict[str, str], code: str
) -> None:
    answer = asyncio.run(_answer(ConstraintMiddleware(_Server()), "POST", json.dumps(asked)))
    assert answer == {"status": 400, "code": code}
    served.close()


def test_a_limit_that_is_passed_is_met_once_and_off_the_loop(
    served: ServedConstraints, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def refused(value: object) -> None:
        threads.append(threading.current_thread())
        raise LimitError("too slow", limit="compile_seconds")

    monkeypatch.setattr(served, "read", refused)
    answer = asyncio.run(_answer(ConstraintMiddleware(_Server()), "POST", '{"regex": "a"}'))
    assert answer == {"status": 400, "code": "E_LIMIT"}
    assert len(threads) == 1 and threads[0] is not threading.main_thread()


def test_compiling_on_the_loop_is_told_with_the_option_that_helps(
    served: ServedConstraints, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        middleware.check({"candidates": ["on", "the", "loop"]})
        middleware.check({"candidates": ["on", "the", "loop"]})

    asyncio.run(check())
    (told,) = caplog.records
    assert "middleware cdec.integrations.vllm.middleware.ConstraintMiddleware" in told.message


@pytest.mark.parametrize("body", [b"vllm_xargs", b'{"vllm_xargs": 3}', b'["vllm_xargs"]', b"{}"])
def test_bodies_that_ask_nothing_are_passed_on_as_they_came(body: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(await receive())
        await send(await receive())

    async def ask() -> list[Any]:
        messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await ConstraintMiddleware(app)({"type": "http", "method": "POST"}, receive, send)
        return sent

    assert asyncio.run(ask()) == [
        {"type": "http.request", "body": body},
        {"type": "http.disconnect"},
    ]
