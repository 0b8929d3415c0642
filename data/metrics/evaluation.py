"""Evaluation of files of samples: systems, their metrics, and the differences between them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import Notice, UsageError
from cdec.core.progress import Progress, Stage, silent
from cdec.data.ids import RecordId
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, source_name
from cdec.data.metrics.answers import JSON_METRICS, REWARD_METRICS, answers
from cdec.data.metrics.calibration import CALIBRATION_METRICS, reliability
from cdec.data.metrics.costs import COST_METRICS
from cdec.data.metrics.laws import LAW_METRICS, MOST_UNLISTED
from cdec.data.metrics.metric import Metric
from cdec.data.metrics.records import (
    Evaluated,
    Group,
    Target,
    check_reference,
    exactly,
    read_groups,
    read_references,
    read_targets,
)
from cdec.data.metrics.resampling import (
    Interval,
    RecordTerms,
    exchanged,
    interval,
    p_value,
    resampled,
)
from cdec.data.near import near_hint
from cdec.data.rows.formats import without_compression

DEFAULT_KS = (1, 5, 10)
_INFINITE = 1e300
"""Stands for inf among terms: its multiples by 0 are 0. Values beyond a part of it are inf."""
_PROGRESS_EVERY = 1000


def metrics_of(ks: Sequence[int] = DEFAULT_KS, more: Sequence[Metric] = ()) -> dict[str, Metric]:
    """Return all metrics by name, in the order of tables.

    Args:
        ks: Ranks at which rankings are cut, each at least 1.
        more: Metrics of the caller's own, such as a hook.
    """
    listed = [
        *answers(ks),
        *JSON_METRICS,
        *REWARD_METRICS,
        *more,
        *LAW_METRICS,
        *CALIBRATION_METRICS,
        *COST_METRICS,
    ]
    return {metric.name: metric for metric in listed}


def chosen(names: Sequence[str], metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metrics that are named, in that order.

    Raises:
        UsageError: One does not exist.
    """
    for name in names:
        if name not in metrics:
            raise UsageError(
                f"there is no metric {name!r}",
                hint=near_hint(name, metrics, f"there are {', '.join(metrics)}"),
            )
    return {name: metrics[name] for name in names}


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of an evaluation.

    Attributes:
        metrics: All that may be computed; those whose needs are met are.
        required: Whether a metric that no record allows is an error.
        as_compared: Makes of a text what is compared.
        uses_weights: Whether draws count with their weights; all count equally otherwise.
        resamples: For intervals and tests; 0 for none.
        confidence: Of the intervals, within 0 and 1.
        seed: Of the resampling.
        limits: Of the inputs.
    """

    metrics: Mapping[str, Metric] = field(default_factory=metrics_of)
    required: bool = False
    as_compared: Callable[[str], str] = exactly
    uses_weights: bool = True
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0
    limits: InputLimits = PROMPT_LIMITS


@dataclass
class Terms:
    """The terms of one metric, of one system: which records, and what each adds."""

    width: int
    records: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, record: int, terms: Sequence[float]) -> None:
        """Add those of one record, by its number."""
        self.records.append(record)
        self.values.extend(max(-_INFINITE, min(_INFINITE, each)) for each in terms)

    def known(self) -> RecordTerms:
        """Return them as arrays."""
        terms = np.array(self.values, np.float64).reshape(-1, self.width)
        return RecordTerms(np.array(self.records, np.int64), terms)


@dataclass
class System:
    """One file's samples of one method, as far as they were read.

    Attributes:
        file: Its name.
        method: Of the samples.
        name: For tables: the file's, with the method where the file has several.
        counts: What was found and what was missing, by name.
        terms: By metric.
    """

    file: str
    method: str
    name: str = ""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("records", "samples", "failed", "missing", "unreferenced", "partly_weighted"), 0
        )
    )
    terms: dict[str, Terms] = field(default_factory=dict)
    seen: set[RecordId] = field(default_factory=set)


@dataclass(frozen=True)
class Comparison:
    """The difference of two systems on the records that both have, second minus first."""

    metric: str
    first: str
    second: str
    interval: Interval
    p_value: float
    records: int

    @property
    def is_none(self) -> bool:
        """Whether the systems are equal on every record."""
        return self.p_value == 1.0 and self.interval == (0.0, 0.0, 0.0)

    def to_json(self) -> dict[str, object]:
        """Return it as one JSON-ready object; what is not finite is null."""
        return {
            "metric": self.metric,
            "first": self.first,
            "second": self.second,
            "difference": _number(self.interval.value),
            "lower": _number(self.interval.lower),
            "upper": _number(self.interval.upper),
            "p_value": _number(self.p_value),
            "records": self.records,
        }


@dataclass(frozen=True)
class Result:
    """A metric of a system."""

    interval: Interval
    records: int

    def to_json(self) -> dict[str, object]:
        """Return it as one JSON-ready object; infinite values are texts, undefined ones null."""
        value, lower, upper = map(_number, self.interval)
        return {"value": value, "lower": lower, "upper": upper, "records": self.records}


@dataclass(frozen=True)
class Evaluation:
    """Metrics of systems, and the differences between each two.

    Attributes:
        settings: That were used.
        systems: In the order of the files.
        results: By system and metric, in the order of both.
        comparisons: Of each pair of systems and each metric of both.
        reliabilities: Rows of the reliability diagram by system.
        notices: What a reader should know.
    """

    settings: EvaluationSettings
    systems: Sequence[System]
    results: Mapping[str, Mapping[str, Result]]
    comparisons: Sequence[Comparison]
    reliabilities: Mapping[str, Sequence[Mapping[str, float | int]]]
    notices: Sequence[Notice]

    @property
    def _computed(self) -> list[Metric]:
        names = set().union(*self.results.values()) if self.results else set()
        return [metric for name, metric in self.settings.metrics.items() if name in names]

    def to_json(self) -> dict[str, object]:
        """Return everything as one JSON-ready object."""
        return {
            "systems": [
                {
                    "name": system.name,
                    "file": system.file,
                    "method": system.method,
                    **system.counts,
                    "metrics": {
                        name: result.to_json() for name, result in self.results[system.name].items()
                    },
                    "reliability": list(self.reliabilities.get(system.name, ())),
                }
                for system in self.systems
            ],
            "comparisons": [each.to_json() for each in self.comparisons],
            "resamples": self.settings.resamples,
            "confidence": self.settings.confidence,
            "seed": self.settings.seed,
            "meanings": {metric.name: metric.meaning for metric in self._computed},
            "units": {metric.name: metric.unit for metric in self._computed},
        }


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    # The last digits are those of the order in which resamples are summed.
    return float(f"{value:.12g}") if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def evaluate(
    sources: Sequence[Source],
    *,
    references: Source | None = None,
    target: Source | None = None,
    settings: EvaluationSettings | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Compute the metrics of files of samples.

    A system is one file's samples of one method. What is held in memory is a few numbers a record
    and metric, the references and the target; samples are read one record at a time.

    Args:
        sources: Files that ``sample`` or ``classify`` wrote, one or more.
        references: Right answers by id; None takes the samples' own ``input``.
        target: The law to follow, by id and text.
        settings: None for the defaults.
        progress: Told of.

    Returns:
        The evaluation; equal inputs and seeds give equal numbers.

    Raises:
        CdecError: An input cannot be read, or is none of samples.
        UsageError: A required metric has no record that allows it.
    """
    settings = settings or EvaluationSettings()
    known = None if references is None else read_references(references, settings.limits)
    laws = {} if target is None else read_targets(target, settings.limits)
    numbers: dict[RecordId, int] = {}
    systems: list[System] = []
    for source in sources:
        reading = Reading(source_name(source), known, laws, settings, numbers)
        systems += reading.systems(read_groups(source, settings.limits), progress)
    _name(systems)
    return _concluded(systems, settings, _notices(systems, laws), progress, len(numbers))


