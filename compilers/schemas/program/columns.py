"""Columns: the arrays of a program, written value by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.regular.edges import Edges, pooled
from cdec.core.schemas.program import COLUMNS, REGION_RANK


class Choice(NamedTuple):
    """One way to fill a position or a slot: a value, and the counters that it adds to."""

    value: int
    counters: tuple[int, ...]


Slot = tuple[str, list[Choice], bool, int]
"""Name ("" for a region), choices, whether it is required, and its place among declared names."""


class Columns:
    """Collects the columns of a program; see ``cdec.core.schemas.program``.

    Attributes:
        num_states: States of all automata so far.
    """

    def __init__(self) -> None:
        self.num_states = 0
        self._automata: list[Edges] = []
        self._lists: dict[str, list[int]] = {name: [] for name in COLUMNS}
        for name in COLUMNS:
            if name.endswith("_offsets"):
                self._lists[name].append(0)
        self._slot_choices: list[Choice] = []
        self._slot_ends: list[int] = []
        self._places: list[bytes] = []
        self._keys: list[bytes] = []

    def add_automaton(self, edges: Edges) -> int:
        """Add an automaton to the pool and return its start state."""
        start = self.num_states
        self._automata.append(edges)
        self.num_states += len(edges.state_label)
        return start

    def add_value(
        self,
        raw: int,
        strings: Sequence[tuple[int, int, int]],
        arrays: Sequence[int],
        objects: Sequence[int],
        places: Sequence[str],
    ) -> None:
        """Add the next value: its alternatives, and the JSON pointers that it comes from."""
        put = self._lists
        put["raw_start"].append(raw)
        for start, low, high in strings:
            put["string_start"].append(start)
            put["string_min"].append(low)
            put["string_max"].append(high)
        put["string_offsets"].append(len(put["string_start"]))
        put["array_ids"] += arrays
        put["array_offsets"].append(len(put["array_ids"]))
        put["object_ids"] += objects
        put["object_offsets"].append(len(put["object_ids"]))
        self._places.append("\n".join(places).encode("utf-8", "replace"))

    def add_array(
        self,
        low: int,
        high: int,
        positions: Sequence[Sequence[Choice]],
        counters: Sequence[tuple[int, int]],
        *,
        distinct: bool,
    ) -> int:
        """Add an array, its last position the rest, and return its number."""
        put = self._lists
        put["array_distinct"].append(distinct)
        put["array_min"].append(low)
        put["array_max"].append(high)
        for choices in positions:
            for choice in choices:
                self._add_choice(choice)
            put["position_choice_offsets"].append(len(put["choice_value"]))
        put["array_position_offsets"].append(len(put["position_choice_offsets"]) - 1)
        self._add_counters("array", counters)
        return len(put["array_min"]) - 1

    def add_object(
        self,
        low: int,
        high: int,
        key: int,
        slots: Sequence[Slot],
        counters: Sequence[tuple[int, int]],
        *,
        ordered: bool,
        distinct: bool,
    ) -> int:
        """Add an object, single slots first, and return its number."""
        put = self._lists
        put["object_min"].append(low)
        put["object_max"].append(high)
        put["object_key"].append(key)
        put["object_ordered"].append(ordered)
        put["object_distinct"].append(distinct)
        for name, choices, required, rank in slots:
            self._slot_choices += choices
            self._slot_ends.append(len(self._slot_choices))
            put["slot_single"].append(rank >= 0)
            put["slot_required"].append(required)
            put["slot_rank"].append(rank if rank >= 0 else REGION_RANK)
            self._keys.append(name.encode() if rank >= 0 else b"")
        put["object_slot_offsets"].append(len(self._slot_ends))
        self._add_counters("object", counters)
        return len(put["object_min"]) - 1

    def _add_choice(self, choice: Choice) -> None:
        put = self._lists
        put["choice_value"].append(choice.value)
        put["choice_counters"] += choice.counters
        put["choice_counter_offsets"].append(len(put["choice_counters"]))

    def _add_counters(self, of: str, counters: Sequence[tuple[int, int]]) -> None:
        put = self._lists
        for low, high in counters:
            put[f"{of}_counter_min"].append(low)
            put[f"{of}_counter_max"].append(high)
        put[f"{of}_counter_offsets"].append(len(put[f"{of}_counter_min"]))

    def arrays(self, blanks: Edges, layout: int, vocabulary: Any) -> dict[str, NDArray[Any]]:
        """Return all columns; slots' choices stand behind those of positions.

        Args:
            blanks: Runs of white space between JSON's tokens.
            layout: The column ``indent``.
            vocabulary: The tokens.
        """
        put = self._lists
        put["blank_start"], put["indent"] = [self.add_automaton(blanks)], [layout]
        base = len(put["choice_value"])
        for choice in self._slot_choices:
            self._add_choice(choice)
        put["slot_choice_offsets"] = [base, *(base + end for end in self._slot_ends)]
        found: dict[str, Any] = dict(put)
        pool, _ = pooled(self._automata)
        found |= pool._asdict()
        found["place_offsets"], found["place_bytes"] = _joined(self._places)
        found["key_offsets"], found["key_bytes"] = _joined(self._keys)
        found["vocabulary_offsets"] = vocabulary.byte_offsets
        found["vocabulary_bytes"] = vocabulary.flat_bytes
        return {
            name: np.ascontiguousarray(np.asarray(found[name], np.dtype(kind)).reshape(-1))
            for name, kind in COLUMNS.items()
        }


def _joined(parts: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(parts), np.uint8)
