"""Classification: the labels of one prompt, best first, and how they become a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.scoring.label_trie import LabelTrie


@dataclass(frozen=True, slots=True)
class LabelProbability:
    """One label of one prompt.

    Attributes:
        text: The label.
        entity_ids: Its ids, or the lines it came from; empty where labels were given as texts.
        probability: Among the labels, calibrated if that was asked for; None where all have 0.
        logprob: log P(label and its end | prompt), natural, over all texts; None for 0.
    """

    text: str
    entity_ids: Sequence[str]
    probability: float | None
    logprob: float | None

    def to_json(self) -> dict[str, object]:
        """Return one JSON-ready object; ``id`` is the first id, and all are there if several."""
        ids = list(self.entity_ids)
        record: dict[str, object] = {"text": self.text}
        if ids:
            record["id"] = ids[0]
        if len(ids) > 1:
            record["entity_ids"] = ids
        return record | {"probability": self.probability, "logprob": self.logprob}


@dataclass(frozen=True, slots=True)
class Classification:
    """The labels of one prompt.

    Attributes:
        labels: Best first, those of one probability by their text.
        log_mass: log of what the model gives to all labels together; None for 0.
        calibrate: How probabilities were calibrated.
        target_calls, target_tokens, distinct_evaluations: What they cost, as in samples.
    """

    labels: Sequence[LabelProbability]
    log_mass: float | None
    calibrate: str = "none"
    target_calls: int = field(default=0, kw_only=True)
    target_tokens: int = field(default=0, kw_only=True)
    distinct_evaluations: int = field(default=0, kw_only=True)

    @property
    def label(self) -> str | None:
        """The best label's text; None where the model gives 0 to all."""
        best = self.labels[0]
        return None if best.probability is None else best.text

    def to_json(self) -> dict[str, object]:
        """Return one JSON-ready object, keys in the documented order."""
        return {
            "label": self.label,
            "labels": [label.to_json() for label in self.labels],
            "log_mass": self.log_mass,
            "calibrate": self.calibrate,
            "target_calls": self.target_calls,
            "target_tokens": self.target_tokens,
            "distinct_evaluations": self.distinct_evaluations,
        }


def normalized(log_p: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return log probabilities float64[L] normalised to sum to one, and log of their sum before.

    Where all are -inf they stay so.
    """
    largest = float(log_p.max())
    if largest == -math.inf:
        return log_p, largest
    total = largest + math.log(float(np.exp(log_p - largest).sum()))
    return log_p - total, total


def best_labels(
    trie: LabelTrie,
    log_p: NDArray[np.float64],
    log_baseline: NDArray[np.float64] | None,
    top: int | None,
) -> tuple[list[LabelProbability], float | None]:
    """Return the labels of one prompt, best first, and the log of their mass.

    Args:
        trie: The labels, L of them.
        log_p: float64[L] log P of each.
        log_baseline: float64[L] of the calibration; None without one.
        top: How many labels to return; None for all.
    """
    log_q, log_mass = normalized(log_p)
    if log_baseline is not None:
        log_q, _ = normalized(log_q - log_baseline)
    # The texts stand sorted, so a stable sort puts those of one probability in their order.
    order = np.argsort(-log_q, kind="stable")[:top].tolist()
    is_none = math.isinf(log_mass)
    probability = np.exp(log_q)
    labels = [
        LabelProbability(
            trie.texts[i],
            trie.entity_ids[i],
            None if is_none else float(probability[i]),
            float(log_p[i]) if math.isfinite(log_p[i]) else None,
        )
        for i in order
    ]
    return labels, None if is_none else log_mass
