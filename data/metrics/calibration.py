"""Calibration: how often answers are right that were given a probability.

The answer of a record is its best one, its probability that among all labels, or under Q.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cdec.data.metrics.metric import Metric, Terms, mean_of
from cdec.data.metrics.records import Evaluated

BINS = 10
"""Equal intervals of the probability, closed at the right (Naeini et al. 2015)."""
CLASSIFIED_ANSWERS = "classifications, or samples with probability; references with an answer"
_WIDTH = 3 * BINS


def _answer(record: Evaluated) -> tuple[float, bool] | None:
    """Return the probability of the best answer, and whether it is right; None if not known."""
    if not record.relevant or not record.ranked:
        return None
    best = record.ranked[0]
    probability: float | None = best.weight
    if "labels" not in record.samples[0]:
        texts = (
            each.get("probability")
            for each in record.samples
            if each["text"] is not None and record.as_compared(each["text"]) == best.text
        )
        probability = next(texts, None)
    return None if probability is None else (probability, record.grade(best) > 0)


def _binned(record: Evaluated) -> Terms:
    """Return count, sum of probabilities and of right answers for each bin."""
    found = _answer(record)
    if found is None:
        return None
    probability, right = found
    terms = [0.0] * _WIDTH
    place = min(BINS - 1, max(0, math.ceil(probability * BINS) - 1))
    terms[place], terms[BINS + place], terms[2 * BINS + place] = 1.0, probability, float(right)
    return terms


def _expected_error(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over answers of the gap between probability and accuracy of their bin."""
    count, probability, right = np.split(sums, 3, axis=-1)
    total = count.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(probability - right).sum(axis=-1) / total)


def reliability(sums: NDArray[np.float64]) -> list[dict[str, float | int]]:
    """Return the reliability diagram as rows, one a bin that holds answers.

    Args:
        sums: float64 ``[3 * BINS]``: the sums of ``ece`` over all records.
    """
    rows: list[dict[str, float | int]] = []
    for number, (count, probability, right) in enumerate(sums.reshape(3, BINS).T.tolist()):
        if count:
            share = {"probability": probability / count, "accuracy": right / count}
            rows.append({"from": number / BINS, "to": (number + 1) / BINS, "count": int(count)})
            rows[-1] |= share
    return rows


def _brier(record: Evaluated) -> float | None:
    """Sum over labels of the squared gap to 1 for a right one, to 0 for others (Brier 1950)."""
    if not _is_classified(record):
        return None
    return math.fsum((each.weight - float(record.grade(each) > 0)) ** 2 for each in record.ranked)


def _log_loss(record: Evaluated) -> float | None:
    if not _is_classified(record):
        return None
    right = math.fsum(each.weight for each in record.ranked if record.grade(each) > 0)
    return -math.log(right) if right > 0 else math.inf


def _is_classified(record: Evaluated) -> bool:
    return bool(record.relevant) and bool(record.samples) and "labels" in record.samples[0]


CALIBRATION_METRICS = [
    Metric(
        "ece",
        f"Expected calibration error over {BINS} equal bins of the best answer's probability.",
        CLASSIFIED_ANSWERS,
        _binned,
        _expected_error,
        _WIDTH,
        "lower",
    ),
    Metric(
        "brier",
        "Brier score: squared error of the labels' probabilities, summed over labels.",
        "classifications and references with an answer",
        mean_of(_brier),
        better="lower",
        unit="squared error",
    ),
    Metric(
        "log_loss",
        "-log of the right labels' probability, nats.",
        "classifications and references with an answer",
        mean_of(_log_loss),
        better="lower",
        unit="nats",
    ),
]
