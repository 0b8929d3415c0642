"""Page of an evaluation: what was evaluated, plots, metrics, differences, what metrics mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdec.core.errors import DataError
from cdec.data.reports.page import DOCUMENT_STYLE, PAGE_END, figure, page_head, safe, table
from cdec.data.reports.plots import Plot, plots_of

_COUNTS = ("records", "samples", "failed", "missing", "unreferenced")
_MOST_PANELS = 12


def read_evaluation(value: Any, name: str) -> Mapping[str, Any]:
    """Return a JSON value that is an evaluation.

    Raises:
        DataError: It is none, or of a version that this one does not read.
    """
    keys = {"systems", "comparisons", "meanings", "units", "confidence", "resamples"}
    fits = isinstance(value, dict) and keys <= value.keys() and _fits(value["systems"])
    if not fits:
        raise DataError(
            f"{name} is no evaluation",
            hint="give what an evaluation wrote as JSON, or samples to evaluate",
        )
    found: Mapping[str, Any] = value
    return found


def _fits(systems: Any) -> bool:
    texts = ("name", "file", "method")
    return isinstance(systems, list) and all(
        isinstance(each, dict)
        and all(isinstance(each.get(key), str) for key in texts)
        and all(isinstance(each.get(key), int) for key in _COUNTS)
        and isinstance(each.get("reliability"), list)
        and isinstance(each.get("metrics"), dict)
        and all(
            isinstance(r, dict) and {"value", "lower", "upper"} <= r.keys()
            for r in each["metrics"].values()
        )
        for each in systems
    )


def plots(evaluation: Mapping[str, Any]) -> list[Plot]:
    """Return the plots of an evaluation: of metrics that tell systems apart, at most twelve.

    Raises:
        ExtraMissingError: matplotlib is not installed.
    """
    return plots_of(evaluation, _told_apart(evaluation)[:_MOST_PANELS])


def _told_apart(evaluation: Mapping[str, Any]) -> list[str]:
    """Return the metrics in which systems differ, all of them where there is but one system."""
    systems = evaluation["systems"]
    found = []
    for name in evaluation["meanings"]:
        values = {str(each["metrics"].get(name, {}).get("value")) for each in systems}
        if len(systems) == 1 or len(values) > 1:
            found.append(name)
    return found


def page(evaluation: Mapping[str, Any], drawn: Sequence[Plot], title: str) -> Iterator[str]:
    """Yield the parts of the page; nothing of the evaluation stands in it unescaped.

    Args:
        evaluation: As ``Evaluation.to_json`` returns it.
        drawn: Its plots, which stand in the page as SVG.
        title: Of the page.
    """
    systems = evaluation["systems"]
    yield page_head(title, DOCUMENT_STYLE)
    yield f"<h1>{safe(title)}</h1>\n"
    yield table(
        ["system", "file", "method", *_COUNTS],
        [[each[key] for key in ("name", "file", "method", *_COUNTS)] for each in systems],
    )
    share = f"{evaluation['confidence']:.0%}"
    yield (
        f'<p class="n">Intervals hold {share} of {evaluation["resamples"]:,} bootstrap resamples '
        "of the records. p is that of a paired randomisation test on the records of both systems, "
        "and not corrected for the number of metrics.</p>\n"
    )
    for plot in drawn:
        yield figure(plot.files["svg"], plot.caption, is_wide=plot.is_wide)
    yield "<h2>Metrics</h2>\n"
    names = [each["name"] for each in systems]
    rows = [
        [m, *(_cell(each["metrics"].get(m)) for each in systems)] for m in evaluation["meanings"]
    ]
    yield table(["", *names], rows)
    yield from _differences(evaluation["comparisons"])
    yield "<h2>What metrics mean</h2>\n<dl>"
    for name, meaning in evaluation["meanings"].items():
        yield f"<dt>{safe(name)}, {safe(evaluation['units'][name])}</dt><dd>{safe(meaning)}</dd>\n"
    yield "</dl>" + PAGE_END


def _differences(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table of differences, and the metrics in which two systems never differ."""
    rows, equal = [], []
    for each in comparisons:
        numbers = [each[name] for name in ("difference", "lower", "upper")]
        pair = f"{each['second']} − {each['first']}"
        if numbers == [0.0, 0.0, 0.0] and each["p_value"] == 1.0:
            equal.append(f"{each['metric']} ({pair})")
            continue
        value, lower, upper, p = map(_shown, [*numbers, each["p_value"]])
        rows.append([each["metric"], pair, value, f"[{lower}, {upper}]", p, each["records"]])
    if rows:
        yield "<h2>Differences</h2>\n"
        yield table(["metric", "difference", "", "interval", "p", "records"], rows)
    if equal:
        yield f'<p class="n">No difference on any record: {safe(", ".join(equal))}.</p>\n'


def _cell(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return ""
    ends = result["lower"], result["upper"]
    told = "" if None in ends else f" [{', '.join(map(_shown, ends))}]"
    return _shown(result["value"]) + told


def _shown(value: object) -> str:
    return (
        f"{value:.4g}" if isinstance(value, int | float) else ("-" if value is None else str(value))
    )
