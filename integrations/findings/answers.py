"""Answers to prompt records by several methods, drawn by the record sampler, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from cdec.core.errors import CdecError
from cdec.core.models.language_model import LanguageModel
from cdec.core.sample import FINISH_COMPLETE
from cdec.data.metrics.answers import RIGHT_ANSWERS, scored
from cdec.data.metrics.evaluation import Comparison, Evaluation, EvaluationSettings, evaluate
from cdec.data.metrics.metric import Metric, Terms
from cdec.data.metrics.records import Candidate, Evaluated
from cdec.integrations.findings.finding import Check, largest
from cdec.integrations.findings.laboratory import one_thread
from cdec.integrations.findings.laws import Law, MemberLaws
from cdec.integrations.records import RecordSampler
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest

SEED = 2504
TRIES = (1, 2, 3, 4)
"""K of the paper's tables."""
ROUNDING = 1e-3
"""Nats that log P of a whole text may differ by between batches (``EVENT_ROUNDING``)."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A method with its options, as a row of a table.

    Attributes:
        label: Of the row.
        method: In SAMPLERS. options: As the record sampler takes them.
        draws: Of each record; None as the record says.
    """

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    draws: int | None = None


VANILLA = Way("unconstrained", "unconstrained", {"max_new_tokens": 24}, draws=1)
MASKED = Way("masked", "masked")
EXACT = Way("exact", "exact")
DISC = {tries: Way(f"disc K={tries}", "disc", {"K": tries}) for tries in TRIES}


def sampler(model: LanguageModel, way: Way, artifact: Path | None = None) -> RecordSampler:
    """Return the record sampler of a method; the first error of a record ends all."""
    one_thread()
    return RecordSampler(
        model,
        way.method,
        artifact=artifact,
        seed=SEED,
        strict=True,
        **way.options,
    )


def drawn(
    model: LanguageModel, way: Way, records: Iterable[Record], artifact: Path | None = None
) -> list[Record]:
    """Return the samples of records, in their order.

    Raises:
        CdecError: As the record sampler.
    """
    asked = (r if way.draws is None else {**r, "n": way.draws} for r in records)
    with sampler(model, way, artifact) as opened:
        return list(opened.sample(asked))


def scores(
    model: LanguageModel,
    records: Sequence[Record],
    texts: Sequence[Sequence[str]],
    artifact: Path | None = None,
) -> list[list[Score]]:
    """Return what the scorer says of texts of each record, under the record's constraint.

    Raises:
        CdecError: As the record sampler and the scorer.
    """
    with sampler(model, MASKED, artifact) as opened:
        tasks = [task for task in opened.tasks().of(opened.checked(records)) if task is not None]
        found: list[list[Score]] = []
        for task, own in zip(tasks, texts, strict=True):
            if isinstance(task.request, CdecError):
                raise task.request
            prompt, constraint = task.request.prompt, task.request.constraint
            asked = [ScoreRequest(prompt, constraint, text=text) for text in own]
            found.append(list(map(_known, Scorer(opened.model).run(asked))))
    return found


def _known(score: Score | CdecError) -> Score:
    if isinstance(score, CdecError):
        raise score
    return score


def laws(
    model: LanguageModel,
    records: Sequence[Record],
    texts: Sequence[Sequence[str]],
    artifact: Path | None = None,
) -> list[MemberLaws]:
    """Return the laws over all members of each record's set, in the order of ``texts``.

    Raises:
        CdecError: As ``scores``.
    """
    return [
        MemberLaws(
            np.array([as_log(s.log_masked) for s in own]),
            np.array([as_log(s.log_z_sum) for s in own]),
        )
        for own in scores(model, records, texts, artifact)
    ]


def as_log(value: float | None) -> float:
    """Return a log, -inf where a score has none."""
    return -np.inf if value is None else value


def by_label(laws: MemberLaws) -> dict[str, Law]:
    """Return the laws of methods by their labels, that of exact draws being Q."""
    disc = {DISC[tries].label: laws.disc(tries) for tries in TRIES}
    return {MASKED.label: laws.masked, **disc, EXACT.label: laws.target}


def mean_distances(known: Sequence[MemberLaws]) -> dict[str, float]:
    """Return the mean total variation from Q of each method's law."""
    each = [(laws, by_label(laws)) for laws in known]
    return {
        label: float(np.mean([laws.distance(own[label]) for laws, own in each]))
        for label in each[0][1]
    }


def law_checks(known: Sequence[MemberLaws]) -> list[Check]:
    """Return the checks of Theorem 2.1, and that more candidates bring DISC nearer to Q."""
    far = [far for label, far in mean_distances(known).items() if label != EXACT.label]
    bias = [laws.divergence(laws.masked) / -laws.log_mass for laws in known]
    return [
        Check("largest KL(Q || masked) over ln 1/P(S)", largest(bias), at_most=1 + 1e-6),
        Check(
            "mean TV from Q over that of the row before (masked, K = 1 to 4), largest",
            largest([after / before for before, after in pairwise(far)]),
            at_most=1 + 1e-9,
        ),
    ]


def spread(rows: Sequence[Any], count: int) -> list[Any]:
    """Return ``count`` rows, spread evenly; all where there are fewer."""
    at = np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)
    return [rows[i] for i in at]


def evaluated(
    samples: Mapping[str, Sequence[Record]],
    references: Iterable[Record],
    metric: Metric,
    as_compared: Callable[[str], str] = str.strip,
) -> Evaluation:
    """Return the evaluation of the samples of several methods, each draw with the same weight.

    Args:
        samples: By label.
        references: Right answers by id; samples of other ids count nowhere.
        metric: The one that is computed.
        as_compared: Makes of a text what is compared.
    """
    settings = EvaluationSettings(
        metrics={metric.name: metric}, as_compared=as_compared, uses_weights=False, seed=SEED
    )
    with TemporaryDirectory() as folder:
        paths = [_written(Path(folder) / f"{label}.jsonl", own) for label, own in samples.items()]
        right = _written(Path(folder) / "right.references", references)
        return evaluate(paths, references=right, settings=settings)


def _written(path: Path, rows: Iterable[Record]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def value(evaluation: Evaluation, label: str) -> tuple[float, float, float]:
    """Return a method's metric with the bounds of its 95% bootstrap interval."""
    (result,) = evaluation.results[label].values()
    return result.interval


def difference(evaluation: Evaluation, first: str, second: str) -> Comparison:
    """Return how much the second method has more than the first, which stands before it."""
    return next(
        each for each in evaluation.comparisons if (each.first, each.second) == (first, second)
    )


def _f1_terms(record: Evaluated) -> Terms:
    if not record.relevant:
        return None
    ended = [s for s in record.samples if s["finish_reason"] == FINISH_COMPLETE]
    right = sum(grade_of(sample["text"], record) > 0 for sample in ended)
    return (2.0 * right, float(len(record.samples) + len(ended)))


def grade_of(text: str, record: Evaluated) -> float:
    """Return the grade of a text."""
    return record.grade(Candidate(record.as_compared(text), frozenset(), 0.0))


MICRO_F1 = Metric(
    "micro_f1_of_draws",
    "Micro-averaged F1 where each draw is an answer of its own (InKB).",
    RIGHT_ANSWERS,
    _f1_terms,
)
GRADE = scored("grade_of_draws", "Mean grade of the draws.", RIGHT_ANSWERS, grade_of, "grade")


def calls(samples: Sequence[Record]) -> float:
    """Return target calls a draw, with the prefix cache that the draws of a record share."""
    return float(np.mean([sample["target_calls"] for sample in samples]))
