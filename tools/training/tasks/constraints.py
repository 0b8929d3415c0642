"""Constraints of the tasks: what may be written of each row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cdec.compilers import choices, grammar, regex, schema
from cdec.integrations.findings.trees import Labels, grammar_of, words_of
from tools.training.tasks.examples import Data, Example

_SENTENCE = r" [A-Z][A-Za-z ,'-]*[.!?]"
_MOST_WORDS = 8


def members(data: Data, examples: Sequence[Example]) -> Any:
    """Return the set of all texts of the task."""
    return choices(data.members)


def candidates(data: Data, examples: Sequence[Example]) -> Any:
    """Return the set of each row's candidates."""
    return [choices(example.candidates) for example in examples]


def solution(data: Data, examples: Sequence[Example]) -> Any:
    """Return JSON with steps that are calculations, and an answer that is an integer."""
    number = r"\d+(\.\d+)?"
    calculation = rf"^[-(]?{number}([-+*/()]+{number})*\)?={number}$"
    steps = {"type": "array", "items": {"type": "string", "pattern": calculation}}
    return schema(_closed({"steps": steps, "answer": {"type": "integer"}}))


def tagged_spans(data: Data, examples: Sequence[Example]) -> Any:
    """Return JSON with entities, each a span of the row's own words and a type."""
    types = sorted({kind for e in data.held_out for _, kind in e.reference["value"]["entities"]})
    return [schema(_entities(example.reference["tokens"], types)) for example in examples]


def _entities(tokens: Sequence[str], types: Sequence[str]) -> dict[str, Any]:
    spans = {
        " ".join(tokens[first : first + length])
        for first in range(len(tokens))
        for length in range(1, _MOST_WORDS + 1)
    }
    entity = {
        "type": "array",
        "prefixItems": [{"enum": sorted(spans)}, {"enum": list(types)}],
        "items": False,
        "minItems": 2,
    }
    return _closed({"entities": {"type": "array", "items": entity}})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def all_concepts(data: Data, examples: Sequence[Example]) -> Any:
    """Return sentences that have a form of each of the row's concepts as a word."""
    found = []
    for example in examples:
        words = ["|".join(map(re.escape, sorted(forms))) for forms in _forms(example)]
        held = [rf"(?:.*[^A-Za-z])?(?:{word})(?:[^A-Za-z].*)?" for word in words]
        found.append(regex(_SENTENCE, conjoined=held))
    return found


def _forms(example: Example) -> list[list[str]]:
    """Return the forms of each concept; one that no list of inflections holds is its own form."""
    # The lists are not in the order of the concepts.
    lists = [list(forms) for forms in example.reference["inflections"] if forms]
    listed = {form.casefold() for forms in lists for form in forms}
    alone = [[c] for c in example.reference["concepts"] if c.casefold() not in listed]
    return lists + alone


def trees(data: Data, examples: Sequence[Example]) -> Any:
    """Return the trees of each row's words, with any label of the rows."""
    labels = Labels.of(example.reference["tree"] for example in data.held_out)
    return [
        grammar(grammar_of(words_of(example.reference["tree"]), labels), format="ebnf")
        for example in examples
    ]
