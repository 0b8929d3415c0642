"""Plots in black and white: metrics with their intervals, reliability, quality against cost."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cdec.core.errors import ExtraMissingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLOTS = ("metrics", "reliability", "cost")
"""Names of all plots that an evaluation may have."""
FORMS = ("svg", "png")
MARKERS = "osD^vPX*<>"
DASHES = ("-", "--", ":", "-.")
_PANELS = 3
"""Panels of metrics in a row."""
_INCHES = 3.1


@dataclass(frozen=True)
class Plot:
    """A plot, drawn when it is written.

    Attributes:
        name: Ends the names of its files.
        caption: One sentence below it.
        figure: Of matplotlib.
        is_wide: Whether it is as wide as a page.
    """

    name: str
    caption: str
    figure: Figure
    is_wide: bool = False

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """The plot as files by form, ``svg`` and ``png``; equal plots are equal files."""
        return {form: self._drawn(form) for form in FORMS}

    def _drawn(self, form: str) -> bytes:
        from matplotlib import rc_context

        out = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        with rc_context({"svg.hashsalt": self.name, "svg.fonttype": "none"}):
            self.figure.savefig(out, format=form, metadata=metadata, dpi=200)
        return out.getvalue()


def require_plots() -> type[Figure]:
    """Return the class of figures.

    Raises:
        ExtraMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ExtraMissingError(
            "plots need the package matplotlib", hint='pip install "cdec[report]"'
        ) from error
    return Figure


def plots_of(evaluation: Mapping[str, Any], metrics: Sequence[str]) -> list[Plot]:
    """Return the plots of an evaluation.

    Args:
        evaluation: As ``Evaluation.to_json`` returns it.
        metrics: Those that get a panel, in their order.

    Raises:
        ExtraMissingError: matplotlib is not installed.
    """
    figures = require_plots()
    systems = evaluation["systems"]
    units = evaluation["units"]
    found = [_intervals(figures, systems, metrics, units)] if metrics else []
    if any(system["reliability"] for system in systems):
        found.append(_reliability(figures, systems))
    quality = next((m for m in metrics if units[m] == "share" and _is_known(systems, m)), None)
    if quality is not None and _is_known(systems, "target_calls"):
        found.append(_against_cost(figures, systems, quality))
    return found


def _is_known(systems: Sequence[Mapping[str, Any]], metric: str) -> bool:
    return all(metric in system["metrics"] for system in systems)


