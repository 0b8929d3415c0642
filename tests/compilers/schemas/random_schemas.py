"""Random schemas, and a plain acceptor of their instances."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cdec.compilers.schemas.compile import build_schema
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.tokens.vocabulary import Vocabulary

# --- Random schemas over few names and values, so that their keywords meet each other.

_NAMES = ("a", "b", "ab", "c")
_SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, 5, -1, 1.5, 2.0, "", "a", "b", "ab", "abc")
_PATTERNS = ("^a", "b$", "^[ab]*$", "c", "^.?$")
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    """Return a schema of draft 2020-12; some refer to ``#/$defs/x``, and within it to ``#``."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice((True, {}, {"type": rng.choice(_TYPES)}, {"enum": _some(rng, _SCALARS)}))
    schema: dict[str, Any] = {}
    for keyword in rng.sample(sorted(_KEYWORDS), rng.randint(1, 3)):
        schema[keyword] = _KEYWORDS[keyword](rng, depth - 1)
    if "if" in schema:
        schema[rng.choice(("then", "else"))] = random_schema(rng, depth - 1)
    return schema


def random_document(rng: random.Random) -> Any:
    """Return a schema with definitions that it may refer to."""
    schema = random_schema(rng)
    if isinstance(schema, dict):
        inner = random_schema(rng, 2)
        while "$ref" in repr(inner):
            inner = random_schema(rng, 2)
        schema["$defs"] = {"x": inner}
    return schema


