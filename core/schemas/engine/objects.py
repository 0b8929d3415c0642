"""Objects: which keys may still come, and whether what is awaited of them can."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    get,
    has_room,
    int32s,
    int64s,
    put,
    uint8s,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import intern, lacks, push_work
from cdec.core.schemas.engine.texts import copied_texts

__all__ = [
    "key_may_come",
    "object_after",
    "object_length",
    "object_may_end",
    "object_start",
    "regions_fit",
    "slot_of",
]


@inner
def _counters(e: int, made: int) -> int:
    ends = int64s(e, f.OBJECT_COUNTER_OFFSETS)
    return ends[made + 1] - ends[made]


@inner
def object_length(e: int, made: int) -> int:
    """Return how many numbers the progress of an object has, without texts."""
    n = f.OWN + _counters(e, made)
    if uint8s(e, f.OBJECT_ORDERED)[made]:
        return n
    return n + ((int32s(e, f.OBJECT_SINGLES)[made] + 63) >> 6)


@inner
def object_start(e: int, made: int) -> int:
    """Return the progress of an object without keys; -1 after a lack of room."""
    n = object_length(e, made)
    if not has_room(e, f.PROGRESS_ITEMS, n):
        return -1
    items, at = int64s(e, f.PROGRESS_ITEMS), used(e, f.PROGRESS_ITEMS)
    for i in range(n):
        items[at + i] = 0
    items[at + f.RANK] = -1
    items[at + f.MISSING] = int32s(e, f.OBJECT_NEEDED)[made]
    items[at + f.LEFT] = int32s(e, f.OBJECT_SINGLES)[made]
    items[at + f.NEXT] = int32s(e, f.OBJECT_FIRST)[made]
    return intern(e, f.PROGRESS_OFFSETS, f.PROGRESS_ITEMS, f.PROGRESS_TABLE, n)


@inner
def object_may_end(e: int, made: int, progress: int) -> bool:
    """Say whether an object may be closed."""
    items, at = int64s(e, f.PROGRESS_ITEMS), int64s(e, f.PROGRESS_OFFSETS)[progress]
    if items[at + f.MISSING] != 0 or items[at] < int64s(e, f.OBJECT_MIN)[made]:
        return False
    first, least = int64s(e, f.OBJECT_COUNTER_OFFSETS)[made], int64s(e, f.OBJECT_COUNTER_MIN)
    lacking = 0
    for i in range(_counters(e, made)):
        lacking += max(least[first + i] - items[at + f.OWN + i], 0)
    return lacking == 0


@inner
def _is_seen(e: int, made: int, at: int, slot: int) -> bool:
    """Say whether a single slot was used, by the progress at ``at``; ordered: see the ranks."""
    if uint8s(e, f.OBJECT_ORDERED)[made]:
        return False
    word = int64s(e, f.PROGRESS_ITEMS)[at + f.OWN + _counters(e, made) + (slot >> 6)]
    return (word >> (slot & 63)) & 1 != 0


@inner
def _fits(e: int, made: int, at: int, slot: int, choice: int) -> bool:
    """Say whether an object can be completed after one more key.

    Args:
        made: The object.
        at: Where its progress stands in PROGRESS_ITEMS.
        slot: Of the key, by its number within the object.
        choice: Of its value.
    """
    items, own = int64s(e, f.PROGRESS_ITEMS), int64s(e, f.OBJECT_SLOT_OFFSETS)[made] + slot
    single = uint8s(e, f.SLOT_SINGLE)[own] != 0
    missing, left = items[at + f.MISSING], items[at + f.LEFT]
    if uint8s(e, f.OBJECT_ORDERED)[made]:
        rank = int32s(e, f.SLOT_RANK)[own]
        if rank > items[at + f.NEXT] or rank < items[at + f.RANK]:
            return False
        if single and rank == items[at + f.RANK]:
            return False
        missing, left = int32s(e, f.SLOT_NEEDED)[own], int32s(e, f.SLOT_LEFT)[own]
        if not single and items[at + f.MISSING] > 0:
            return False
    elif single:
        missing, left = missing - uint8s(e, f.SLOT_REQUIRED)[own], left - 1
    lacking = _lacking(e, made, at, choice)
    if lacking < 0:
        return False
    count, most = items[at] + 1, int64s(e, f.OBJECT_MAX)[made]
    if most >= 0 and count + missing + lacking > most:
        return False
    ends = int64s(e, f.OBJECT_SLOT_OFFSETS)
    if ends[made + 1] - ends[made] > int32s(e, f.OBJECT_SINGLES)[made]:
        return True
    return count + left >= int64s(e, f.OBJECT_MIN)[made]


@inner
def _lacking(e: int, made: int, at: int, choice: int) -> int:
    """Return what the counters lack after one more choice; -1 where one would pass its maximum."""
    items, n = int64s(e, f.PROGRESS_ITEMS), _counters(e, made)
    if n == 0:
        return 0
    first, lacking = int64s(e, f.OBJECT_COUNTER_OFFSETS)[made], 0
    least, most = int64s(e, f.OBJECT_COUNTER_MIN), int64s(e, f.OBJECT_COUNTER_MAX)
    for i in range(n):
        lacking += max(least[first + i] - items[at + f.OWN + i], 0)
    ends, counters = int64s(e, f.CHOICE_COUNTER_OFFSETS), int32s(e, f.CHOICE_COUNTERS)
    for i in range(ends[choice], ends[choice + 1]):
        counter = counters[i]
        count = items[at + f.OWN + counter]
        if most[first + counter] >= 0 and count >= most[first + counter]:
            return -1
        if count < least[first + counter]:
            lacking -= 1
    return lacking


@inner
def _slot_fits(e: int, made: int, at: int, slot: int) -> bool:
    """Say whether a key of a slot may come."""
    own = int64s(e, f.OBJECT_SLOT_OFFSETS)[made] + slot
    if uint8s(e, f.SLOT_SINGLE)[own] and _is_seen(e, made, at, slot):
        return False
    choices = int64s(e, f.SLOT_CHOICE_OFFSETS)
    choice, last = choices[own], choices[own + 1]
    while choice < last and not _fits(e, made, at, slot, choice):
        choice += 1
    return choice < last


@inner
def slot_of(e: int, made: int, progress: int, key: int) -> int:
    """Return the slot of a finished key, -1 where there is none that may come."""
    label, ends = int32s(e, f.STATE_LABEL)[key], int64s(e, f.OBJECT_SLOT_OFFSETS)
    if label < 0 or label >= ends[made + 1] - ends[made]:
        return -1
    at = int64s(e, f.PROGRESS_OFFSETS)[progress]
    return label if _slot_fits(e, made, at, label) else -1


@inner
def key_may_come(e: int, made: int, progress: int, key: int) -> bool:
    """Say whether from a state of an object's keys one that may come can be spelled."""
    at, ends = int64s(e, f.PROGRESS_OFFSETS)[progress], int64s(e, f.OBJECT_SLOT_OFFSETS)
    singles, slots = int32s(e, f.OBJECT_SINGLES)[made], ends[made + 1] - ends[made]
    for slot in range(int32s(e, f.STATE_LOW)[key], min(int32s(e, f.STATE_HIGH)[key], singles)):
        if _slot_fits(e, made, at, slot):
            return True
    if not uint8s(e, f.STATE_OPEN)[key]:
        return False
    fitting = 0
    for slot in range(singles, slots):
        if _slot_fits(e, made, at, slot):
            fitting += 1
    if fitting == 0 or fitting == slots - singles:
        return fitting > 0
    return _reaches(e, made, at, key)