def _intervals(
    figures: type[Figure],
    systems: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
    units: Mapping[str, str],
) -> Plot:
    """Return a panel a metric: a point and an interval a system."""
    rows = math.ceil(len(metrics) / _PANELS)
    height = 0.9 + 0.22 * len(systems)
    figure = figures(figsize=(_PANELS * _INCHES, rows * height), layout="constrained")
    names = [system["name"] for system in systems]
    grid = figure.subplots(rows, _PANELS, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(metrics):
            axes.set_axis_off()
            continue
        metric = metrics[place]
        for row, system in enumerate(systems):
            _point(axes, system["metrics"].get(metric), row, MARKERS[row % len(MARKERS)])
        is_first = place % _PANELS == 0
        axes.set_yticks(
            range(len(names)), names if is_first else [""] * len(names), parse_math=False
        )
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(f"{metric}, {units[metric]}", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", color="#ddd", linewidth=0.6)
        axes.set_axisbelow(True)
    return Plot("metrics", "Each metric with its bootstrap interval.", figure, is_wide=True)


def _point(axes: Axes, result: Mapping[str, Any] | None, row: int, marker: str) -> None:
    if result is None or not isinstance(result["value"], int | float):
        said = "not known" if result is None or result["value"] is None else str(result["value"])
        axes.text(0.02, row, said, va="center", fontsize=8, transform=axes.get_yaxis_transform())
        return
    ends = [result["lower"], result["upper"]]
    if all(isinstance(end, int | float) for end in ends):
        axes.plot(ends, [row, row], color="black", linewidth=1.4)
    axes.plot([result["value"]], [row], marker, color="black", markersize=5)


def _reliability(figures: type[Figure], systems: Sequence[Mapping[str, Any]]) -> Plot:
    figure = figures(figsize=(1.6 * _INCHES, 1.4 * _INCHES), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999", linewidth=0.8)
    for place, system in enumerate(systems):
        rows = system["reliability"]
        if rows:
            axes.plot(
                [row["probability"] for row in rows],
                [row["accuracy"] for row in rows],
                MARKERS[place % len(MARKERS)] + DASHES[place % len(DASHES)],
                color="black",
                markersize=4,
                linewidth=1,
                label=plain(system["name"]),
            )
    axes.set_xlabel("probability that was said")
    axes.set_ylabel("share of right answers")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize=8)
    caption = "Reliability: on the diagonal answers are right as often as was said."
    return Plot("reliability", caption, figure)


def frontier_plot(
    candidates: Sequence[Mapping[str, Any]], chosen: str, labels: tuple[str, str]
) -> Plot:
    """Return quality against cost, with the frontier: those than which none is cheaper and better.

    Args:
        candidates: By rising cost, each with ``cell``, ``cost`` and ``quality`` (value, lower,
            upper), ``cheap`` and ``frontier``.
        chosen: The cell that is named.
        labels: Of cost and of quality, with their units.

    Raises:
        ExtraMissingError: matplotlib is not installed.
    """
    figure = require_plots()(figsize=(1.8 * _INCHES, 1.3 * _INCHES), layout="constrained")
    axes = figure.subplots()
    best = [each for each in candidates if each["frontier"]]
    axes.plot(*_places(best), drawstyle="steps-post", color="#888", linewidth=0.8, zorder=1)
    for each in candidates:
        (x,), (y,) = _places([each])
        for found, is_across in ((each["cost"], True), (each["quality"], False)):
            ends = [found["lower"], found["upper"]]
            if all(isinstance(end, int | float) for end in ends):
                line = (ends, [y, y]) if is_across else ([x, x], ends)
                axes.plot(*line, color="#ccc", linewidth=0.8, zorder=0)
        filling = "black" if each["cell"] == chosen else "#999" if each["cheap"] else "white"
        axes.plot([x], [y], "o", color="black", markerfacecolor=filling, markersize=5, zorder=2)
    at = next(each for each in candidates if each["cell"] == chosen)
    axes.set_title(f"chosen: {plain(chosen)}", fontsize=9)
    (x,), (y,) = _places([at])
    axes.plot([x], [y], "o", color="black", markersize=10, fillstyle="none", zorder=3)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(color="#eee", linewidth=0.6)
    caption = "Grey: the cheapest; ringed: the one that is chosen; the line is the frontier."
    return Plot("frontier", caption, figure)


def _places(candidates: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    return (
        [each["cost"]["value"] for each in candidates],
        [each["quality"]["value"] for each in candidates],
    )


def _against_cost(figures: type[Figure], systems: Sequence[Mapping[str, Any]], metric: str) -> Plot:
    figure = figures(figsize=(1.6 * _INCHES, 1.2 * _INCHES), layout="constrained")
    axes = figure.subplots()
    for place, system in enumerate(systems):
        cost, quality = (system["metrics"][name] for name in ("target_calls", metric))
        x, y = cost["value"], quality["value"]
        if y is None or isinstance(y, str):
            continue
        for found, ends in ((cost, "x"), (quality, "y")):
            low, high = found["lower"], found["upper"]
            if isinstance(low, int | float) and isinstance(high, int | float):
                line = ([low, high], [y, y]) if ends == "x" else ([x, x], [low, high])
                axes.plot(*line, color="#888", linewidth=0.8)
        marker = MARKERS[place % len(MARKERS)]
        axes.plot([x], [y], marker, color="black", label=plain(system["name"]), linestyle="none")
    axes.set_xlabel("calls of the model a sample")
    axes.set_ylabel(f"{metric}, share")
    axes.grid(color="#ddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=8)
    return Plot("cost", f"What {metric} costs, with the intervals of both.", figure)


def plain(name: str) -> str:
    """Return a label that matplotlib shows as it is: no formula, and not left out."""
    return name.replace("$", r"\$") if not name.startswith("_") else " " + name.replace("$", r"\$")
