"""What a schema compilation reports: the phase it is in, and at the end what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdec.core.errors import Notice

PHASES = {
    "read": "reading the schema",
    "expand": "expanding the schema",
    "emit": "building automata",
    "write": "writing",
}
"""Every phase in its order, and what progress calls it."""


@dataclass(slots=True)
class SchemaReport:
    """What a schema compilation did.

    Attributes:
        path: The artifact.
        draft: Of JSON Schema, as ``$schema`` says: ``2020-12``, ``draft-07`` and so on.
        unenforced: Keywords that masks do not enforce, each an object with ``path`` (JSON pointer),
            ``keyword`` and ``reason``; empty unless compiled leniently.
        counts: Values, objects, arrays, states and so on.
        costs: What each keyword took, by keyword: ``uses``, ``seconds``, ``alternatives``.
        bytes: Size of the artifact.
        seconds: Seconds by phase; ``total`` is wall time.
        notices: Warnings.
    """

    path: Path
    draft: str = ""
    unenforced: list[dict[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON-ready object."""
        return {
            "path": str(self.path),
            "draft": self.draft,
            "unenforced": self.unenforced,
            **self.counts,
            "costs": self.costs,
            "bytes": self.bytes,
            "seconds": {phase: round(value, 4) for phase, value in self.seconds.items()},
            "notices": [
                {"code": notice.code, "message": notice.message, **notice.details}
                for notice in self.notices
            ],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], counts: Mapping[str, int]) -> SchemaReport:
        """Return the report that ``to_json`` wrote.

        Args:
            values: The object.
            counts: The part of it that is ``counts``.
        """
        notices = [
            Notice(
                notice["code"],
                notice["message"],
                {key: value for key, value in notice.items() if key not in ("code", "message")},
            )
            for notice in values["notices"]
        ]
        return cls(
            path=Path(values["path"]),
            draft=values["draft"],
            unenforced=list(values["unenforced"]),
            counts=dict(counts),
            costs=dict(values["costs"]),
            bytes=values["bytes"],
            seconds=dict(values["seconds"]),
            notices=notices,
        )