@inner
def regions_fit(e: int, made: int, progress: int) -> bool:
    """Say whether a key of every region of an object may come."""
    at, ends = int64s(e, f.PROGRESS_OFFSETS)[progress], int64s(e, f.OBJECT_SLOT_OFFSETS)
    singles, slots = int32s(e, f.OBJECT_SINGLES)[made], ends[made + 1] - ends[made]
    fitting = 0
    for slot in range(singles, slots):
        if _slot_fits(e, made, at, slot):
            fitting += 1
    return fitting == slots - singles


@inner
def _reaches(e: int, made: int, at: int, key: int) -> bool:
    """Walk the automaton of keys to a region that may come: only some of them may."""
    stamp = get(e, f.STAMP) + 1
    put(e, f.STAMP, stamp)
    stamps, begin = int64s(e, f.STAMPS), used(e, f.WORK)
    singles, ends = int32s(e, f.OBJECT_SINGLES)[made], int64s(e, f.OBJECT_SLOT_OFFSETS)
    edges, targets = int64s(e, f.STATE_EDGES), int32s(e, f.EDGE_TARGET)
    push_work(e, key)
    found = False
    while used(e, f.WORK) > begin and not found and not lacks(e):
        use(e, f.WORK, used(e, f.WORK) - 1)
        state = int64s(e, f.WORK)[used(e, f.WORK)]
        if stamps[state] == stamp:
            continue
        stamps[state] = stamp
        label = int32s(e, f.STATE_LABEL)[state]
        if singles <= label < ends[made + 1] - ends[made]:
            found = _slot_fits(e, made, at, label)
        for edge in range(edges[state], edges[state + 1]):
            push_work(e, targets[edge])
    use(e, f.WORK, begin)
    return found


