"""Arrays: how many elements may still come, and whether what is awaited of them can."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import has_room, int32s, int64s, used
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import intern
from cdec.core.schemas.engine.texts import copied_texts
from cdec.core.schemas.program import LARGEST

__all__ = ["array_after", "array_length", "array_may_end", "array_start", "element_choices"]


@inner
def array_start(e: int, array: int) -> int:
    """Return the progress of an array of no elements; -1 after a lack of room."""
    counters = _counters(e, array)
    if not has_room(e, f.PROGRESS_ITEMS, 1 + counters):
        return -1
    items, at = int64s(e, f.PROGRESS_ITEMS), used(e, f.PROGRESS_ITEMS)
    for i in range(1 + counters):
        items[at + i] = 0
    return intern(e, f.PROGRESS_OFFSETS, f.PROGRESS_ITEMS, f.PROGRESS_TABLE, 1 + counters)


@inner
def _counters(e: int, array: int) -> int:
    ends = int64s(e, f.ARRAY_COUNTER_OFFSETS)
    return ends[array + 1] - ends[array]


@inner
def array_length(e: int, array: int) -> int:
    """Return how many numbers the progress of an array has, without texts."""
    return 1 + _counters(e, array)


@inner
def element_choices(e: int, array: int, progress: int) -> int:
    """Return the position of the next element of an array."""
    done = int64s(e, f.PROGRESS_ITEMS)[int64s(e, f.PROGRESS_OFFSETS)[progress]]
    ends = int64s(e, f.ARRAY_POSITION_OFFSETS)
    return min(ends[array] + done, ends[array + 1] - 1)


@inner
def array_may_end(e: int, array: int, progress: int) -> bool:
    """Say whether an array may be closed."""
    items, at = int64s(e, f.PROGRESS_ITEMS), int64s(e, f.PROGRESS_OFFSETS)[progress]
    if items[at] < int64s(e, f.ARRAY_MIN)[array]:
        return False
    first, least = int64s(e, f.ARRAY_COUNTER_OFFSETS)[array], int64s(e, f.ARRAY_COUNTER_MIN)
    lacking = 0
    for i in range(_counters(e, array)):
        lacking += max(least[first + i] - items[at + 1 + i], 0)
    return lacking == 0


@inner
def array_after(e: int, array: int, progress: int, choice: int) -> int:
    """Return the progress after an element of a choice; -1 where that cannot be completed.

    subtle: -1 after a lack of room, too.
    """
    n, first = _counters(e, array), int64s(e, f.ARRAY_COUNTER_OFFSETS)[array]
    whole = copied_texts(e, progress, 1 + n, -1)
    if whole < 0:
        return -1
    items, old = int64s(e, f.PROGRESS_ITEMS), int64s(e, f.PROGRESS_OFFSETS)[progress]
    at = used(e, f.PROGRESS_ITEMS)
    least, most = int64s(e, f.ARRAY_COUNTER_MIN), int64s(e, f.ARRAY_COUNTER_MAX)
    for i in range(1 + n):
        items[at + i] = items[old + i]
    ends, used_counters = int64s(e, f.CHOICE_COUNTER_OFFSETS), int32s(e, f.CHOICE_COUNTERS)
    for i in range(ends[choice], ends[choice + 1]):
        items[at + 1 + used_counters[i]] += 1
    lacking: int = 0
    for i in range(n):
        count = items[at + 1 + i]
        if most[first + i] >= 0 and count > most[first + i]:
            return -1
        lacking += max(least[first + i] - count, 0)
        if most[first + i] < 0:
            items[at + 1 + i] = min(count, least[first + i])
    items[at] += 1
    capacity = _capacity(e, array, at, n)
    if capacity < 0 or lacking > capacity:
        return -1
    if items[at] + capacity < int64s(e, f.ARRAY_MIN)[array]:
        return -1
    if int64s(e, f.ARRAY_MAX)[array] < 0:
        positions = int64s(e, f.ARRAY_POSITION_OFFSETS)
        last = max(positions[array + 1] - positions[array] - 1, int64s(e, f.ARRAY_MIN)[array])
        items[at] = min(items[at], last)
    return intern(e, f.PROGRESS_OFFSETS, f.PROGRESS_ITEMS, f.PROGRESS_TABLE, whole)


@inner
def _left(e: int, array: int, at: int, choice: int) -> int:
    """Return how often a choice can still be used, by the counters in a list at ``at``."""
    left: int = LARGEST
    ends, counters = int64s(e, f.CHOICE_COUNTER_OFFSETS), int32s(e, f.CHOICE_COUNTERS)
    items, most = int64s(e, f.PROGRESS_ITEMS), int64s(e, f.ARRAY_COUNTER_MAX)
    first = int64s(e, f.ARRAY_COUNTER_OFFSETS)[array]
    for i in range(ends[choice], ends[choice + 1]):
        limit = most[first + counters[i]]
        if limit >= 0:
            left = min(left, limit - items[at + 1 + counters[i]])
    return left


@inner
def _capacity(e: int, array: int, at: int, counters: int) -> int:
    """Return how many elements may still come; ``at``: where the progress stands."""
    done, most = int64s(e, f.PROGRESS_ITEMS)[at], int64s(e, f.ARRAY_MAX)[array]
    capacity: int = LARGEST if most < 0 else most - done
    positions, choices = int64s(e, f.ARRAY_POSITION_OFFSETS), int64s(e, f.POSITION_CHOICE_OFFSETS)
    rest = positions[array + 1] - 1
    at_position = min(positions[array] + done, rest)
    before: int = rest - at_position
    if counters > 0:
        for position in range(at_position, rest):
            available: int = 0
            for choice in range(choices[position], choices[position + 1]):
                available = max(available, _left(e, array, at, choice))
            if available == 0:
                return min(capacity, position - at_position)
    total: int = 0
    for choice in range(choices[rest], choices[rest + 1]):
        total += _left(e, array, at, choice) if counters > 0 else LARGEST
        if total >= LARGEST:
            return capacity
    return min(capacity, before + total)
