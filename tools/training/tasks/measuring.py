"""Metrics of a task's model: what it writes freely, and what under the task's constraint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdec.core.models.language_model import LanguageModel
from cdec.data.metrics.answers import scored
from cdec.data.metrics.evaluation import DEFAULT_KS, metrics_of
from cdec.data.metrics.metric import Metric, Terms
from cdec.data.metrics.records import NOT_JSON, Evaluated
from cdec.integrations.findings.trees import shared_brackets
from cdec.samplers.rewards import build_reward
from cdec.samplers.sampling import sample
from tools.training.tasks.examples import Example

Row = dict[str, float | None]
_COVERAGE = build_reward("coverage")


def _coverage(text: str, record: Evaluated) -> float:
    return float(_COVERAGE.scores([text], [record.reference])[0])


def _answer(text: str, record: Evaluated) -> float:
    value, right = record.json_values[0], (record.reference or {})["value"]["answer"]
    return float(isinstance(value, dict) and value.get("answer") == right)


def _answer_of(source: str) -> Metric:
    """Return the share of right answers among the problems of a source."""

    def score(text: str, record: Evaluated) -> float | None:
        is_one = (record.reference or {})["source"] == source
        return _answer(text, record) if is_one else None

    return scored(f"answer, {source}", "Share of right answers.", "problems", score)


def _entity_terms(record: Evaluated) -> Terms:
    """Return twice the entities found, and those that are given and right; no text gives none."""
    given = Counter(_entities(record.json_values[0])) if record.samples else Counter()
    right = Counter(_entities((record.reference or {})["value"]))
    return 2.0 * (given & right).total(), float(given.total() + right.total())


def _entities(value: Any) -> list[tuple[str, str]]:
    listed = value.get("entities") if value is not NOT_JSON and isinstance(value, dict) else None
    pairs = listed if isinstance(listed, list) else []
    return [(str(p[0]), str(p[1])) for p in pairs if isinstance(p, list) and len(p) == 2]


def _bracket_terms(record: Evaluated) -> Terms:
    """Return twice the brackets found, and those that are given and right; no text gives none."""
    text = record.samples[0]["text"] if record.samples else None
    found, given, right = shared_brackets(text or "", (record.reference or {})["tree"])
    return 2.0 * found, float(given + right)


def _is_tree(text: str, record: Evaluated) -> float:
    return float(text.split() == (record.reference or {})["tree"].split())


METRICS: dict[str, Metric] = metrics_of(
    DEFAULT_KS,
    [
        scored("coverage", "Share of the concepts that a sentence has.", "concepts", _coverage),
        scored(
            "all concepts",
            "Share of the sentences that have all concepts.",
            "concepts",
            lambda text, record: float(_coverage(text, record) == 1.0),
        ),
        _answer_of("GSM8K"),
        _answer_of("generated"),
        Metric("bracket F1", "Micro F1 of phrases with labels.", "trees", _bracket_terms),
        scored("tree", "Share of the trees that are the sentence's.", "trees", _is_tree),
        Metric("entity F1", "Micro F1 of spans with their types.", "entities", _entity_terms),
    ],
)


def measure(
    model: LanguageModel,
    constraint: Any,
    examples: Sequence[Example],
    names: Sequence[str],
    methods: Mapping[str, tuple[str, Mapping[str, Any]]],
    **how: Any,
) -> dict[str, Row]:
    """Draw for every row by every method, and return the task's metrics.

    Args:
        model: The task's.
        constraint: As ``sample`` takes it, one or one for each row.
        examples: Rows that are held out.
        names: Of ``METRICS``.
        methods: Method and options by what the row is called; those called "free ..." have no
            constraint.
        how: Other arguments of ``sample``.

    Returns:
        The metrics by method; nothing where there are no rows. Cost: the draws.
    """
    prompts = [example.prompt for example in examples]
    found: dict[str, Row] = {}
    for title, (method, options) in methods.items() if prompts else ():
        is_free = title.startswith("free")
        arguments: dict[str, Any] = {**how, **options}
        if is_free:
            arguments.pop("fit", None)
        drawn = sample(
            model,
            None if is_free else constraint,
            prompts,
            method,
            ids=range(len(prompts)),
            **arguments,
        )
        records = [
            Evaluated(
                i,
                [_fields(each) for each in samples],
                example.reference,
                as_compared=str.strip,
                uses_weights=False,
            )
            for i, (samples, example) in enumerate(zip(drawn, examples, strict=True))
        ]
        found[title] = {name: _value(METRICS[name], records) for name in names}
    return found


def _fields(each: Any) -> dict[str, Any]:
    fields = each.to_json(("text", "finish_reason", "rank"))
    if fields["text"] is not None and fields["finish_reason"] != "complete":
        fields["text"] = None
    return {name: value for name, value in fields.items() if name != "rank" or value is not None}


def _value(metric: Metric, records: Sequence[Evaluated]) -> float | None:
    """Return a metric; None where it says nothing of any record."""
    terms = [found for record in records if (found := metric.terms(record)) is not None]
    if not terms:
        return None
    return float(metric.value(np.sum(np.array(terms, np.float64), axis=0)))
