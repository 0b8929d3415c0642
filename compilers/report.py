"""Reports of compilations: what was done, in which time, and whether another gave the same."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cdec.core.errors import ArtifactInvalidError, Notice
from cdec.core.progress import Progress, Stage

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from cdec.core.artifacts.read import ArtifactFile


@dataclass(slots=True)
class SourceReport:
    """Report of a compilation.

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
        """Return what ``to_json`` says of this kind of source alone: its own fields."""
        common = {declared.name for declared in fields(SourceReport)}
        own = (declared.name for declared in fields(self) if declared.name not in common)
        return {name.removeprefix("is_"): getattr(self, name) for name in own}

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


class Clock(Generic[ReportT]):
    """Tells which phase a compilation is in, and notes in its report how long each took.

    Args:
        report: Its ``seconds`` by phase are written.
        phases: Every phase in its order, and what progress calls it.
        progress: Told when a phase begins.
    """

    def __init__(self, report: ReportT, phases: Mapping[str, str], progress: Progress) -> None:
        self.report = report
        self._phases = phases
        self._progress = progress

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block as one phase; one that raises is not noted."""
        number = list(self._phases).index(name)
        self._progress(Stage(self._phases[name], number, len(self._phases), "stages"))
        started = time.perf_counter()
        yield
        taken = time.perf_counter() - started
        seconds = self.report.seconds
        seconds[name] = seconds.get(name, 0.0) + taken


@dataclass(slots=True)
class Comparison:
    """An artifact held against what was compiled again.

    Attributes:
        file: The artifact.
        same: Columns and entries of the metadata that are equal.
        differing: Those that are not.
        given: Those that the rest follows from, or that follow from nothing in the artifact.
    """

    file: ArtifactFile
    same: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)

    def columns(self, again: Mapping[str, NDArray[Any]]) -> None:
        """Compare columns; bit by bit, all of them."""
        # No help on options needs it.
        import numpy as np

        for name, array in again.items():
            self.hold(name, np.array_equal(self.file.arrays[name], array))

    def entries(self, again: Mapping[str, str]) -> None:
        """Compare entries of the metadata, as text."""
        for name, value in again.items():
            self.hold(name, self.file.metadata.get(name) == value)

    def hold(self, name: str, is_same: bool) -> None:
        """Note whether one column or entry is what it should be."""
        (self.same if is_same else self.differing).append(name)

    def finish(self) -> None:
        """Note what was taken as it is.

        Raises:
            ArtifactInvalidError: Something differs; it names all that does.
        """
        known = {*self.same, *self.differing}
        names = [*self.file.arrays, *self.file.metadata]
        self.given = [name for name in names if name not in known]
        if self.differing:
            raise ArtifactInvalidError(
                f"{self.file.path} is not what its source compiles to: {', '.join(self.differing)} "
                f"of {len(known)} columns and entries differ",
                hint="compile it again from a source that you trust",
                path=str(self.file.path),
                differing=list(self.differing),
            )

    def to_json(self) -> dict[str, list[str]]:
        """Return what was found, JSON-ready."""
        return {"same": self.same, "given": self.given}