@dataclass(frozen=True)
class Reading:
    """One file being read into systems.

    Attributes:
        file: Its name.
        references: By id; None where samples bring their own.
        laws: By id.
        settings: Of the evaluation.
        numbers: Of records by id, over all files.
    """

    file: str
    references: Mapping[RecordId, Mapping[str, Any]] | None
    laws: Mapping[RecordId, Target]
    settings: EvaluationSettings
    numbers: dict[RecordId, int]

    def systems(self, groups: Iterator[Group], progress: Progress) -> list[System]:
        """Return the systems of the file's groups."""
        found: dict[str, System] = {}
        failed: list[RecordId] = []
        for count, group in enumerate(groups):
            if count % _PROGRESS_EVERY == 0:
                progress(Stage(f"reading {self.file}", count, unit="records"))
            if not group.method:
                failed.append(group.id)
                continue
            system = found.setdefault(group.method, System(self.file, group.method))
            self._take(system, group.id, group.samples)
        for system in found.values():
            for record_id in failed:
                if record_id not in system.seen:
                    system.counts["failed"] += 1
                    self._take(system, record_id, [])
            for record_id in self.references or ():
                if record_id not in system.seen:
                    system.counts["missing"] += 1
                    self._take(system, record_id, [])
        return list(found.values())

    def _take(self, system: System, record_id: RecordId, samples: list[Mapping[str, Any]]) -> None:
        """Add what a record says to the terms of its system."""
        reference = self._reference(record_id, samples)
        record = Evaluated(
            record_id,
            samples,
            reference,
            self.laws.get(record_id),
            as_compared=self.settings.as_compared,
            uses_weights=self.settings.uses_weights,
        )
        system.seen.add(record_id)
        counts = system.counts
        counts["records"] += bool(samples)
        counts["samples"] += len(samples)
        counts["unreferenced"] += bool(samples) and reference is None
        counts["partly_weighted"] += record.is_partly_weighted
        number = self.numbers.setdefault(record_id, len(self.numbers))
        for name, metric in self.settings.metrics.items():
            terms = metric.terms(record)
            if terms is not None:
                system.terms.setdefault(name, Terms(metric.width)).add(number, terms)

    def _reference(
        self, record_id: RecordId, samples: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any] | None:
        if self.references is not None:
            return self.references.get(record_id)
        own: Mapping[str, Any] | None = samples[0].get("input") if samples else None
        if own is not None:
            check_reference(own, f"{self.file}, input of {record_id!r}")
        return own


