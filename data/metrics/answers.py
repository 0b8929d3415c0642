"""Metrics of right answers: matches, rankings, JSON values, coverage of concepts.

A record with a reference and without samples counts as one that was answered wrongly. Where draws
have weights, these are the shares with which their texts count.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cdec.data.metrics.metric import Metric, Terms, mean_of
from cdec.data.metrics.records import NOT_JSON, Evaluated

RIGHT_ANSWERS = "references with answer, answers, entity_ids, label or relevant"
VALUES = "references with value, and texts that are JSON"
JSON_TEXTS = "texts of a schema or a JSON grammar"


def answers(ks: Sequence[int]) -> list[Metric]:
    """Return the metrics of right answers and of rankings cut at each of ``ks``."""
    return [
        Metric(
            "exact_match",
            "Share of the draws, weighted, whose text is a right answer.",
            RIGHT_ANSWERS,
            mean_of(_exact_match),
        ),
        Metric(
            "micro_f1",
            "Micro-averaged F1 of the best answer of each record; records whose reference says "
            "that no answer is right are left out (InKB).",
            RIGHT_ANSWERS,
            _f1_terms,
        ),
        Metric(
            "r_precision",
            "Share of right answers among the first R, where R are right.",
            RIGHT_ANSWERS,
            mean_of(_r_precision),
        ),
        *(metric for k in ks for metric in _cut_at(k)),
    ]


def _cut_at(k: int) -> list[Metric]:
    return [
        Metric(
            f"hits@{k}",
            f"Share of the records with a right answer among the first {k}.",
            RIGHT_ANSWERS,
            mean_of(lambda record: _hits(record, k)),
        ),
        Metric(
            f"ndcg@{k}",
            f"Normalised discounted cumulative gain of the first {k}: the grade of each over the "
            "binary logarithm of its rank plus 1, over the best that was possible.",
            RIGHT_ANSWERS,
            mean_of(lambda record: _ndcg(record, k)),
        ),
        Metric(
            f"relevance@{k}",
            f"Mean grade of the first {k} answers; missing ones count 0.",
            "references whose relevant has grades",
            mean_of(lambda record: _relevance(record, k)),
            unit="grade",
        ),
    ]


def _has_right(record: Evaluated) -> bool:
    """Say whether some answer is right; where none is, no metric but the draws' can say much."""
    return any(grade > 0 for grade in (record.relevant or {}).values())


def _exact_match(record: Evaluated) -> float | None:
    if not _has_right(record) or record.is_ranked:
        return None
    # Draws that were not finished have no candidate, and their share is lost.
    return math.fsum(each.weight for each in record.ranked if record.grade(each) > 0)


def _f1_terms(record: Evaluated) -> Terms:
    if not _has_right(record):
        return None
    best = record.ranked[:1]
    right = sum(record.grade(each) > 0 for each in best)
    return (2.0 * right, 1.0 + len(best))


def _r_precision(record: Evaluated) -> float | None:
    if not _has_right(record):
        return None
    count = sum(grade > 0 for grade in (record.relevant or {}).values())
    return sum(record.grade(each) > 0 for each in record.ranked[:count]) / count


def _hits(record: Evaluated, k: int) -> float | None:
    if not _has_right(record):
        return None
    return float(any(record.grade(each) > 0 for each in record.ranked[:k]))


def _ndcg(record: Evaluated, k: int) -> float | None:
    if not _has_right(record):
        return None
    ideal = sorted((record.relevant or {}).values(), reverse=True)
    return _gain([record.grade(each) for each in record.ranked[:k]]) / _gain(ideal[:k])


def _gain(grades: Sequence[float]) -> float:
    return math.fsum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades))


def _relevance(record: Evaluated, k: int) -> float | None:
    if not isinstance((record.reference or {}).get("relevant"), dict):
        return None
    return math.fsum(record.grade(each) for each in record.ranked[:k]) / k


