"""``cdec eval``: metrics of samples, with intervals, and what differs between methods."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, Literal

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, limits, option
from cdec.cli.frame.tables import print_columns, print_json, print_table
from cdec.cli.options import shared
from cdec.core.errors import UsageError
from cdec.data.input.source import PROMPT_LIMITS, InputLimits

if TYPE_CHECKING:
    from cdec.data.metrics.evaluation import Comparison, Evaluation, Result
    from cdec.data.metrics.metric import Metric
    from cdec.data.metrics.records import Evaluated
    from cdec.samplers.rewards.base import Reward

_REFERENCES = "References"


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec eval``; the documented defaults stand here."""

    files: list[str] = option(
        MISSING,
        "What `cdec sample` or `cdec classify` wrote; several are compared; `-` is stdin.",
        metavar="FILE...",
        positional=True,
    )
    references: str | None = option(
        None,
        "Right answers by `id`: objects with any of answer, answers, entity_ids, label, relevant "
        "(a list, or grades by answer), value (JSON), concepts. The samples' own `input` if not "
        "given.",
        _REFERENCES,
        metavar="FILE",
        common=True,
    )
    target: str | None = option(
        None,
        "The law to follow: objects with id, text and probability, such as --method topn writes.",
        _REFERENCES,
        metavar="FILE",
        common=True,
    )
    compare: Literal["exact", "folded"] = option(
        "exact",
        "How texts are compared: as they stand, or without case, width and white space.",
        _REFERENCES,
    )
    metrics: str | None = option(
        None,
        "These metrics, in this order; all that the files allow if not given.",
        shared.OUTPUT,
        metavar="A,B,...",
        common=True,
    )
    at: str = option(
        "1,5,10", "Where rankings are cut.", shared.OUTPUT, metavar="K,K,...", common=True
    )
    hook: str | None = option(
        None,
        "A metric of your own: function(texts, records) returns a number a text; it runs code.",
        shared.OUTPUT,
        metavar="MODULE:FUNCTION",
        typed_only=True,
    )
    weights: bool = option(
        True, "Count draws with their weights; without, all count equally.", shared.METHOD
    )
    resamples: int = option(
        1000,
        "Resamples of the records for intervals and tests; 0 for none.",
        shared.METHOD,
        at_least=0,
        at_most=1_000_000,
    )
    confidence: float = option(0.95, "Of the intervals.", shared.METHOD, above=0.0, below=1.0)
    seed: int = option(0, "Of the resampling.", shared.METHOD, at_least=0, at_most=math.inf)
    json: bool = option(False, "Print one JSON object.", shared.OUTPUT, common=True)
    csv: bool = option(False, "Print a row a metric and system.", shared.OUTPUT, common=True)
    progress: bool | None = shared.progress_option()
    input_limits: InputLimits = limits(PROMPT_LIMITS, shared.INPUT)


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
    from cdec.data.metrics.evaluation import evaluate

    settings = _settings(options)
    with run.console.stage("reading samples") as progress:
        found = evaluate(
            options.files,
            references=options.references,
            target=options.target,
            settings=settings,
            progress=progress,
        )
    run.console.warn(found.notices)
    if options.json:
        print_json(run.console, found.to_json())
    elif options.csv:
        run.console.data(_as_csv(found))
    else:
        _print(found, run)
    return 0


def _settings(options: Options) -> Any:
    """Return the settings of the evaluation that was asked for.

    Raises:
        UsageError: What was typed makes no sense.
    """
    from cdec.data.metrics.evaluation import EvaluationSettings, chosen, metrics_of
    from cdec.data.metrics.records import exactly, folded

    if options.json and options.csv:
        raise UsageError("--json and --csv were both given", hint="give one of them")
    inputs = [*options.files, options.references, options.target]
    if inputs.count("-") > 1:
        raise UsageError("stdin was given twice", hint="name files for all inputs but one")
    metrics: Mapping[str, Metric] = metrics_of(_ks(options.at), _own_metrics(options))
    if options.metrics is not None:
        names = [name.strip() for name in options.metrics.split(",")]
        metrics = chosen(list(dict.fromkeys(names)), metrics)
    return EvaluationSettings(
        metrics=metrics,
        required=options.metrics is not None,
        as_compared=folded if options.compare == "folded" else exactly,
        uses_weights=options.weights,
        resamples=options.resamples,
        confidence=options.confidence,
        seed=options.seed,
        limits=options.input_limits,
    )


def _ks(text: str) -> list[int]:
    """Return the ranks at which rankings are cut, each once.

    Raises:
        UsageError: One is no whole number from 1.
    """
    ks = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= 1_000_000:
            raise UsageError(
                f"--at has {word.strip()!r}, whole numbers from 1 were expected",
                hint="write --at 1,5,10",
            )
        ks.append(int(word))
    return sorted(set(ks))


def _own_metrics(options: Options) -> list[Metric]:
    """Return the metrics that need rewards: coverage of concepts, and the hook."""
    from cdec.data.metrics.answers import scored
    from cdec.samplers.rewards.coverage import CoverageReward

    coverage = CoverageReward()
    needs = "references with concepts"
    found = [
        scored(
            "concepts_soft",
            "Share of the record's concepts that a text names, in any form; weighted mean.",
            needs,
            lambda text, record: _coverage(coverage, text, record),
        ),
        scored(
            "concepts_hard",
            "Share of the draws, weighted, that name all concepts.",
            needs,
            lambda text, record: _all_of(_coverage(coverage, text, record)),
        ),
    ]
    if options.hook is not None:
        from cdec.samplers.rewards.function import FunctionReward

        hook, name = FunctionReward(options.hook), options.hook.rpartition(":")[2]
        found.append(
            scored(
                name,
                f"{options.hook} of the texts; weighted mean.",
                "samples",
                lambda text, record: _score(hook, text, record),
            )
        )
    return found


def _coverage(reward: Reward, text: str, record: Evaluated) -> float | None:
    reference = record.reference or {}
    return _score(reward, text, record) if "concepts" in reference else None


def _all_of(coverage: float | None) -> float | None:
    return None if coverage is None else float(coverage >= 1.0)


def _score(reward: Reward, text: str, record: Evaluated) -> float:
    return float(reward.scores([text], [record.reference])[0])


_WIDEST = 100
"""Columns of values beyond which their intervals are left out."""
_COUNTS = {
    "records": "records",
    "samples": "samples",
    "failed": "failed records",
    "missing": "references without samples",
    "unreferenced": "records without reference",
}


def _print(found: Evaluation, run: Run) -> None:
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
    equal = list(dict.fromkeys(each.metric for each in shown if each.is_none))
    rows = [_difference(each) for each in shown if not each.is_none]
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
