"""Costs of samples: calls and tokens of the models, tokens of the texts, time where it is told."""

from __future__ import annotations

from collections.abc import Callable

from cdec.data.metrics.metric import Metric, Terms
from cdec.data.metrics.records import Evaluated

_COUNTED = {
    "target_calls": ("calls", "Calls of the model a sample: one is one text in one forward pass."),
    "path_calls": (
        "calls",
        "Calls of the model a sample, as if no prefix were kept: as papers count.",
    ),
    "target_tokens": ("tokens", "Tokens that the model read a sample."),
    "draft_calls": ("calls", "Calls of the draft a sample."),
    "distinct_evaluations": ("prefixes", "Distinct prefixes that were evaluated a sample."),
    "cost_per_token": (
        "calls",
        "Calls of the model a token, those of the draft counted by their cost; mean of samples.",
    ),
    "acceptance_rate": ("share", "Share of proposed tokens that were accepted, mean of samples."),
    "seconds": ("s", "Seconds a sample, where records tell them."),
}


def _mean_field(name: str) -> Callable[[Evaluated], Terms]:
    def terms(record: Evaluated) -> Terms:
        values = [each[name] for each in record.samples if isinstance(each.get(name), int | float)]
        return (float(sum(values)), float(len(values))) if values else None

    return terms


def _tokens(record: Evaluated) -> Terms:
    lengths = [len(each["token_ids"]) for each in record.samples if each.get("token_ids")]
    return (float(sum(lengths)), float(len(lengths))) if lengths else None


COST_METRICS = [
    *(
        Metric(
            name,
            meaning,
            f"samples with {name}",
            _mean_field(name),
            better="higher" if name == "acceptance_rate" else "lower",
            unit=unit,
        )
        for name, (unit, meaning) in _COUNTED.items()
    ),
    Metric("tokens", "Tokens a text.", "samples with token_ids", _tokens, better="", unit="tokens"),
]
