"""Programs written by hand: automata by example, columns from plain Python data."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cdec.core.schemas.program import ABSORBING, FREE, REGION_RANK, SchemaArrays, arrays_from
from cdec.core.tokens.vocabulary import Vocabulary

State = Hashable
Step = Callable[[Any, int], Any]
"""State and byte -> the next state, None where there is none."""


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton given by functions; states are anything hashable."""

    start: Any
    step: Step
    label: Callable[[Any], int]


_LEADS = (
    (range(0x80), ()),
    (range(0xC2, 0xE0), ((0x80, 0xBF),)),
    (range(0xE0, 0xE1), ((0xA0, 0xBF), (0x80, 0xBF))),
    (range(0xE1, 0xED), ((0x80, 0xBF), (0x80, 0xBF))),
    (range(0xED, 0xEE), ((0x80, 0x9F), (0x80, 0xBF))),
    (range(0xEE, 0xF0), ((0x80, 0xBF), (0x80, 0xBF))),
    (range(0xF0, 0xF1), ((0x90, 0xBF), (0x80, 0xBF), (0x80, 0xBF))),
    (range(0xF1, 0xF4), ((0x80, 0xBF), (0x80, 0xBF), (0x80, 0xBF))),
    (range(0xF4, 0xF5), ((0x80, 0x8F), (0x80, 0xBF), (0x80, 0xBF))),
)


def _utf8(pending: tuple[tuple[int, int], ...], byte: int) -> Any:
    if pending:
        low, high = pending[0]
        return pending[1:] if low <= byte <= high else None
    return next((more for leads, more in _LEADS if byte in leads), None)


def anything() -> Automaton:
    """Every string."""
    return Automaton((), _utf8, lambda pending: -1 if pending else 0)


def words(texts: Iterable[str]) -> Automaton:
    """These strings, raw texts or keys; the label is the place in the sorted list."""
    spelled = sorted({text.encode() for text in texts})

    def step(prefix: bytes, byte: int) -> Any:
        longer = prefix + bytes([byte])
        return longer if any(word.startswith(longer) for word in spelled) else None

    return Automaton(b"", step, lambda p: spelled.index(p) if p in spelled else -1)


def keyed(names: Iterable[str], regions: Sequence[str]) -> Automaton:
    """Named keys, and regions: keys that begin so, the first that fits ("" fits all)."""
    spelled = sorted({name.encode() for name in names})
    heads = [region.encode() for region in regions]

    def reduced(prefix: bytes) -> Any:
        """Keep of a prefix what decides: itself while more may fit, then the region it is in."""
        if any(word.startswith(prefix) for word in (*spelled, *heads)):
            return prefix
        return next((j for j, head in enumerate(heads) if prefix.startswith(head)), None)

    def step(state: Any, byte: int) -> Any:
        place, pending = state
        after = _utf8(pending, byte)
        further = place if isinstance(place, int) else reduced(place + bytes([byte]))
        return None if after is None or further is None else (further, after)

    def label(state: Any) -> int:
        place, pending = state
        if pending:
            return -1
        if isinstance(place, int):
            return len(spelled) + place
        if place in spelled:
            return spelled.index(place)
        fits = [j for j, head in enumerate(heads) if place.startswith(head)]
        return len(spelled) + fits[0] if fits else -1

    return Automaton((b"", ()), step, label)


def integers() -> Automaton:
    """Integers without a fraction."""

    def step(state: str, byte: int) -> Any:
        char = chr(byte)
        if state == "start" and char == "-":
            return "minus"
        if state in ("start", "minus") and char == "0":
            return "zero"
        if state in ("start", "minus", "digits") and char in "0123456789":
            return "digits"
        return None

    return Automaton("start", step, lambda s: 0 if s in ("zero", "digits") else -1)


def blanks(most: int) -> Automaton:
    """Runs of at most so many spaces and line feeds."""
    return Automaton(0, lambda n, byte: n + 1 if n < most and byte in b" \n" else None, lambda _: 0)


@dataclass(frozen=True)
class Choice:
    """A value, by its number, and the counters that it adds to."""

    value: int
    counters: tuple[int, ...] = ()


@dataclass(frozen=True)
class Text:
    """Strings of an automaton; bounds only where all lengths are possible."""

    automaton: Automaton
    low: int = 0
    high: int = -1


@dataclass(frozen=True)
class Array:
    """Positions of choices, the last of them the rest."""

    positions: Sequence[Sequence[Choice]]
    low: int = 0
    high: int = -1
    counters: Sequence[tuple[int, int]] = ()
    distinct: bool = False


