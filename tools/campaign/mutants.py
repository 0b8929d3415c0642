"""Ways of damaging a file: its bytes, its bytes under a right digest, its columns, its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.forging import seal

_EDGES = (0, 1, -1, -2, 2, 7, 31, 32, 255, 256, 2**15, 2**31 - 1, -(2**31), 2**62, -(2**63))


def damaged(good: bytes, rng: np.random.Generator) -> bytes:
    """Return a copy with a few bytes changed, cut off, left out, repeated or put in."""
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(data))) if data else 0
        length = int(rng.integers(1, 9))
        match int(rng.integers(10)):
            case 0:
                del data[place:]
            case 1:
                del data[place : place + length]
            case 2:
                data[place:place] = data[place : place + length]
            case 3:
                data[place:place] = rng.bytes(length)
            case 4:
                data[place : place + 8] = int(_edge(rng) & (2**64 - 1)).to_bytes(8, "little")
            case _ if data:
                data[place] ^= 1 << int(rng.integers(8))
    return bytes(data)


def resealed(good: bytes, rng: np.random.Generator) -> bytes:
    """Return a copy with a few bytes changed in place, under a right digest where that can be."""
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(data)))
        data[place] ^= int(rng.integers(1, 256))
    try:
        return seal(bytes(data))
    except Exception:
        # The helper found no place for the digest, as a reader will not.
        return bytes(data)


def edited(arrays: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return columns of which one to three differ in a value, an order or a length."""
    changed = dict(arrays)
    names = sorted(arrays)
    for _ in range(int(rng.integers(1, 4))):
        name = names[int(rng.integers(len(names)))]
        changed[name] = _edited(changed[name], rng)
    return changed


def edited_metadata(metadata: Mapping[str, str], rng: np.random.Generator) -> dict[str, str]:
    """Return metadata of which one text differs, or is gone."""
    changed = dict(metadata)
    names = sorted(changed)
    name = names[int(rng.integers(len(names)))]
    if rng.random() < 0.1:
        del changed[name]
        return changed
    text = changed[name]
    if text[:1] in ("{", "[") and rng.random() < 0.7:
        changed[name] = edited_json(text.encode(), rng).decode("utf-8", "replace")
    else:
        changed[name] = damaged(text.encode(), rng).decode("utf-8", "replace")
    return changed


def edited_json(data: bytes, rng: np.random.Generator) -> bytes:
    """Return JSON of which one value or key differs in kind or size."""
    root = [json.loads(data)]
    places: list[tuple[Any, Any]] = []
    waiting: list[tuple[Any, Any]] = [(root, 0)]
    while waiting:
        holder, key = waiting.pop()
        places.append((holder, key))
        value = holder[key]
        if isinstance(value, dict):
            waiting += [(value, name) for name in value]
        elif isinstance(value, list):
            waiting += [(value, i) for i in range(len(value))]
    holder, key = places[int(rng.integers(len(places)))]
    if isinstance(holder, dict) and rng.random() < 0.4:
        holder[_other_text(key, rng)] = holder.pop(key)
    else:
        holder[key] = _other_value(holder[key], rng)
    return json.dumps(root[0]).encode()


def _edge(rng: np.random.Generator) -> int:
    return int(rng.choice(np.array(_EDGES, object)))


def _edited(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    array = array.copy()
    n = len(array)
    way = int(rng.integers(12))
    if n == 0 or way == 0:
        return np.concatenate([array, np.full(int(rng.integers(1, 4)), _value(array, rng))])
    i, j = (int(k) for k in rng.integers(n, size=2))
    match way:
        case 1:
            return array[: n - int(rng.integers(1, n + 1))]
        case 2:
            array[[i, j]] = array[[j, i]]
        case 3:
            array[min(i, j) : max(i, j)] = array[min(i, j) : max(i, j)][::-1].copy()
        case 4:
            array[min(i, j) :] = array[min(i, j)]
        case 5:
            array[i] = array[j]
        case 6 | 7:
            with np.errstate(over="ignore"):
                array[i] += np.array(rng.choice([-1, 1])).astype(array.dtype)
        case _:
            array[i] = _value(array, rng)
    return array


def _value(array: NDArray[Any], rng: np.random.Generator) -> Any:
    """Return a value that the column can hold: at an edge, near its own, or any."""
    if array.dtype.kind == "f":
        return rng.choice([0.0, -1.0, 1e-3, 0.5, 700.0, -745.0, np.inf, -np.inf, np.nan])
    near = [int(array.min()) - 1, int(array.max()) + 1, len(array)] if len(array) else [0]
    value = _edge(rng) if rng.random() < 0.5 else int(rng.choice(near))
    if rng.random() < 0.2:
        value = int(rng.integers(-(2**63), 2**63 - 1))
    bits = 8 * array.itemsize
    value &= (1 << bits) - 1
    if array.dtype.kind == "i" and value >= 1 << (bits - 1):
        value -= 1 << bits
    return np.array(value, array.dtype)


def _other_text(text: str, rng: np.random.Generator) -> str:
    return str(
        rng.choice(["", text + "0", "-1", "2147483648", "9" * 40, "\0", "é", text[:1], "1e3"])
    )


def _other_value(value: Any, rng: np.random.Generator) -> Any:
    others: list[Any] = [None, True, -1, 0, 2**53, 2**64, 1e308, "", "x", [], {}, [[]], {"a": {}}]
    others += [float("nan"), [value], {"0": value}, "\ud800", 1, -(2**63), 2**31, 0.5]
    if isinstance(value, int):
        others += [value + 1, value - 1, -value, str(value)] * 2
    if isinstance(value, str):
        others += [value + value, value[:-1], value[1:], value.upper(), value + "\n"] * 2
    return others[int(rng.integers(len(others)))]
