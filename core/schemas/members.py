"""Members of sets within a JSON text, and why a string is none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.schemas.levels import Level, Phase, string_end
from cdec.core.schemas.program import SchemaArrays
from cdec.core.schemas.regex_strings import RegexStart, RegexTexts
from cdec.core.schemas.session import SchemaSession
from cdec.core.session import DEAD
from cdec.core.sets.chosen import MemberChoice
from cdec.core.sets.within import MemberTexts, character_end

_OF_STRINGS = ("string_start", "string_min", "string_max")
_PART = 1
"""Column of an alternative: which string it is."""


Choices: TypeAlias = Sequence[MemberChoice | RegexStart]
"""Which members strings are, by their numbers."""
Held: TypeAlias = Sequence[MemberTexts | RegexTexts | None]
"""They; None where there are none."""


def require_values(arrays: SchemaArrays, choices: Choices, held: Held) -> None:
    """Refuse a program of which a value has no text, as there are none of some members.

    Raises:
        EmptySetError: With the names of the sets.
    """
    for number in (number for number, one in enumerate(held) if one is None):
        for string in np.flatnonzero(arrays.string_start == -1 - number).tolist():
            value = int(np.searchsorted(arrays.string_offsets, string, "right")) - 1
            starts = arrays.string_start[slice(*arrays.string_offsets[value : value + 2].tolist())]
            others = [start for start in starts.tolist() if start >= 0 or held[-1 - start]]
            others += [int(arrays.raw_start[value])] if arrays.raw_start[value] >= 0 else []
            ends = (arrays.array_offsets, arrays.object_offsets)
            if not others and not any(np.diff(each[value : value + 2]).any() for each in ends):
                raise choices[number].none_left()  # type: ignore[union-attr]  # of sets alone


def without_missing(
    arrays: SchemaArrays, budgets: NDArray[np.int32] | None, held: Held
) -> tuple[SchemaArrays, NDArray[np.int32] | None]:
    """Return a program and its budgets without alternatives of members that there are none of."""
    missing = [-1 - number for number, one in enumerate(held) if one is None]
    if not missing:
        return arrays, budgets
    kept = ~np.isin(arrays.string_start, missing)
    columns = {name: getattr(arrays, name)[kept] for name in _OF_STRINGS}
    before = np.concatenate(([0], np.cumsum(kept)))
    columns["string_offsets"] = before[arrays.string_offsets]
    return arrays._replace(**columns), None if budgets is None else budgets[kept]


def with_capacities(arrays: SchemaArrays, sets: Held) -> SchemaArrays:
    """Return a program whose arrays of members that must differ have no more items than there are.

    Raises:
        UsageError: One must have more.
    """
    most = arrays.array_max.copy()
    for array in np.flatnonzero(arrays.array_distinct).tolist():
        numbers = _sets_of_items(arrays, array)
        if not numbers:
            continue
        constants = int(np.diff(arrays.array_counter_offsets[array : array + 2])[0])
        counts = [of.n_texts for of in (sets[number] for number in numbers) if of is not None]
        if None in counts:
            continue
        capacity = constants + sum(count for count in counts if count is not None)
        if arrays.array_min[array] > capacity:
            raise UsageError(
                f"an array has {int(arrays.array_min[array]):,} items at least that all differ, "
                f"and the set that they are of leaves {capacity:,}",
                hint="give a larger set, or lower minItems",
            )
        most[array] = capacity if most[array] < 0 else min(most[array], capacity)
    return arrays._replace(array_max=most)


def _sets_of_items(arrays: SchemaArrays, array: int) -> set[int]:
    """Return the numbers of the sets whose members are the items of an array, all alike."""
    first, last = arrays.array_position_offsets[array : array + 2].tolist()
    if last - first > 1:
        return set()
    begin, end = arrays.position_choice_offsets[[first, last]].tolist()
    found: set[int] = set()
    for value in arrays.choice_value[begin:end].tolist():
        strings = slice(*arrays.string_offsets[value : value + 2].tolist())
        found.update(-1 - start for start in arrays.string_start[strings].tolist() if start < 0)
    return found


def strings_of(text: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the strings that are values of a JSON text: pointer, first byte, end behind it."""
    keys: list[str | int] = []
    objects: list[bool] = []
    at, awaits_key = 0, False
    while at < len(text):
        byte = text[at : at + 1]
        if byte == b'"':
            end = string_end(text, at)
            if end is None:
                return
            if awaits_key:
                keys[-1] = json.loads(text[at:end])
            else:
                yield "".join(map(_step, keys)), at, end
            at, awaits_key = end, False
            continue
        if byte in (b"{", b"["):
            objects.append(byte == b"{")
            keys.append("" if objects[-1] else 0)
            awaits_key = objects[-1]
        elif byte in (b"}", b"]") and keys:
            keys.pop()
            objects.pop()
            awaits_key = False
        elif byte == b"," and keys:
            last = keys[-1]
            keys[-1] = last + 1 if isinstance(last, int) else ""
            awaits_key = objects[-1]
        at += 1


