"""Plots of lines in black and white, with bands, from a description that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdec.data.reports.plots import DASHES, MARKERS, Plot, plain, require_plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = (5.4, 3.7)


def line_plot(described: Mapping[str, Any]) -> Plot:
    """Return the plot that a description is of.

    Args:
        described: ``name``, ``caption``, labels of the axes ``x`` and ``y``, ``log_x``, ``log_y``,
            and ``lines``, each with ``label``, ``x``, ``y`` and, for a band, ``low`` and ``high``;
            a null is a gap.

    Raises:
        ExtraMissingError: matplotlib is not installed.
    """
    figure = require_plots()(figsize=_INCHES, layout="constrained")
    axes = figure.subplots()
    for place, line in enumerate(described["lines"]):
        _draw(axes, line, place)
    axes.set_xlabel(described["x"], parse_math=False)
    axes.set_ylabel(described["y"], parse_math=False)
    if described["log_x"]:
        axes.set_xscale("log")
    if described["log_y"]:
        axes.set_yscale("log")
    axes.grid(color="#ddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8)
    return Plot(described["name"], described["caption"], figure)


def _draw(axes: Axes, line: Mapping[str, Any], place: int) -> None:
    x, y, low, high = (
        [float("nan") if value is None else value for value in line.get(name) or ()]
        for name in ("x", "y", "low", "high")
    )
    if low and high:
        axes.fill_between(x, low, high, color="black", alpha=0.12, linewidth=0)
    is_sparse = len(x) <= 20
    axes.plot(
        x,
        y,
        DASHES[place % len(DASHES)],
        marker=MARKERS[place % len(MARKERS)] if is_sparse else None,
        color="black",
        markersize=4,
        linewidth=1,
        label=plain(line["label"]),
    )
