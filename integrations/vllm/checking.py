"""Checking: a request's constraint, found or made before the engine gets the request.

vLLM asks a processor about a request on the event loop of its server, where nothing may compile:
``ConstraintMiddleware`` has it made on a thread before, and leaves here what came of it. Nothing
here needs vLLM. Compiled kernels are imported where they are used: vLLM's start on a CPU fails once
they are.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

from cdec.core.errors import CdecError
from cdec.integrations.serving.settings import ServingSettings

if TYPE_CHECKING:
    from cdec.integrations.serving.constraints import ServedConstraints

MADE: ContextVar[Mapping[str, CdecError | None]] = ContextVar("cdec_made")
"""What came of what this HTTP request asks, by its JSON text: None where it is there."""
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
