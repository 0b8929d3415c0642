"""Warnings that records carry: a constraint that the model fought, loops, spent budgets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

LOW_Z, WHITESPACE, CYCLE, BUDGET = "W_LOW_Z", "W_WHITESPACE", "W_CYCLE", "W_BUDGET"
"""Codes: a step with next to no allowed mass; white space that goes on; bytes that repeat; no draw
accepted within the budget."""
MOST_NEEDED = 1_000_000
"""Draws from which on their estimated number tells nothing more."""
LEAST_Z = 1e-3
"""Below this share of the model's mass a step is one that the model did not want."""
LOOP_BYTES = 128
"""White space, or repeated bytes, are a loop from this many bytes on."""
LOOP_REPEATS = 4
"""Repeated bytes are a loop from this many repeats on, the first one counted."""
LONGEST_CYCLE = 256
"""Longest repeated piece that is looked for, in bytes."""


def low_z(token: int, byte: int, log_z: float) -> dict[str, object]:
    """Return the warning of the step with the least Z, where that is below ``LEAST_Z``.

    Args:
        token: Tokens before the step. byte: Bytes before it. log_z: Of the step.
    """
    return {"code": LOW_Z, "token": token, "byte": byte, "log_z": log_z}


def loop(token: int, byte: int, length: int, period: int) -> dict[str, object]:
    """Return the warning of a loop.

    Args:
        token: The token that its first byte is of. byte: Bytes before it.
        length: Its bytes. period: Of the repeated piece; 0 for white space.
    """
    where: dict[str, object] = {"token": token, "byte": byte, "bytes": length}
    if period:
        return {"code": CYCLE, **where, "period": period}
    return {"code": WHITESPACE, **where}


def over_budget(needed: float, max_draws: int) -> dict[str, object]:
    """Return the warning of a sample for which no candidate was accepted within the budget.

    Args:
        needed: Candidates per sample, estimated. max_draws: Those that were allowed.
    """
    draws = {"needed": round(min(needed, MOST_NEEDED)), "max_draws": max_draws}
    return {"code": BUDGET, "token": 0, "byte": 0, **draws}


def about(draws: float) -> str:
    """Return an estimate in words, with two figures that count."""
    if draws >= MOST_NEEDED:
        return f"more than {MOST_NEEDED:,}"
    return f"about {round(draws, 1 - math.floor(math.log10(draws))):,.0f}"


def shifted(
    warnings: Sequence[Mapping[str, Any]], tokens: int, length: int
) -> list[dict[str, object]]:
    """Return warnings of a part of a text as warnings of the text.

    Args:
        warnings: Of the part. tokens: Before it. length: Bytes before it.
    """
    return [
        {**each, "token": each["token"] + tokens, "byte": each["byte"] + length}
        for each in warnings
    ]


def described(warning: Mapping[str, Any]) -> str:
    """Return a warning in words."""
    if warning["code"] == BUDGET:
        return (
            f"no draw was accepted within `max_draws` {warning['max_draws']:,}, and a sample "
            f"needs {about(warning['needed'])}: disc, or smc with weights, costs less"
        )
    at = f"at token {warning['token']}, byte {warning['byte']}"
    if warning["code"] == LOW_Z:
        return f"Z is {math.exp(warning['log_z']):.2g} {at}: the model fought the constraint"
    if warning["code"] == WHITESPACE:
        return (
            f"{warning['bytes']} bytes of white space {at}: `whitespace` usual or compact of a "
            "schema, `max_whitespace` of a grammar allow less"
        )
    return f"the same {warning['period']} bytes again and again for {warning['bytes']} bytes {at}"