@inner
def object_after(e: int, made: int, progress: int, slot: int, choice: int, text: int) -> int:
    """Return the progress after a key; -1 where the object cannot be completed then.

    ``text`` is the key, where it may not come again; else -1. subtle: -1 after a lack of room, too.
    """
    n, old = object_length(e, made), int64s(e, f.PROGRESS_OFFSETS)[progress]
    if not _fits(e, made, old, slot, choice):
        return -1
    whole = copied_texts(e, progress, n, text)
    if whole < 0:
        return -1
    items, at = int64s(e, f.PROGRESS_ITEMS), used(e, f.PROGRESS_ITEMS)
    for i in range(n):
        items[at + i] = items[old + i]
    own, ordered = int64s(e, f.OBJECT_SLOT_OFFSETS)[made] + slot, uint8s(e, f.OBJECT_ORDERED)[made]
    items[at] += 1
    if int64s(e, f.OBJECT_MAX)[made] < 0:
        items[at] = min(items[at], int64s(e, f.OBJECT_MIN)[made])
    if ordered:
        items[at + f.RANK] = int32s(e, f.SLOT_RANK)[own]
        items[at + f.MISSING] = int32s(e, f.SLOT_NEEDED)[own]
        items[at + f.LEFT] = int32s(e, f.SLOT_LEFT)[own]
        items[at + f.NEXT] = int32s(e, f.SLOT_NEXT)[own]
    elif uint8s(e, f.SLOT_SINGLE)[own]:
        items[at + f.MISSING] -= uint8s(e, f.SLOT_REQUIRED)[own]
        items[at + f.LEFT] -= 1
        items[at + f.OWN + _counters(e, made) + (slot >> 6)] |= 1 << (slot & 63)
    first = int64s(e, f.OBJECT_COUNTER_OFFSETS)[made]
    least, most = int64s(e, f.OBJECT_COUNTER_MIN), int64s(e, f.OBJECT_COUNTER_MAX)
    ends, counters = int64s(e, f.CHOICE_COUNTER_OFFSETS), int32s(e, f.CHOICE_COUNTERS)
    for i in range(ends[choice], ends[choice + 1]):
        counter = counters[i]
        items[at + f.OWN + counter] += 1
        if most[first + counter] < 0:
            count = items[at + f.OWN + counter]
            items[at + f.OWN + counter] = min(count, least[first + counter])
    return intern(e, f.PROGRESS_OFFSETS, f.PROGRESS_ITEMS, f.PROGRESS_TABLE, whole)
