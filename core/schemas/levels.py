"""Levels of nesting that a session's states stand for, and where a text leaves a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.core.schemas.program import SchemaArrays
from cdec.core.schemas.session import SchemaSession
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import follow, line_and_column

_RANK, _COUNTERS = 1, 5
"""Of the progress of an object: where the last key's rank stands, and where its counters begin."""


class Phase(IntEnum):
    """Phase of a level of nesting: what stands there or is awaited, as the library numbers it."""

    ROOT_VALUE = 0
    ROOT_DONE = 1
    OBJECT_OPEN = 2
    OBJECT_COMMA = 3
    OBJECT_COLON = 4
    OBJECT_VALUE = 5
    OBJECT_NEXT = 6
    ARRAY_OPEN = 7
    ARRAY_VALUE = 8
    ARRAY_NEXT = 9
    KEY = 10
    STRING = 11
    RAW = 12


_VALUES = (Phase.ROOT_VALUE, Phase.OBJECT_VALUE, Phase.ARRAY_VALUE)
_SPELLED = (Phase.STRING, Phase.RAW)
_KEYS = (Phase.OBJECT_OPEN, Phase.OBJECT_COMMA, Phase.KEY)
_BEHIND = (b"", b",", b"]", b"}", b" ", b"\t", b"\r", b"\n")
_NEXT = {
    Phase.ROOT_VALUE: Phase.ROOT_DONE,
    Phase.OBJECT_VALUE: Phase.OBJECT_NEXT,
    Phase.ARRAY_VALUE: Phase.ARRAY_NEXT,
}
_VALUE, _PART, _PLACE, _CONTENT = range(4)
"""Columns of alternatives."""
_STARTS = {"-": "number", "t": "true", "f": "false", "n": "null"}