JSON_METRICS = [
    Metric(
        "json_valid",
        "Share of the draws, weighted, whose text is JSON (RFC 8259).",
        JSON_TEXTS,
        mean_of(lambda record: _json_valid(record)),
    ),
    Metric(
        "value_match",
        "Share of the draws, weighted, whose JSON value is the reference's: numbers by value, keys "
        "in any order.",
        VALUES,
        mean_of(lambda record: _value_match(record)),
    ),
    Metric(
        "value_f1",
        "Micro-averaged F1 of the leaves of JSON values, each with the place where it stands; "
        "draws count with their weights.",
        VALUES,
        lambda record: _leaf_terms(record),
    ),
]


def _json_valid(record: Evaluated) -> float | None:
    values = list(_values(record))
    if not record.samples or "value" not in (record.reference or {}):
        # A text such as a title is no failed JSON: somebody has to have meant JSON.
        first = [value for value, _ in values if isinstance(value, dict | list)]
        if not first:
            return None
    return math.fsum(weight for value, weight in values if value is not NOT_JSON)


def _value_match(record: Evaluated) -> float | None:
    reference = record.reference or {}
    if "value" not in reference:
        return None
    right = reference["value"]
    return math.fsum(
        weight
        for value, weight in _values(record)
        if value is not NOT_JSON and equal_json(value, right)
    )


def _leaf_terms(record: Evaluated) -> Terms:
    reference = record.reference or {}
    if "value" not in reference:
        return None
    right = set(leaves(reference["value"]))
    hits = found = 0.0
    for value, weight in _values(record):
        given = set() if value is NOT_JSON else set(leaves(value))
        hits += weight * len(given & right)
        found += weight * len(given)
    return (2.0 * hits, found + len(right))


def _values(record: Evaluated) -> Iterator[tuple[Any, float]]:
    return zip(record.json_values, record.weights.tolist(), strict=True)


def equal_json(first: Any, second: Any) -> bool:
    """Say whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return set(leaves(first)) == set(leaves(second))


def leaves(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the leaves of a JSON value, each with the keys and indices that lead to it.

    Containers without elements are leaves.
    """
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += (((*place, key), inner) for key, inner in value.items())
        elif isinstance(value, list) and value:
            waiting += (((*place, number), inner) for number, inner in enumerate(value))
        else:
            yield place, _leaf(value)


def _leaf(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def _mean_field(name: str) -> Callable[[Evaluated], float | None]:
    """Return the weighted mean of a field of the samples that all of them have."""

    def value(record: Evaluated) -> float | None:
        values = [sample.get(name) for sample in record.samples]
        if not values or None in values:
            return None
        pairs = zip(values, record.weights.tolist(), strict=True)
        return math.fsum(value * weight for value, weight in pairs)

    return value


REWARD_METRICS = [
    Metric(
        name,
        f"Mean of the samples' {name}, weighted.",
        f"samples with {name}, drawn with a reward",
        mean_of(_mean_field(name)),
        unit="reward" if name == "reward" else "share",
    )
    for name in ("reward", "satisfaction_soft", "satisfaction_hard")
]


def scored(
    name: str,
    meaning: str,
    needs: str,
    score: Callable[[str, Evaluated], float | None],
    unit: str = "share",
) -> Metric:
    """Return the mean of a function of texts, the draws weighted; texts that are missing count 0.

    Args:
        name: Of the metric.
        meaning: One sentence.
        needs: What records have to have for it.
        score: Returns the number of a text; None where it has nothing to say of the record.
        unit: Of the numbers.
    """

    def value(record: Evaluated) -> float | None:
        total = 0.0
        for sample, weight in zip(record.samples, record.weights.tolist(), strict=True):
            if sample.get("text") is not None:
                found = score(sample["text"], record)
                if found is None:
                    return None
                total += weight * found
        return total if record.samples else None

    return Metric(name, meaning, needs, mean_of(value), unit=unit)
