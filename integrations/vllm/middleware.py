"""Constraints of requests, found or compiled before vLLM's engine gets the requests.

vLLM asks a processor about a request on the event loop of its server, where nothing may compile:
``ConstraintMiddleware`` has it made on a thread before, and leaves here what came of it. Nothing
here needs vLLM. Compiled kernels are imported where they are used: vLLM's start on a CPU fails once
they are.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from cdec.core.errors import CdecError
from cdec.integrations.serving.settings import FIELD, ConstraintRequest, ServingSettings

if TYPE_CHECKING:
    from cdec.integrations.serving.constraints import ServedConstraints

MADE: ContextVar[Mapping[str, CdecError | None]] = ContextVar("cdec_made")
"""Outcome of what this HTTP request asks, by its JSON text: None where it is there."""
_LOG = logging.getLogger(__name__)
_OPENING = threading.Lock()


def checking() -> ServedConstraints:
    """Return what this process checks requests against; artifacts are opened once.

    Raises:
        CdecError: The settings, or an artifact, cannot be read.
    """
    with _OPENING:
        return _checking()


@cache
def _checking() -> ServedConstraints:
    from cdec.integrations.serving.constraints import ServedConstraints

    return ServedConstraints(ServingSettings.from_environment())


def check(value: object) -> None:
    """Refuse what a request asks of its constraint, if it cannot be served.

    Args:
        value: The request's argument.

    Raises:
        CdecError: As ``ServedConstraints.read``.
    """
    made = MADE.get({})
    if isinstance(value, str) and value in made:
        error = made[value]
        if error is not None:
            raise error.again()
        return
    if _is_on_a_loop() and not checking().has(value):
        _LOG.warning(
            "a constraint is compiled on the server's event loop, and all requests wait for it: "
            "start the server with the middleware "
            "cdec.integrations.vllm.middleware.ConstraintMiddleware"
        )
    checking().read(value)


def asked_fit(value: object) -> int | None:
    """Return within how many tokens the text of a request that was checked shall end."""
    return ConstraintRequest.of(value, checking().settings).fit


def outcome(value: str) -> CdecError | None:
    """Make what a request asks, and return why it could not be made; None where it is there."""
    try:
        checking().read(value)
    except CdecError as error:
        return error.again()
    return None


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


ARGUMENTS = "vllm_xargs"
"""The field of a request of vLLM's server that holds arguments of processors."""
_THREADS = 4

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


class ConstraintMiddleware:
    """Has constraints of requests made before vLLM sees the requests; all others go on meanwhile.

    For the option ``middleware`` of vLLM's server. A request that cannot be served is passed on,
    too: vLLM answers it, as the processor refuses it without looking again. Equal requests that
    come together cost one compilation.

    Args:
        app: What answers requests.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(_THREADS, "cdec")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            # Artifacts may take seconds to open: before the first request, if they can be.
            self._threads.submit(checking)
        if scope["type"] != "http" or scope.get("method") != "POST":
            await self._app(scope, receive, send)
            return
        messages = await _whole(receive)
        loop = asyncio.get_running_loop()
        made: dict[str, CdecError | None] = {}
        for value in _asked(b"".join(message.get("body", b"") for message in messages)):
            made[value] = await loop.run_in_executor(self._threads, outcome, value)
        token = MADE.set(made)
        try:
            await self._app(scope, _again(messages, receive), send)
        finally:
            MADE.reset(token)


async def _whole(receive: Receive) -> list[Message]:
    """Return the messages of a request's body, up to its last or to the client's going."""
    messages = [await receive()]
    while messages[-1]["type"] == "http.request" and messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Return what gives messages that were received once more, and then those that come."""
    waiting: Iterator[Message] = iter(messages)

    async def received() -> Message:
        for message in waiting:
            return message
        return await receive()

    return received


def _asked(body: bytes) -> list[str]:
    """Return what a request's body asks of its constraint; nothing where it is not to be read."""
    if ARGUMENTS.encode() not in body:
        return []
    try:
        value = orjson.loads(body)[ARGUMENTS][FIELD]
    except (ValueError, KeyError, TypeError, IndexError):
        return []
    # vLLM lets texts in, and refuses the rest itself.
    return [value] if isinstance(value, str) else []
