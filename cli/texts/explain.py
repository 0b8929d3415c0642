"""``check --explain``: the steps of a text as rows for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADER = ("byte", "token", "allowed", "forced", "ends", "reading", "stack")
_SHOWN_TERMINALS = 4


def explained_row(step: Mapping[str, Any]) -> list[str]:
    """Return a step as cells under ``HEADER``."""
    cells = [str(step["byte"]), f'"{step["token"]}"', f"{step['allowed_count']:,}"]
    cells += ["yes" if step["forced"] else "", "yes" if step["may_end"] else ""]
    if not step["is_allowed"]:
        allowed = ", ".join(f'"{piece}"' for piece in step["allowed"])
        wanted = " ".join(step["terminals"])
        reading = f"refused at byte {step['refused_byte']}; expected {wanted}; such as {allowed}"
    else:
        reading = " | ".join(_shown_reading(reading) for reading in step["readings"])
        hidden = step["readings_count"] - len(step["readings"])
        if hidden:
            reading += f" | ... {hidden} more"
    return [*cells, reading, " ".join(step["stack"])]


def _shown_reading(reading: Mapping[str, Any]) -> str:
    """Return the terminals that a reading may be inside of; those that begin next, if none."""
    names = _unique(reading["under_way"])
    lead = "in" if names else "before"
    names = _unique([name for name in reading["viable"] if not names or name in names])
    more = " ..." if len(names) > _SHOWN_TERMINALS else ""
    return f"{lead} {' '.join(names[:_SHOWN_TERMINALS]) or '(end)'}{more}"


def _unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))