def refused_string(
    session: SchemaSession,
    text: bytes,
    byte: int,
    choices: Choices,
    held: Held,
) -> dict[str, str]:
    """Return as ``reason`` why a text is refused at a byte within a member; nothing elsewhere."""
    state = session.advance_bytes(session.start(1), [text[:byte]])
    level = Level.of(session, int(state[0]))
    if level.phase != Phase.STRING:
        return {}
    starts = session.engine.arrays.string_start
    numbers = sorted({-1 - int(starts[part]) for part in level.items[:, _PART]})
    if not choices or numbers[0] < 0:
        return {}
    first = _open_quote(text[:byte])
    ends = text[byte : byte + 1] in (b'"', b"")
    member = _read(text[first + 1 : byte if ends else character_end(text, byte)])
    behind = string_end(text, first)
    whole = member if behind is None else _read(text[first + 1 : behind - 1])
    tried = [(str(choices[number]), held[number]) for number in numbers]
    said = [
        of.refusal(name, whole, True)
        if of.leaves_out(whole.encode("utf-8", "surrogatepass"))
        else of.refusal(name, member, ends)
        for name, of in tried
        if of is not None
    ]
    return {"reason": "; ".join(said)}


def _read(spelt: bytes) -> str:
    """Return what stands between the quotes of a string; as it is where that is no JSON."""
    read = spelt.decode("utf-8", "replace")
    try:
        found: str = json.loads(f'"{read}"', strict=False)
    except ValueError:
        return read
    return found


def _open_quote(text: bytes) -> int:
    """Return where the string begins in which a text breaks off."""
    at = text.find(b'"')
    while (end := string_end(text, at)) is not None:
        at = text.find(b'"', end)
    return at


def _step(key: str | int) -> str:
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


def members_of(
    session: SchemaSession,
    text: bytes,
    choices: Choices,
    held: Held,
    sets: Mapping[str, MemberTexts],
) -> list[dict[str, Any]]:
    """Return the members of sets in a text of a schema, in their order, JSON-ready.

    Args:
        session: Of the schema, with its sets.
        text: Of the schema.
        choices, held: Which members strings are, by their numbers. sets: By name.

    Returns:
        ``set``, ``pointer`` (JSON pointer of the string), ``text``, ``id``; of several entities of
        one text ``entity_ids`` as well; of pieces of documents ``quote`` and ``span`` for ``set``
        and ``id``. Cost: O(bytes).
    """
    starts = session.engine.arrays.string_start
    found = []
    state, done = session.start(1), 0
    for pointer, first, end in strings_of(text):
        state = session.advance_bytes(state, [text[done : end - 1]])
        done = end - 1
        if int(state[0]) == DEAD:
            break
        level = Level.of(session, int(state[0]))
        if level.phase != Phase.STRING:
            continue
        numbers = sorted({-1 - int(starts[part]) for part in level.items[:, _PART]})
        member = json.loads(text[first:end])
        names: dict[str, None] = {}
        for number in (number for number in numbers if number >= 0):
            choice, of = choices[number], held[number]
            if isinstance(of, RegexTexts):
                continue
            is_plain = choice.is_plain or (of is not None and of.holds(member.encode()))
            names |= dict.fromkeys(choice.names) if is_plain else {}
        for name in names:
            record = sets[name].record(member)
            if record is not None:
                found.append({sets[name].noun: name, "pointer": pointer, **record})
    return found
