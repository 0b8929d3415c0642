"""The header that the engine's compiled functions take: scalars, pointers to arrays, hash tables.

A *header* is int64[64 + 3 * fields]: 64 scalars, then for every *field*, which is one array, its
address, length and elements in use. Why not a named tuple of arrays, as everywhere else: see
``cdec.core.kernels``. Python owns the arrays (``Memory``) and replaces them when they grow. A
function that lacks room says so in the scalars NEED and NEED_LENGTH, gives up, and is called again;
so does one that has worked for long enough (PAUSED), for signals and other threads.

subtle: after a lack of room values may be wrong until the entry point returns; ``insert`` then
stores nothing, so no memo keeps them.

A *table* is a hash table of int64 keys and values in two fields, open addressing, a power of two
long, at most half full. While a *journal* is kept (in the field that the scalar JOURNAL names),
what tables store is noted there; ``undo`` takes it back, newest first, so that probing stays right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from cdec.core.kernels import inner

SCALARS = 64
NEED = 0
NEED_LENGTH = 1
JOURNAL = 2
PAUSED, STOPPED = -1, -2
"""In NEED: no room is lacking, but the call was long enough, or too long."""
EMPTY = -1
ABSENT = -(1 << 62)
_WORD = ir.IntType(64)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(31)


class Pointer(Protocol):
    """A typed pointer, as kernels see it."""

    def __getitem__(self, at: int) -> int: ...
    def __setitem__(self, at: int, value: int) -> None: ...


def _pointer(element: Any, *, indirect: bool) -> Any:
    """Make the intrinsic that gives a typed pointer: from an address, or from a field's slot."""

    @intrinsic
    def make(typing_context: Any, base: Any, field: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            at = builder.add(arguments[0], arguments[1])
            if indirect:
                slot = builder.mul(arguments[1], ir.Constant(_WORD, 24))
                slot = builder.add(slot, ir.Constant(_WORD, 8 * SCALARS))
                slot = builder.add(arguments[0], slot)
                at = builder.load(builder.inttoptr(slot, _WORD.as_pointer()))
            return builder.inttoptr(at, context.get_value_type(element).as_pointer())

        return types.CPointer(element)(types.int64, types.int64), build

    return make


def _caller(count: int) -> Any:
    """Make the intrinsic that calls a compiled function at an address with int64 arguments."""
    word = types.int64

    def call(typing_context: Any, at: Any, *arguments: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = ir.FunctionType(_WORD, [_WORD] * count).as_pointer()
            return builder.call(builder.inttoptr(values[0], kind), values[1:])

        return word(*[word] * (count + 1)), build

    if count == 3:
        return intrinsic(lambda typing_context, at, a, b, c: call(typing_context, at, a, b, c))
    if count == 4:
        return intrinsic(
            lambda typing_context, at, a, b, c, d: call(typing_context, at, a, b, c, d)
        )
    return intrinsic(
        lambda typing_context, at, a, b, c, d, g: call(typing_context, at, a, b, c, d, g)
    )


call3: Callable[[int, int, int, int], int] = _caller(3)
call4: Callable[[int, int, int, int, int], int] = _caller(4)
call5: Callable[[int, int, int, int, int, int], int] = _caller(5)
int32s: Callable[[int, int], Pointer] = _pointer(types.int32, indirect=True)
int64s: Callable[[int, int], Pointer] = _pointer(types.int64, indirect=True)
uint8s: Callable[[int, int], Pointer] = _pointer(types.uint8, indirect=True)
int32s_at: Callable[[int, int], Pointer] = _pointer(types.int32, indirect=False)
int64s_at: Callable[[int, int], Pointer] = _pointer(types.int64, indirect=False)
uint8s_at: Callable[[int, int], Pointer] = _pointer(types.uint8, indirect=False)


@inner
def get(base: int, slot: int) -> int:
    """Return a scalar of the header at address ``base``."""
    return int64s_at(base, 0)[slot]


@inner
def put(base: int, slot: int, value: int) -> None:
    """Set a scalar of the header."""
    int64s_at(base, 0)[slot] = value


@inner
def address(base: int, field: int) -> int:
    """Return the address of a field's first element."""
    return int64s_at(base, 0)[SCALARS + 3 * field]


@inner
def size(base: int, field: int) -> int:
    """Return how many elements a field has room for."""
    return int64s_at(base, 0)[SCALARS + 3 * field + 1]


@inner
def span(offsets: Pointer, index: int, length: int) -> tuple[int, int]:
    """Return where an item of a ragged array begins and ends, within ``length`` elements.

    subtle: both ends are clamped: from a damaged offset far below 0, a loop's count wraps round.

    Args:
        offsets: At least ``index + 2`` of them; those of a damaged artifact may be anything.
        index: Of the item.
        length: Of the ragged array.
    """
    start = min(max(offsets[index], 0), length)
    return start, min(max(offsets[index + 1], start), length)


@inner
def used(base: int, field: int) -> int:
    """Return how many elements of a field are in use."""
    return int64s_at(base, 0)[SCALARS + 3 * field + 2]


@inner
def use(base: int, field: int, count: int) -> None:
    """Set how many elements of a field are in use."""
    int64s_at(base, 0)[SCALARS + 3 * field + 2] = count


@inner
def lack(base: int, field: int, length: int) -> None:
    """Say that a field must grow to some length; the first lack of a call is the one kept."""
    if get(base, NEED) == 0:
        put(base, NEED, field + 1)
        put(base, NEED_LENGTH, length)


@inner
def has_room(base: int, field: int, extra: int) -> bool:
    """Say whether ``extra`` more elements fit; ask for room if not."""
    if used(base, field) + extra <= size(base, field):
        return True
    lack(base, field, used(base, field) + extra)
    return False


@inner
def mixed(key: int) -> int:
    """Spread a key over 64 bits (multiplicative hashing).

    subtle: unsigned, because the compiler takes it that signed products never overflow.
    """
    product = np.uint64(key) * _MULTIPLIER
    spread: Any = product ^ (product >> _FOLD)
    return np.int64(spread)  # type: ignore[return-value]


@inner
def find(base: int, table: int, key: int) -> int:
    """Return the place of a key in a table; ~place of where it would go if it is not there."""
    keys, mask = int64s(base, table), size(base, table) - 1
    at: int = mixed(key) & mask
    while True:
        found = keys[at]
        if found == key:
            return at
        if found == EMPTY:
            return ~at
        at = (at + 1) & mask


@inner
def lookup(base: int, table: int, key: int) -> int:
    """Return the value of a key, ABSENT if it has none."""
    at = find(base, table, key)
    return int64s(base, table + 1)[at] if at >= 0 else ABSENT


@inner
def insert(base: int, table: int, key: int, value: int) -> bool:
    """Set the value of a key; False, and nothing stored, after a lack of room."""
    if get(base, NEED) != 0:
        return False
    at = find(base, table, key)
    if at < 0:
        count = used(base, table)
        if 2 * (count + 1) > size(base, table):
            lack(base, table, 2 * size(base, table))
            return False
        if not _note(base, table, ~at, ABSENT):
            return False
        use(base, table, count + 1)
        at = ~at
        int64s(base, table)[at] = key
    elif not _note(base, table, at, int64s(base, table + 1)[at]):
        return False
    int64s(base, table + 1)[at] = value
    return True


@inner
def _note(base: int, table: int, at: int, before: int) -> bool:
    """Note in the journal, if one is kept, what stood in a place of a table."""
    journal = get(base, JOURNAL)
    if journal == 0:
        return True
    if not has_room(base, journal, 3):
        return False
    entries, n = int64s(base, journal), used(base, journal)
    entries[n], entries[n + 1], entries[n + 2] = table, at, before
    use(base, journal, n + 3)
    return True


@inner
def begin_journal(base: int, journal: int) -> None:
    """Keep a journal from now on, in a field of the header."""
    put(base, JOURNAL, journal)
    use(base, journal, 0)


@inner
def undo(base: int) -> None:
    """Take back what tables stored since ``begin_journal``, and keep no journal any more."""
    journal = get(base, JOURNAL)
    entries = int64s(base, journal)
    for n in range(used(base, journal) - 3, -1, -3):
        table, at, before = entries[n], entries[n + 1], entries[n + 2]
        if before == ABSENT:
            int64s(base, table)[at] = EMPTY
            use(base, table, used(base, table) - 1)
        else:
            int64s(base, table + 1)[at] = before
    put(base, JOURNAL, 0)
