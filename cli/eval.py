"""``cdec eval``: metrics of samples, with intervals, and what differs between methods."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.frame.tables import print_columns, print_json, print_table
from cdec.cli.options import shared
from cdec.cli.options.evaluation import EvaluationOptions
from cdec.cli.runs.evaluation import evaluated, refuse_stdin_twice
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.data.metrics.evaluation import Comparison, Evaluation, Result


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec eval``; the documented defaults stand here."""

    files: list[str] = option(
        MISSING,
        "What `cdec sample` or `cdec classify` wrote; several are compared; `-` is stdin.",
        metavar="FILE...",
        positional=True,
    )
    evaluation: EvaluationOptions = group(EvaluationOptions)
    json: bool = option(False, "Print one JSON object.", shared.OUTPUT, common=True)
    csv: bool = option(False, "Print a row a metric and system.", shared.OUTPUT, common=True)
    progress: bool | None = shared.progress_option()


def execute(options: Options, run: Run) -> int:
    """Compute metrics of samples, and compare methods.

    A system is one file's samples of one method. Each metric has a bootstrap interval over records;
    each two systems are compared on the records that both have, with a paired randomisation test
    (p, not corrected for the number of metrics); the table shows the first against the others.
    Draws count with the weights of their record. A record with a reference that failed, or has no
    sample, counts as answered wrongly. Without --metrics all are shown that the files allow.

    \b
    Examples:
      cdec eval masked.jsonl disc.jsonl --references refs.jsonl
      cdec sample -a set.arrow -i q.jsonl --method topn -n 10 | cdec eval - --at 1,10
      cdec eval masked.jsonl exact.jsonl --target all.jsonl --metrics kl,tv
      cdec eval *.jsonl --references refs.jsonl --json > eval.json
    """
    if options.json and options.csv:
        raise UsageError("--json and --csv were both given", hint="give one of them")
    refuse_stdin_twice(options.files, options.evaluation)
    found = evaluated(options.files, options.evaluation, run)
    if options.json:
        print_json(run.console, found.to_json())
    elif options.csv:
        run.console.data(_as_csv(found))
    else:
        print_evaluation(found, run)
    return 0


_WIDEST = 100
"""Columns of values beyond which their intervals are left out."""
_COUNTS = {
    "records": "records",
    "samples": "samples",
    "failed": "failed records",
    "missing": "references without samples",
    "unreferenced": "records without reference",
}


def print_evaluation(found: Evaluation, run: Run) -> None:
    """Print a table of the metrics, and one of the differences."""
    systems = found.systems
    if not systems:
        return
    rows = [
        [label, *(f"{system.counts[name]:,}" for system in systems)]
        for name, label in _COUNTS.items()
        if name in ("records", "samples") or any(system.counts[name] for system in systems)
    ]
    named = [
        [found.results[each.name].get(name) for each in systems] for name in found.settings.metrics
    ]
    whole = [[_cell(each) for each in results] for results in named]
    widest = max((max(map(len, cells)) for cells in whole), default=0)
    is_wide = len(systems) * widest > _WIDEST
    for name, cells, results in zip(found.settings.metrics, whole, named, strict=True):
        if any(cells):
            rows.append([name, *(map(_value, results) if is_wide else cells)])
    print_columns(run.console, ["", *(system.name for system in systems)], rows)
    if is_wide:
        run.console.data("intervals: --json and --csv tell them, or fewer files")
    _print_differences(found, run)
    for name, reliability in found.reliabilities.items():
        run.console.data("")
        run.console.data(f"reliability of {name}")
        print_table(run.console, [_reliability(row) for row in reliability])


def _print_differences(found: Evaluation, run: Run) -> None:
    """Print how other systems differ from the first; all pairs are in the JSON object."""
    shown = [each for each in found.comparisons if each.first == found.systems[0].name]
    unlike = {each.metric for each in shown if not each.is_none}
    equal = list(dict.fromkeys(each.metric for each in shown if each.metric not in unlike))
    rows = [_difference(each) for each in shown if each.metric in unlike]
    if rows:
        run.console.data("")
        header = (f"minus {found.systems[0].name}", "", "difference", "p", "records")
        print_columns(run.console, header, rows)
    if equal:
        run.console.data("")
        run.console.data(f"no difference on any record: {', '.join(equal)}")


def _value(result: Result | None) -> str:
    return "" if result is None else _shown(result.interval.value)


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    value, lower, upper = map(_shown, result.interval)
    return value if lower == upper == "-" else f"{value} [{lower}, {upper}]"


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _difference(each: Comparison) -> Sequence[str]:
    value, lower, upper = map(_shown, each.interval)
    sign = "" if value.startswith(("-", "i")) else "+"
    told = f"{sign}{value} [{lower}, {upper}]"
    return each.second, each.metric, told, f"{each.p_value:.3g}", f"{each.records:,}"


def _reliability(row: Mapping[str, Any]) -> tuple[str, str]:
    told = f"{row['accuracy']:.3f} right of {row['count']:,}"
    return f"{row['from']:.1f} to {row['to']:.1f}", f"{row['probability']:.3f} said, {told}"


def _as_csv(found: Evaluation) -> str:
    """Return a row a system and metric, with a header; no newline at its end."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(_csv_rows(found))
    return text.getvalue().removesuffix("\n")


def _csv_rows(found: Evaluation) -> Iterator[Sequence[object]]:
    yield "system", "file", "method", "metric", "value", "lower", "upper", "records"
    for system in found.systems:
        for name, result in found.results[system.name].items():
            told = result.to_json()
            yield (
                *(system.name, system.file, system.method, name),
                *(told[key] for key in ("value", "lower", "upper", "records")),
            )
