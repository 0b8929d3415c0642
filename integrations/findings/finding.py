"""A finding: what a table or figure of a paper shows, as checks of numbers that were computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdec.integrations.findings.laboratory import Laboratory


@dataclass(frozen=True)
class Check:
    """An inequality that a finding rests on.

    Attributes:
        said: What is compared, in one clause.
        value: What was computed.
        at_least: Its lower bound; None for none.
        at_most: Its upper bound; None for none.
    """

    said: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the value is within both bounds; a NaN is not."""
        above = self.at_least is None or self.value >= self.at_least
        below = self.at_most is None or self.value <= self.at_most
        return above and below and not math.isnan(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return the check with what it says."""
        return asdict(self) | {"holds": self.holds}


@dataclass(frozen=True)
class Table:
    """A table: numbers and texts in rows.

    Attributes:
        title: With the units.
        columns: Heads. rows: As many cells each.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Line:
    """A line of a plot, with a band where ``low`` and ``high`` are given."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Plot:
    """A plot of lines.

    Attributes:
        name: Ends the names of its files.
        caption: One sentence.
        x: Label of the axis, with its unit. y: Likewise.
        log_x: Whether the axis is logarithmic. log_y: Likewise.
    """

    name: str
    caption: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Found:
    """What a finding's function computed.

    Attributes:
        checks: The finding holds if all of them do.
        tables: The same whenever it is computed with the same settings.
        plots: Likewise.
        times: Tables of measured times, which are never the same twice.
        nothing: Why nothing is claimed, and so the finding was not run; empty if something is.
    """

    checks: Sequence[Check]
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    times: Sequence[Table] = ()
    nothing: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all of it, JSON-ready."""
        return {
            "checks": [check.to_json() for check in self.checks],
            "tables": [asdict(table) for table in self.tables],
            "plots": [asdict(plot) for plot in self.plots],
            "times": [asdict(table) for table in self.times],
        }


@dataclass(frozen=True)
class Finding:
    """A line of the list of findings, known before anything is computed.

    Attributes:
        name: As it is asked for, and that of its files.
        paper: Short name and arXiv number.
        place: Table, figure or theorem there.
        sentence: The law or inequality that it shows.
        differs: Where this differs from the paper, and why.
        function: ``module:function`` within the room; takes a laboratory, returns ``Found``.
        needs: Folders of data, below that of ``data``; without them the finding is not run.
        uses: Names of the settings that decide what it shows.
        tasks: Names of the task models that it takes where they are there.
        given: Names of the settings without which the finding is not run.
        packages: What it imports beyond cdec's own needs; without them the finding is not run.
    """

    name: str
    paper: str
    place: str
    sentence: str
    differs: str
    function: str
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    def compute(self, laboratory: Laboratory) -> Found:
        """Compute the finding.

        Raises:
            CdecError: What the samplers raise.
        """
        module, name = self.function.split(":")
        found: Found = getattr(import_module(f"cdec.integrations.findings.{module}"), name)(
            laboratory
        )
        return found

    def missing(self, laboratory: Laboratory) -> str | None:
        """Return what is needed and not there; None where nothing is missing."""
        names = [f"`{name}`" for name in self.given if getattr(laboratory, name) is None]
        if names:
            return f"give {' and '.join(names)}"
        packages = [name for name in self.packages if find_spec(name) is None]
        for kind, absent in (("data", laboratory.missing(self.needs)), ("packages", packages)):
            if absent:
                return f"{kind} absent: {', '.join(absent)}"
        return None

    def to_json(self) -> dict[str, str]:
        """Return what is known beforehand, JSON-ready."""
        names = ("name", "paper", "place", "sentence", "differs")
        return {name: getattr(self, name) for name in names}


def largest(values: Mapping[Any, float] | Sequence[float]) -> float:
    """Return the largest of some numbers, NaN if one is: a check must not hide it."""
    numbers = list(values.values()) if isinstance(values, Mapping) else list(values)
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)