def _name(systems: Sequence[System]) -> None:
    """Give systems names that differ: as short as can be."""
    stems = [_stem(Path(system.file).name) for system in systems]
    for ways in (
        stems,
        [f"{stem}:{system.method}" for stem, system in zip(stems, systems, strict=True)],
        [f"{system.file}:{system.method}" for system in systems],
        [f"{number}:{system.method}" for number, system in enumerate(systems, 1)],
    ):
        if len(set(ways)) == len(systems):
            for system, name in zip(systems, ways, strict=True):
                system.name = name
            return


def _stem(name: str) -> str:
    """Return a file's name without the endings of its form and of a compression."""
    return Path(name[: len(without_compression(name))]).stem


def _notices(systems: Sequence[System], laws: Mapping[RecordId, Target]) -> list[Notice]:
    notices = []
    if not systems:
        notices.append(Notice("W_NO_INPUT", "the inputs hold no samples"))
    partial = sum(law.unlisted > MOST_UNLISTED for law in laws.values())
    if partial:
        notices.append(
            Notice(
                "W_PARTIAL_TARGET",
                f"the target of {partial} of {len(laws)} records lists less than "
                f"{1 - MOST_UNLISTED:.1%} of the probability: kl, tv and expectation_gap leave "
                "them out",
            )
        )
    for system in systems:
        if partly := system.counts["partly_weighted"]:
            notices.append(
                Notice(
                    "W_PARTLY_WEIGHTED",
                    f"{system.name}: in {partly} records some samples have a log_weight and others "
                    "have none, so all count equally there",
                )
            )
    return notices