@dataclass(frozen=True)
class Level:
    """The innermost level of a state: what is awaited or spelled there, by all alternatives.

    Attributes:
        arrays: The program.
        phase: What stands or is awaited here.
        items: int64[n, 4], the alternatives, as the engine gives them.
        progress: The progress of each that has one, int64[...].
        outside: Of raw texts, which end where something else begins: the level that awaits them.
    """

    arrays: SchemaArrays
    phase: Phase
    items: NDArray[np.int64]
    progress: list[NDArray[np.int64]]

    outside: Level | None = None

    @classmethod
    def of(cls, session: SchemaSession, state: int, outward: int = 0) -> Level:
        """Read a state, neither DEAD nor DONE, ``outward`` levels outside of the innermost.

        First come phase, frame outside, text and 0; then value, part, place and content of each
        alternative (``native/schemas/frames.h``).
        """
        handle, rows = session.engine.handle, np.empty((0, 4), np.int64)
        while (n := library.schema_engine_level(handle, state, outward, rows)) > len(rows):
            rows = np.empty((n, 4), np.int64)
        phase, items = Phase(int(rows[0, 0])), rows[1:]
        progress = []
        if Phase.OBJECT_OPEN <= phase <= Phase.KEY:
            progress = [_progress(handle, number) for number in items[:, _PLACE].tolist()]
        outside = cls.of(session, state, outward + 1) if phase == Phase.RAW else None
        return cls(session.engine.arrays, phase, items, progress, outside)

    def at(self, byte: bytes) -> Level:
        """Return the level at which the next byte is refused.

        One state stands for what opens an array and what awaits its first element, and one for a
        number and what stands behind it.
        """
        if self.phase == Phase.ARRAY_OPEN and byte not in (b"", b"]"):
            return self._first_element()
        if self.outside is not None and byte in _BEHIND:
            return self._behind(self.outside)
        return self

    def _first_element(self) -> Level:
        arrays, awaited = self.arrays, []
        for value, array in self.items[:, : _PART + 1].tolist():
            first = arrays.array_position_offsets[array]
            begin, end = arrays.position_choice_offsets[first : first + 2].tolist()
            awaited += [(value, array, 0, of) for of in arrays.choice_value[begin:end].tolist()]
        if not awaited:
            return self
        return Level(arrays, Phase.ARRAY_VALUE, np.array(awaited, np.int64), [])

    def _behind(self, outside: Level) -> Level:
        """Return what stands behind a finished raw text; this where none may be finished."""
        ended = self.items[self.arrays.state_label[self.items[:, _PLACE]] >= 0, _VALUE]
        kept = np.isin(outside.items[:, _CONTENT], ended)
        if not kept.any():
            return self
        progress = [one for one, is_kept in zip(outside.progress, kept, strict=False) if is_kept]
        return Level(self.arrays, _NEXT[outside.phase], outside.items[kept], progress)

    @property
    def is_within(self) -> bool:
        """True where a value is awaited or spelled, not what stands between values."""
        return self.phase in (*_VALUES, *_SPELLED)

    @property
    def awaits_value(self) -> bool:
        """True where a value may begin here."""
        return self.phase in _VALUES

    @cached_property
    def places(self) -> list[str]:
        """JSON pointers of the schemas that what stands here must satisfy, sorted."""
        column = self.items[:, _CONTENT if self.phase in _VALUES else _VALUE]
        found: set[str] = set()
        for value in np.unique(column).tolist():
            begin, end = self.arrays.place_offsets[value : value + 2].tolist()
            found.update(self.arrays.place_bytes[begin:end].tobytes().decode().split("\n"))
        return sorted(found)

    def expected(self, shown: int) -> list[str]:
        """Return what may stand here, in words: of keys ``shown``; within a text nothing."""
        if self.phase in _VALUES:
            return self._types()
        if self.phase in _KEYS:
            keys = list(dict.fromkeys(self._keys(required=True)))
            keys += [key for key in self._keys(required=False) if key not in keys]
            more = [f"{len(keys) - shown} more keys"] if len(keys) > shown else []
            return keys[:shown] + more + (["another key"] if self._takes_others() else [])
        if self.phase == Phase.OBJECT_NEXT:
            return list(dict.fromkeys(self._keys(required=True)))[:shown] or ["}"]
        return []

    def _types(self) -> list[str]:
        arrays, found = self.arrays, dict[str, None]()
        for value in np.unique(self.items[:, _CONTENT]).tolist():
            for name, offsets in (
                ("object", arrays.object_offsets),
                ("array", arrays.array_offsets),
                ("string", arrays.string_offsets),
            ):
                if offsets[value] < offsets[value + 1]:
                    found[name] = None
            start = int(arrays.raw_start[value])
            if start >= 0:
                begin, end = arrays.state_edges[start : start + 2].tolist()
                for edge in range(begin, end):
                    for byte in range(arrays.edge_low[edge], arrays.edge_high[edge] + 1):
                        found[_STARTS.get(chr(byte), "number")] = None
        return sorted(found)

    def _objects(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        made = self.items[:, _PART].tolist()
        return zip(made, self.progress, strict=True)

    def _keys(self, *, required: bool) -> Iterator[str]:
        """Yield the named keys that are still to come, as JSON; those of the schema or all."""
        arrays = self.arrays
        for made, progress in self._objects():
            first, last = arrays.object_slot_offsets[made : made + 2].tolist()
            counters = int(np.diff(arrays.object_counter_offsets[made : made + 2])[0])
            for slot in range(first, last):
                if not arrays.slot_single[slot] or (required and not arrays.slot_required[slot]):
                    continue
                if not _is_seen(arrays, made, slot, slot - first, progress, counters):
                    begin, end = arrays.key_offsets[slot : slot + 2].tolist()
                    key = arrays.key_bytes[begin:end].tobytes().decode()
                    yield f"key {json.dumps(key, ensure_ascii=False)}"

    def _takes_others(self) -> bool:
        arrays = self.arrays
        return any(
            not arrays.slot_single[slice(*arrays.object_slot_offsets[made : made + 2])].all()
            for made, _ in self._objects()
        )


def _progress(handle: Any, number: int) -> NDArray[np.int64]:
    """Return the numbers of a progress of an array or object, int64[n]."""
    numbers = np.empty(0, np.int64)
    while (n := library.schema_engine_progress(handle, number, numbers)) > len(numbers):
        numbers = np.empty(n, np.int64)
    return numbers


def _is_seen(
    arrays: SchemaArrays, made: int, slot: int, number: int, progress: Any, counters: int
) -> bool:
    """Say whether a named key stood in the text already, or can no longer come."""
    if arrays.object_ordered[made]:
        return bool(arrays.slot_rank[slot] <= progress[_RANK])
    word = int(progress[_COUNTERS + counters + (number >> 6)])
    return bool(word >> (number & 63) & 1)


def json_pointer(text: bytes, *, within: bool) -> str:
    """Return the JSON pointer of where a text that breaks off is.

    Args:
        text: The beginning of a JSON text.
        within: Whether the place is that of a value, not of what stands between values.
    """
    keys: list[str | int | None] = []
    at = 0
    while at < len(text):
        byte = text[at : at + 1]
        if byte == b'"':
            end = string_end(text, at)
            if end is None:
                break
            rest = text[end:].lstrip(b" \t\r\n")
            if keys and keys[-1] is None and (not rest or rest[:1] == b":"):
                keys[-1] = json.loads(text[at:end])
            at = end
            continue
        if byte == b"{":
            keys.append(None)
        elif byte == b"[":
            keys.append(0)
        elif byte in (b"}", b"]") and keys:
            keys.pop()
        elif byte == b"," and keys:
            last = keys[-1]
            keys[-1] = last + 1 if isinstance(last, int) else None
        at += 1
    if not within and keys:
        keys.pop()
    parts = (str(key).replace("~", "~0").replace("/", "~1") for key in keys if key is not None)
    return "".join(f"/{part}" for part in parts)


def string_end(text: bytes, at: int) -> int | None:
    """Return where the string that begins at ``at`` ends; None where the text breaks off in it."""
    at += 1
    while at < len(text):
        if text[at] == 0x5C:
            at += 2
        elif text[at] == 0x22:
            return at + 1
        else:
            at += 1
    return None


def text_refusal(
    session: SchemaSession, vocabulary: Vocabulary, text: bytes, shown: int
) -> dict[str, Any] | None:
    """Return where a text leaves the schema and what may stand there; None for members.

    Args:
        session: Of the schema.
        vocabulary: Of the model.
        text: Any bytes.
        shown: How many continuations to list.

    Returns:
        ``byte`` (from 0), ``line`` and ``column`` (from 1), ``json_path`` (of the value, or of the
        object or array between whose parts it is), ``schema_path`` (of all schemas that what stands
        there must satisfy), ``expected`` (in words), ``allowed`` (texts of tokens, the shortest
        first), ``allowed_count`` and ``may_end``.
    """
    place = follow(session, int(session.start(1)[0]), text)
    states = np.array([place.state], np.int64)
    may_end = bool(session.is_complete(states)[0])
    if place.byte == len(text) and may_end:
        return None
    level = Level.of(session, place.state).at(text[place.byte : place.byte + 1])
    line, column = line_and_column(text, place.byte)
    ids, ends = session.allowed(states)[1], frozenset(vocabulary.eos_token_ids)
    table = vocabulary.token_bytes
    pieces = sorted({table[i] for i in ids.tolist() if i not in ends}, key=lambda b: (len(b), b))
    return {
        "byte": place.byte,
        "line": line,
        "column": column,
        "json_path": json_pointer(text[: place.byte], within=level.is_within),
        "schema_path": level.places,
        "expected": level.expected(shown),
        "allowed": [piece.decode("utf-8", "replace") for piece in pieces[:shown]],
        "allowed_count": len(ids),
        "may_end": may_end,
    }
