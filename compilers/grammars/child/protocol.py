"""What parent and child say to each other: length-prefixed JSON with byte strings behind it."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from cdec.core import errors as core_errors
from cdec.core.errors import CdecError
from cdec.core.grammars import errors as grammar_errors
from cdec.core.progress import Stage

MAX_FRAME = 1 << 31
"""Bytes of one message; a longer one means that the stream is broken."""

_SIZES = struct.Struct("<QQ")


class Message(NamedTuple):
    """One message: a JSON object and a byte string."""

    body: dict[str, Any]
    data: bytes = b""


def pack(message: Message) -> bytes:
    """Return a message as it travels: two lengths, JSON, bytes."""
    body = json.dumps(message.body, default=str).encode()
    return _SIZES.pack(len(body), len(message.data)) + body + message.data


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything to a pipe."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class Inbox:
    """Puts messages together from the pieces that a pipe gives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes in and yield each message that is complete.

        Raises:
            ValueError: What came is no message.
        """
        self._buffer += data
        while len(self._buffer) >= _SIZES.size:
            body, extra = _SIZES.unpack_from(self._buffer)
            if body + extra > MAX_FRAME:
                raise ValueError(f"a message of {body + extra} bytes")
            end = _SIZES.size + body + extra
            if len(self._buffer) < end:
                return
            text = bytes(self._buffer[_SIZES.size : _SIZES.size + body])
            rest = bytes(self._buffer[_SIZES.size + body : end])
            del self._buffer[:end]
            yield Message(json.loads(text), rest)


def stage_message(stage: Stage) -> Message:
    """Return the message that tells how far work is."""
    return Message({"kind": "stage", "stage": asdict(stage)})


def told_stage(message: Message | None) -> Stage | None:
    """Return how far work is; None for another message, or none."""
    if message is None or message.body["kind"] != "stage":
        return None
    return Stage(**message.body["stage"])


def error_to_json(error: CdecError) -> dict[str, Any]:
    """Return an error as a JSON-ready object from which ``error_from_json`` makes it again."""
    return {
        "class": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "details": error.details,
    }


def error_from_json(values: Mapping[str, Any]) -> CdecError:
    """Return the error of the same class, text and details."""
    found = _ERRORS.get(str(values["class"]), CdecError)
    details: dict[str, Any] = values["details"]
    return found(values["message"], hint=values["hint"], **details)


def _error_classes(modules: Sequence[Any]) -> dict[str, type[CdecError]]:
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, CdecError)
    }


_ERRORS = _error_classes((core_errors, grammar_errors))