@dataclass(frozen=True)
class Object:
    """Named keys, and regions of keys by their beginnings, each with choices."""

    named: dict[str, Sequence[Choice]] = field(default_factory=dict)
    regions: dict[str, Sequence[Choice]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    low: int = 0
    high: int = -1
    counters: Sequence[tuple[int, int]] = ()
    order: Sequence[str] | None = None
    distinct: bool = False


@dataclass(frozen=True)
class Value:
    """A union of alternatives."""

    raw: Automaton | None = None
    strings: Sequence[Text] = ()
    arrays: Sequence[Array] = ()
    objects: Sequence[Object] = ()
    place: str = ""


def program(
    values: Sequence[Value], vocabulary: Vocabulary, blank: Automaton | None = None, indent: int = 0
) -> SchemaArrays:
    """Return the columns of values; the first is the whole text."""
    return _Writer(vocabulary).write(values, blank or blanks(2), indent)


METADATA = {
    "cdec.schema": "true",
    "cdec.options": "{}",
    "cdec.unenforced": "[]",
    "cdec.sound": "1",
}


def metadata_for(vocabulary: Vocabulary) -> dict[str, str]:
    """Return metadata of an artifact of a program."""
    return METADATA | {
        "cdec.vocabulary_hash": vocabulary.vocabulary_hash,
        "cdec.tokenization_hash": "",
        "cdec.vocabulary_size": str(vocabulary.size),
        "cdec.vocabulary_name": vocabulary.name,
        "cdec.eos": json.dumps(list(vocabulary.eos_token_ids)),
    }


class _Writer:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in SchemaArrays._fields}
        for name in SchemaArrays._fields:
            if name.endswith("_offsets") or name == "state_edges":
                self.columns[name] = [0]
        self.columns["vocabulary_offsets"] = vocabulary.byte_offsets.tolist()
        self.columns["vocabulary_bytes"] = vocabulary.flat_bytes.tolist()

    def write(self, values: Sequence[Value], blank: Automaton, indent: int) -> SchemaArrays:
        arrays: list[Array] = [array for value in values for array in value.arrays]
        objects: list[Object] = [made for value in values for made in value.objects]
        self.columns["blank_start"], self.columns["indent"] = [self.automaton(blank)], [indent]
        for value in values:
            self._value(value, arrays, objects)
        for array in arrays:
            self._array(array)
        # Slots' choices begin where those of positions end.
        self.columns["slot_choice_offsets"] = [self.columns["position_choice_offsets"][-1]]
        for made in objects:
            self._object(made)
        return arrays_from(self.columns)

    def _value(self, value: Value, arrays: list[Array], objects: list[Object]) -> None:
        add = self.columns
        add["raw_start"].append(-1 if value.raw is None else self.automaton(value.raw, plain=True))
        for text in value.strings:
            add["string_start"].append(self.automaton(text.automaton, plain=True))
            add["string_min"].append(text.low)
            add["string_max"].append(text.high)
        add["array_ids"] += [_place(arrays, array) for array in value.arrays]
        add["object_ids"] += [_place(objects, made) for made in value.objects]
        add["place_bytes"] += value.place.encode()
        for name, of in _ENDS.items():
            add[name].append(len(add[of]))

    def _choices(self, choices: Iterable[Choice]) -> None:
        add = self.columns
        for choice in choices:
            add["choice_value"].append(choice.value)
            add["choice_counters"] += choice.counters
            add["choice_counter_offsets"].append(len(add["choice_counters"]))

    def _array(self, array: Array) -> None:
        add = self.columns
        for choices in array.positions:
            self._choices(choices)
            add["position_choice_offsets"].append(len(add["choice_value"]))
        add["array_min"].append(array.low)
        add["array_max"].append(array.high)
        add["array_distinct"].append(int(array.distinct))
        add["array_position_offsets"].append(len(add["position_choice_offsets"]) - 1)
        self._counters("array", array.counters)

    def _counters(self, owner: str, counters: Sequence[tuple[int, int]]) -> None:
        self.columns[f"{owner}_counter_min"] += [low for low, _ in counters]
        self.columns[f"{owner}_counter_max"] += [high for _, high in counters]
        ends = self.columns[f"{owner}_counter_offsets"]
        ends.append(len(self.columns[f"{owner}_counter_min"]))

    def _object(self, made: Object) -> None:
        add, regions = self.columns, list(made.regions)
        names = sorted(made.named, key=str.encode)
        order = list(made.order if made.order is not None else names)
        for name in names:
            self._slot(made.named[name], name, order.index(name), name in made.required)
        for region in regions:
            self._slot(made.regions[region], None, REGION_RANK, False)
        add["object_min"].append(made.low)
        add["object_max"].append(made.high)
        add["object_ordered"].append(int(made.order is not None))
        add["object_distinct"].append(int(made.distinct))
        keys = keyed(names, regions) if names or regions else None
        start = -1 if keys is None else self.automaton(keys, singles=len(names))
        add["object_key"].append(start)
        add["object_slot_offsets"].append(len(add["slot_single"]))
        self._counters("object", made.counters)

    def _slot(self, choices: Iterable[Choice], name: str | None, rank: int, needed: bool) -> None:
        add = self.columns
        self._choices(choices)
        add["slot_choice_offsets"].append(len(add["choice_value"]))
        add["slot_single"].append(int(name is not None))
        add["slot_required"].append(int(needed))
        add["slot_rank"].append(rank)
        add["key_bytes"] += (name or "").encode()
        add["key_offsets"].append(len(add["key_bytes"]))

    def automaton(self, made: Automaton, *, plain: bool = False, singles: int = 0) -> int:
        """Add an automaton's states and return its start; ``plain``: only one label."""
        edges: dict[Any, dict[int, Any]] = {}
        waiting = [made.start]
        while waiting:
            state = waiting.pop()
            if state not in edges:
                nexts = {byte: made.step(state, byte) for byte in range(256)}
                edges[state] = {b: after for b, after in nexts.items() if after is not None}
                waiting += edges[state].values()
        labels = {s: min(made.label(s), 0) if plain else made.label(s) for s in edges}
        facts = _facts(edges, labels, singles)
        order = [s for s in edges if facts[s].shortest is not None]
        add, first = self.columns, len(self.columns["state_label"])
        number = {state: first + i for i, state in enumerate(order)}
        for state in order:
            for low, high, after in _ranges(edges[state], number):
                add["edge_low"].append(low)
                add["edge_high"].append(high)
                add["edge_target"].append(after)
            add["state_edges"].append(len(add["edge_low"]))
            fact = facts[state]
            add["state_label"].append(labels[state])
            add["state_shortest"].append(fact.shortest)
            add["state_free"].append(fact.free)
            add["state_low"].append(fact.low)
            add["state_high"].append(fact.high)
            add["state_open"].append(int(fact.opens) if singles else 1)
        return number[made.start]