def random_value(rng: random.Random, depth: int = 2) -> Any:
    """Return a JSON value of few names and scalars."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(_SCALARS)
    if kind < 0.65:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {name: random_value(rng, depth - 1) for name in _some(rng, _NAMES, 0)}


def _some(rng: random.Random, items: tuple[Any, ...], least: int = 1) -> list[Any]:
    return rng.sample(items, rng.randint(least, min(3, len(items))))


def _listed(rng: random.Random, depth: int) -> list[Any]:
    return [random_schema(rng, depth) for _ in range(rng.randint(1, 3))]


def _named(rng: random.Random, depth: int) -> dict[str, Any]:
    return {name: _below(rng, depth) for name in _some(rng, _NAMES)}


def _below(rng: random.Random, depth: int) -> Any:
    """Return a schema of another place, which may be the whole again."""
    return {"$ref": "#"} if rng.random() < 0.1 else random_schema(rng, depth)


def _count(rng: random.Random, depth: int) -> int:
    return rng.randint(0, 3)


_KEYWORDS: dict[str, Any] = {
    "type": lambda rng, depth: rng.choice((rng.choice(_TYPES), _some(rng, _TYPES))),
    "enum": lambda rng, depth: [*_some(rng, _SCALARS), random_value(rng)],
    "const": lambda rng, depth: random_value(rng),
    "minimum": _count,
    "exclusiveMaximum": _count,
    "multipleOf": lambda rng, depth: rng.choice((1, 2, 0.5)),
    "minLength": _count,
    "maxLength": _count,
    "pattern": lambda rng, depth: rng.choice(_PATTERNS),
    "items": _below,
    "prefixItems": _listed,
    "contains": random_schema,
    "uniqueItems": lambda rng, depth: True,
    "minItems": _count,
    "maxItems": _count,
    "properties": _named,
    "patternProperties": lambda rng, depth: {
        pattern: random_schema(rng, depth) for pattern in _some(rng, _PATTERNS)
    },
    "additionalProperties": random_schema,
    "propertyNames": lambda rng, depth: rng.choice(
        ({"pattern": "^a"}, {"maxLength": 1}, {"enum": ["a", "b"]}, {"not": {"const": "a"}})
    ),
    "required": lambda rng, depth: _some(rng, _NAMES),
    "minProperties": _count,
    "maxProperties": _count,
    "dependentRequired": lambda rng, depth: {"a": _some(rng, _NAMES)},
    "dependentSchemas": lambda rng, depth: {"b": random_schema(rng, depth)},
    "unevaluatedProperties": random_schema,
    "unevaluatedItems": random_schema,
    "allOf": _listed,
    "anyOf": _listed,
    "oneOf": _listed,
    "not": random_schema,
    "if": random_schema,
    "$ref": lambda rng, depth: "#/$defs/x",
}


# --- A plain reading of a program: whether a JSON value is among the texts, without following
# text.


class Acceptor:
    """Follows values through the columns of a program, with sets of counters.

    Args:
        columns: As ``build_schema`` makes them.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        kept = (name for name in columns if not name.startswith(("vocabulary", "place")))
        self._c = {name: columns[name].tolist() for name in kept}

    def __call__(self, value: Any, number: int = 0) -> bool:
        """Return whether a JSON value belongs to a value of the program."""
        c = self._c
        if isinstance(value, str):
            return any(self._string(i, value) for i in self._range("string_offsets", number))
        if isinstance(value, list):
            ids = (c["array_ids"][i] for i in self._range("array_offsets", number))
            return any(self._array(i, value) for i in ids)
        if isinstance(value, dict):
            ids = (c["object_ids"][i] for i in self._range("object_offsets", number))
            return any(self._object(i, value) for i in ids)
        start = c["raw_start"][number]
        return start >= 0 and self._run(start, json.dumps(value).encode()) >= 0

    def _range(self, offsets: str, number: int) -> range:
        found = self._c[offsets]
        return range(found[number], found[number + 1])

    def _run(self, state: int, text: bytes) -> int:
        """Return the label at which an automaton ends, -1 where it refuses."""
        c = self._c
        for byte in text:
            for edge in self._range("state_edges", state):
                if c["edge_low"][edge] <= byte <= c["edge_high"][edge]:
                    state = c["edge_target"][edge]
                    break
            else:
                return -1
        return int(c["state_label"][state])

    def _string(self, i: int, value: str) -> bool:
        c = self._c
        if not _within(len(value), c["string_min"][i], c["string_max"][i]):
            return False
        return self._run(c["string_start"][i], value.encode("utf-8", "surrogatepass")) >= 0

    def _step(
        self,
        counts: set[tuple[int, ...]],
        choices: Iterable[int],
        value: Any,
        highs: list[int],
    ) -> set[tuple[int, ...]]:
        """Return the counters after one more item or property."""
        c, found = self._c, set()
        for choice in choices:
            if not self(value, c["choice_value"][choice]):
                continue
            counted = [
                c["choice_counters"][i] for i in self._range("choice_counter_offsets", choice)
            ]
            for before in counts:
                after = tuple(n + counted.count(i) for i, n in enumerate(before))
                if all(high < 0 or n <= high for n, high in zip(after, highs, strict=True)):
                    found.add(after)
        return found

    def _counters(self, of: str, number: int) -> tuple[list[int], list[int]]:
        own = self._range(f"{of}_counter_offsets", number)
        c = self._c
        lows = [c[f"{of}_counter_min"][i] for i in own]
        return lows, [c[f"{of}_counter_max"][i] for i in own]

    def _array(self, number: int, value: list[Any]) -> bool:
        c = self._c
        if not _within(len(value), c["array_min"][number], c["array_max"][number]):
            return False
        strings = [item for item in value if isinstance(item, str)]
        if c["array_distinct"][number] and len(set(strings)) < len(strings):
            return False
        lows, highs = self._counters("array", number)
        positions = self._range("array_position_offsets", number)
        counts = {(0,) * len(lows)}
        for i, item in enumerate(value):
            position = positions[min(i, len(positions) - 1)]
            counts = self._step(
                counts, self._range("position_choice_offsets", position), item, highs
            )
        return _enough(counts, lows)

    def _object(self, number: int, value: dict[str, Any]) -> bool:
        c = self._c
        if not _within(len(value), c["object_min"][number], c["object_max"][number]):
            return False
        lows, highs = self._counters("object", number)
        slots = self._range("object_slot_offsets", number)
        counts, seen = {(0,) * len(lows)}, set()
        for name, item in value.items():
            if c["object_key"][number] < 0:
                return False
            label = self._run(c["object_key"][number], name.encode("utf-8", "surrogatepass"))
            if label < 0:
                return False
            seen.add(slots[label])
            counts = self._step(
                counts, self._range("slot_choice_offsets", slots[label]), item, highs
            )
        required = {slot for slot in slots if c["slot_required"][slot]}
        return required <= seen and _enough(counts, lows)


def _within(n: int, low: int, high: int) -> bool:
    return n >= low and (high < 0 or n <= high)


def _enough(counts: set[tuple[int, ...]], lows: list[int]) -> bool:
    return any(all(n >= low for n, low in zip(found, lows, strict=True)) for found in counts)


BYTES = Vocabulary([*(bytes([i]) for i in range(256)), b""], [256], [256])


def program_of(schema: Any, **options: Any) -> Acceptor:
    """Return the acceptor of a schema."""
    columns, _, _ = build_schema(json.dumps(schema), BYTES, SchemaOptions(**options), Path("-"))
    return Acceptor(columns)


def report_of(schema: Any, **options: Any) -> Any:
    """Compile a schema and return its report."""
    return build_schema(json.dumps(schema), BYTES, SchemaOptions(**options), Path("-"))[2]