def _concluded(
    systems: Sequence[System],
    settings: EvaluationSettings,
    notices: list[Notice],
    progress: Progress,
    records: int,
) -> Evaluation:
    if settings.required:
        _require(systems, settings)
    progress(Stage("resampling"))
    having = [(system, name) for name in settings.metrics for system in systems]
    having = [(system, name) for system, name in having if name in system.terms]
    jobs = [system.terms[name].known() for system, name in having]
    pairs = _pairs(systems, settings) if settings.resamples else []
    both = [terms for pair in pairs for terms in (pair.one, pair.two)]
    rng = np.random.default_rng(settings.seed)
    sums = resampled([*jobs, *both], records, settings.resamples, rng)
    moved = exchanged([pair.gap for pair in pairs], records, settings.resamples, rng)
    results: dict[str, dict[str, Result]] = {system.name: {} for system in systems}
    for (system, name), job, found in zip(having, jobs, sums, strict=False):
        value = settings.metrics[name].value
        shown = interval(float(value(job.total)), value(found), settings.confidence)
        results[system.name][name] = Result(_shown(shown), len(job.records))
    reliabilities = {
        system.name: reliability(job.total)
        for (system, name), job in zip(having, jobs, strict=True)
        if name == "ece"
    }
    of_pairs = sums[len(jobs) :]
    comparisons = [
        pair.compared(settings, of_pairs[2 * place], of_pairs[2 * place + 1], moved[place])
        for place, pair in enumerate(pairs)
    ]
    return Evaluation(settings, systems, results, comparisons, reliabilities, notices)


def _require(systems: Sequence[System], settings: EvaluationSettings) -> None:
    for name, metric in settings.metrics.items():
        if systems and not any(name in system.terms for system in systems):
            raise UsageError(
                f"the metric {name} has no record that allows it: it needs {metric.needs}",
                hint="give what it needs, or leave it out of `metrics`",
            )


class _Pair(NamedTuple):
    """The terms of two systems on the records of both, for one metric."""

    metric: str
    first: str
    second: str
    one: RecordTerms
    two: RecordTerms

    @property
    def gap(self) -> RecordTerms:
        """What the second system's records add to the sums beyond the first's."""
        return RecordTerms(self.one.records, self.two.terms - self.one.terms)

    def compared(
        self,
        settings: EvaluationSettings,
        first: NDArray[np.float64],
        second: NDArray[np.float64],
        moved: NDArray[np.float64],
    ) -> Comparison:
        """Return the comparison, from resampled sums of both and sums that were exchanged."""
        value = settings.metrics[self.metric].value
        found = float(value(self.two.total) - value(self.one.total))
        gap = _shown(interval(found, value(second) - value(first), settings.confidence))
        p = p_value(self.one, self.two, moved, value)
        return Comparison(self.metric, self.first, self.second, gap, p, len(self.one.records))


def _pairs(systems: Sequence[System], settings: EvaluationSettings) -> list[_Pair]:
    """Return each two systems by metric, where they have records in common."""
    found = []
    for name in settings.metrics:
        for first, second in combinations([each for each in systems if name in each.terms], 2):
            terms = _common(first.terms[name].known(), second.terms[name].known())
            if len(terms[0].records):
                found.append(_Pair(name, first.name, second.name, *terms))
    return found


def _common(first: RecordTerms, second: RecordTerms) -> tuple[RecordTerms, RecordTerms]:
    records, left, right = np.intersect1d(first.records, second.records, return_indices=True)
    return RecordTerms(records, first.terms[left]), RecordTerms(records, second.terms[right])


def _shown(found: Interval) -> Interval:
    """Return inf for what the stand-in of inf gave."""
    bound = math.sqrt(_INFINITE)
    return Interval(*(math.copysign(math.inf, x) if abs(x) > bound else x for x in found))