_ENDS = {
    "string_offsets": "string_start",
    "array_offsets": "array_ids",
    "object_offsets": "object_ids",
    "place_offsets": "place_bytes",
}


@dataclass
class _Facts:
    shortest: int | None = None
    free: int = 0
    low: int = 0
    high: int = 0
    opens: bool = False


def _facts(
    edges: dict[Any, dict[int, Any]], labels: dict[Any, int], singles: int
) -> dict[Any, _Facts]:
    """Return what the columns say of each state, by going round until nothing changes."""
    facts = {state: _Facts() for state in edges}
    reach: dict[Any, set[int]] = {s: {labels[s]} - {-1} for s in edges}
    for state in edges:
        facts[state].shortest = 0 if labels[state] >= 0 else None
    changed = True
    while changed:
        changed = False
        for state, nexts in edges.items():
            for byte, after in nexts.items():
                steps = facts[after].shortest
                if steps is not None:
                    steps += byte & 0xC0 != 0x80
                    known = facts[state].shortest
                    if known is None or steps < known:
                        facts[state].shortest, changed = steps, True
                if not reach[after] <= reach[state]:
                    reach[state] |= reach[after]
                    changed = True
    for state, fact in facts.items():
        named = [label for label in reach[state] if label < singles]
        fact.low, fact.high = (min(named), max(named) + 1) if named else (0, 0)
        fact.opens = any(label >= singles for label in reach[state])
        fact.free = _freedom(state, edges, labels)
    return facts


def _freedom(start: Any, edges: dict[Any, dict[int, Any]], labels: dict[Any, int]) -> int:
    """Walk the state together with well-formed UTF-8."""
    seen, waiting, free = {(start, ())}, [(start, ())], ABSORBING
    if labels[start] < 0 and not edges[start]:
        return 0
    while waiting:
        state, pending = waiting.pop()
        if not pending and labels[state] != labels[start]:
            free = FREE
        for byte in range(256):
            after = _utf8(pending, byte)
            if after is None:
                continue
            if byte not in edges[state]:
                return 0
            pair = (edges[state][byte], after)
            if pair not in seen:
                seen.add(pair)
                waiting.append(pair)
    return free if labels[start] >= 0 or free == FREE else 0


def _ranges(nexts: dict[int, Any], number: dict[Any, int]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for byte in sorted(nexts):
        after = number.get(nexts[byte])
        if after is None:
            continue
        if found and found[-1][1] == byte - 1 and found[-1][2] == after:
            found[-1] = (found[-1][0], byte, after)
        else:
            found.append((byte, byte, after))
    return found


def _place(items: Sequence[Any], item: Any) -> int:
    return next(i for i, other in enumerate(items) if other is item)


def small_vocabulary(extra: Sequence[bytes] = ()) -> Vocabulary:
    """Every byte, some pieces of JSON, and an end."""
    tokens = [bytes([byte]) for byte in range(256)]
    return Vocabulary([*tokens, *extra, b""], [256 + len(extra)])


def as_numpy(columns: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return writable copies of columns."""
    return {name: np.array(array) for name, array in columns.items()}
