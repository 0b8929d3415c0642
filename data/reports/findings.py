"""Page of findings: what each shows and whether it holds, then its checks, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdec.data.reports.lines import line_plot
from cdec.data.reports.page import DOCUMENT_STYLE, PAGE_END, figure, page_head, safe, table
from cdec.data.reports.plots import Plot

_TITLE = "Findings"


def plots(finding: Mapping[str, Any]) -> list[Plot]:
    """Return the plots of a finding; those of one that was not run are none.

    Raises:
        ExtraMissingError: matplotlib is not installed.
    """
    return [line_plot(described) for described in finding.get("plots", ())]


def page(
    findings: Sequence[Mapping[str, Any]], drawn: Mapping[str, Sequence[Plot]]
) -> Iterator[str]:
    """Yield the parts of the page; nothing of the findings stands in it unescaped.

    Args:
        findings: As their files hold them.
        drawn: Plots by the name of the finding.
    """
    yield page_head(_TITLE, DOCUMENT_STYLE)
    yield f"<h1>{_TITLE}</h1>\n"
    heads = ("", "holds", "paper", "where")
    yield table(heads, [[f[key] for key in ("name", "state", "paper", "place")] for f in findings])
    for finding in findings:
        yield from _finding(finding, drawn.get(finding["name"], ()))
    yield PAGE_END


def _finding(finding: Mapping[str, Any], drawn: Sequence[Plot]) -> Iterator[str]:
    yield f"<h2>{safe(finding['name'])}</h2>\n"
    told = f"{finding['paper']}, {finding['place']}: {finding['state']}"
    reason = f" ({finding['reason']})" if "reason" in finding else ""
    yield f'<p class="n">{safe(told + reason)}</p>\n<p>{safe(finding["sentence"])}</p>\n'
    yield f"<p>What differs: {safe(finding['differs'])}</p>\n"
    if said := task_models(finding):
        yield f"<p>{safe(said)}</p>\n"
    if checks := finding.get("checks"):
        rows = [
            [c["said"], shown(c["value"]), bounds(c), "yes" if c["holds"] else "no"] for c in checks
        ]
        yield table(("what was computed", "", "must be", "holds"), rows)
    for plot in drawn:
        yield figure(plot.files["svg"], plot.caption)
    for each in (*finding.get("tables", ()), *finding.get("times", ())):
        yield f'<p class="n">{safe(each["title"])}</p>\n'
        yield table(each["columns"], [[shown(cell) for cell in row] for row in each["rows"]])


def task_models(finding: Mapping[str, Any]) -> str:
    """Say which task models a finding took and which were not there; "" where it takes none."""
    models = finding.get("task_models", {}).items()
    said = (f"{name} {digest or '(not there: the model instead)'}" for name, digest in models)
    return f"Task models: {', '.join(said)}" if models else ""


def bounds(check: Mapping[str, Any]) -> str:
    """Return the bounds of a check for people: ``0.9 to 1.1``, ``at most 5``."""
    least, most = check["at_least"], check["at_most"]
    if None not in (least, most):
        return f"{shown(least)} to {shown(most)}"
    return f"at least {shown(least)}" if most is None else f"at most {shown(most)}"


def shown(value: object) -> str:
    """Return a cell for people: floats with four digits."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
