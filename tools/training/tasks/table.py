"""The visible table of tasks: a new one is one entry here, its source and its constraint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdec.integrations.findings.tasks import TASKS as NAMES
from tools.training.tasks import constraints, sources
from tools.training.tasks.examples import Data, Example

Methods = Mapping[str, tuple[str, Mapping[str, Any]]]
_DRAWN: Methods = {
    "free": ("unconstrained", {}),
    "masked": ("masked", {}),
    "disc, K=4": ("disc", {"K": 4}),
}
_OF_SETS: Methods = {
    **_DRAWN,
    "exact": ("exact", {}),
    "free, greedy": ("greedy", {}),
    "topn": ("topn", {"n": 5}),
}
_OF_TEXTS: Methods = {**_DRAWN, "free, greedy": ("greedy", {}), "greedy": ("greedy", {})}


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        source: Reads its rows below a folder that holds ``data/``.
        constraint: Returns what may be written of some rows, for ``cdec.sample``.
        said: The constraint, in words.
        metrics: Names, as ``measuring.METRICS`` has them; the first is the task's own.
        licence: Of the data that it was trained on.
        shape: Of the model: that of the embedded target or draft.
        learning_rate: Peak.
        length: Most new tokens; None is the longest of a set.
        methods: What is measured.
        fit: Whether texts are held to that length.
    """

    source: Callable[[Path], Data]
    constraint: Callable[[Data, Sequence[Example]], Any]
    said: str
    metrics: tuple[str, ...]
    licence: str
    shape: str = "target"
    learning_rate: float = 4e-3
    length: int | None = None
    methods: Methods = field(default_factory=lambda: _OF_SETS)
    fit: bool = False


_CONCEPTS: dict[str, Any] = {
    "source": sources.concepts,
    "constraint": constraints.all_concepts,
    "said": "sentences that have a form of each concept",
    "metrics": ("all concepts", "coverage"),
    "licence": "CommonGen, MIT",
    "length": 40,
    "methods": _OF_TEXTS,
    "fit": True,
}

TASKS: dict[str, Task] = {
    "gloss-lemma": Task(
        sources.glosses,
        constraints.members,
        "the 128,044 lemmas of WordNet",
        ("hits@1", "hits@5"),
        "Open English WordNet, CC BY 4.0 and the Princeton WordNet licence",
    ),
    "mention-title": Task(
        sources.mentions,
        constraints.candidates,
        "up to 20 titles near the mention, the right one among them",
        ("micro_f1", "hits@5"),
        "WNED-WIKI and ELEVANT's benchmarks, Apache-2.0, KORE50 CC BY-SA, texts of Wikipedia "
        "CC BY-SA; sentences of Climate-FEVER, whose repository states none",
    ),
    "concepts-large": Task(**_CONCEPTS),
    "concepts-small": Task(**_CONCEPTS, shape="draft", learning_rate=6e-3),
    "arithmetic": Task(
        sources.problems,
        constraints.solution,
        "JSON with steps that are calculations and an integer as the answer",
        ("answer, generated", "answer, GSM8K", "json_valid"),
        "GSM8K, MIT; generated problems, cdec's own",
        length=120,
        methods=_OF_TEXTS,
        fit=True,
    ),
    "ner": Task(
        sources.entities,
        constraints.tagged_spans,
        "JSON whose entities are spans of the sentence with a type",
        ("entity F1", "json_valid"),
        "WNUT17, CC BY 4.0; CrossNER, MIT",
        length=120,
        methods=_OF_TEXTS,
        fit=True,
    ),
    "query-title": Task(
        sources.queries,
        constraints.members,
        "91,087 titles of Wikipedia",
        ("relevance@1", "ndcg@5", "hits@5"),
        "DBpedia-Entity, MIT; WebQuestions, CC BY 4.0; claims of Climate-FEVER, whose repository "
        "states none; titles of Wikipedia, CC BY-SA",
    ),
    "constituency": Task(
        sources.trees,
        constraints.trees,
        "trees of the sentence's words in their order",
        ("bracket F1", "tree"),
        "GUM's annotation, CC BY 4.0; its texts, CC BY 4.0, CC BY 2.5, CC BY-SA 3.0",
        length=192,
        methods=_OF_TEXTS,
        fit=True,
    ),
}
"""Every task by its name, in the order in which they are trained."""

if tuple(TASKS) != NAMES:
    raise AssertionError("the names of tasks that findings know are others")
