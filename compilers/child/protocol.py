"""What the compiling child says besides results: how far it is, and errors as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cdec.core import errors as core_errors
from cdec.core.child.protocol import Message
from cdec.core.errors import CdecError
from cdec.core.grammars import errors as grammar_errors
from cdec.core.progress import Stage
from cdec.core.schemas import errors as schema_errors


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


_ERRORS = _error_classes((core_errors, grammar_errors, schema_errors))
