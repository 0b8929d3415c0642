"""What the benchmark of decoding draws: prompts, and the constraints of each workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cdec.compilers import SchemaOptions, grammar_constraint, schema_constraint, set_constraint
from cdec.core import FreeText, LanguageModel
from tools.benchmarks.sets.titles import synthetic_titles

_LIST = 'start: "[" ITEM ("," ITEM)~7 "]"\nITEM: /"[a-z]{2,8}"/'
_KINDS = ("city", "river", "country", "person", "mountain", "company")
_OPTIONS = SchemaOptions(property_order="declared", whitespace="compact")


@dataclass(frozen=True)
class Workload:
    """Texts of one kind, one a prompt.

    Attributes:
        method: Of cdec.
        constraints: One a prompt; None draws from the model alone.
        free: What stands before the constraint; None for nothing.
        schemas: One a prompt, which the peers are given; empty where they are not run.
    """

    method: str
    constraints: Sequence[Any]
    free: FreeText | None = None
    schemas: Sequence[str] = ()


def prompts(batch: int) -> list[str]:
    """Return as many prompts of a question's length, no two alike."""
    return [f"Question {i}: Tell me of the thing {7 * i}.\nAnswer:" for i in range(batch)]


def schema(number: int) -> str:
    """Return a schema whose texts have some 50 tokens; each number has names of its own."""
    properties: Mapping[str, object] = {
        f"name{number}": {"type": "string", "minLength": 8, "maxLength": 12},
        f"size{number}": {"type": "integer", "minimum": 100, "maximum": 999},
        f"kind{number}": {"enum": list(_KINDS)},
        f"tags{number}": {
            "type": "array",
            "items": {"type": "string", "minLength": 4, "maxLength": 8},
            "minItems": 3,
            "maxItems": 3,
        },
    }
    asked = {"type": "object", "properties": properties, "required": list(properties)}
    return json.dumps(asked | {"additionalProperties": False})


class Workloads:
    """The workloads of one model, whose constraints are made once.

    Args:
        model: Whose vocabulary they are made for.
        members: Of the set.
    """

    def __init__(self, model: LanguageModel, members: int) -> None:
        self._vocabulary = model.vocabulary
        self._members = members
        self._schemas: dict[int, Any] = {}
        self.named: dict[str, Callable[[int], Workload]] = {
            "unconstrained": lambda batch: Workload("unconstrained", [None] * batch),
            "JSON of one schema": lambda batch: self._json([0] * batch),
            "a schema a record": lambda batch: self._json(list(range(1, batch + 1))),
            "set, masked": lambda batch: Workload("masked", [self._titles] * batch),
            "set, greedy": lambda batch: Workload("greedy", [self._titles] * batch),
            "list after free text": self._after_free_text,
        }
        """Workload of a batch by name."""

    def _json(self, numbers: list[int]) -> Workload:
        sources = {number: schema(number) for number in numbers}
        for number, source in sources.items():
            if number not in self._schemas:
                self._schemas[number] = schema_constraint(source, self._vocabulary, _OPTIONS)
        held = [self._schemas[number] for number in numbers]
        return Workload("masked", held, schemas=[sources[number] for number in numbers])

    def _after_free_text(self, batch: int) -> Workload:
        return Workload("masked", [self._list] * batch, FreeText(after=("\nList:",), budget=24))

    @cached_property
    def _titles(self) -> Any:
        texts = (title for part in synthetic_titles(self._members) for title in part)
        return set_constraint(texts, self._vocabulary)

    @cached_property
    def _list(self) -> Any:
        return grammar_constraint(_LIST, self._vocabulary)


def shared_model(folder: Path, name: str) -> str | None:
    """Return the folder of a model of the shared data; None where it is absent."""
    path = folder / "data" / f"model_{name}" / "hf"
    return str(path) if path.is_dir() else None
