"""What a compilation reports, whatever the kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cdec.core.errors import Notice

if TYPE_CHECKING:
    from typing import Self


@dataclass(slots=True)
class SourceReport:
    """What a compilation did.

    Attributes:
        path: The artifact.
        counts: Sizes of what was made, by name.
        bytes: Size of the artifact.
        seconds: Seconds by phase; ``total`` is wall time.
        notices: Warnings.
    """

    path: Path
    counts: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON-ready object; the counts are entries of it."""
        return {
            "path": str(self.path),
            **self._described(),
            **self.counts,
            "bytes": self.bytes,
            "seconds": {phase: round(value, 4) for phase, value in self.seconds.items()},
            "notices": [
                {"code": notice.code, "message": notice.message, **notice.details}
                for notice in self.notices
            ],
        }

    def _described(self) -> dict[str, Any]:
        """Return what ``to_json`` says of this kind of source alone."""
        return {}

    def to_message(self) -> dict[str, Any]:
        """Return the fields, JSON-ready, from which ``from_message`` makes the report again."""
        notices = [[notice.code, notice.message, notice.details] for notice in self.notices]
        values = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return values | {"path": str(self.path), "notices": notices}

    @classmethod
    def from_message(cls, values: Mapping[str, Any]) -> Self:
        """Return the report that ``to_message`` wrote; tuples have become lists."""
        notices = [Notice(*notice) for notice in values["notices"]]
        return cls(**{**values, "path": Path(values["path"]), "notices": notices})


ReportT = TypeVar("ReportT", bound=SourceReport)
