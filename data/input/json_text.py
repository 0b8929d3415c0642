"""Strict JSON: valid UTF-8, no duplicate keys, no deep nesting, no integers changed to floats."""

from __future__ import annotations

import json
from collections.abc import Callable

import orjson

from cdec.core.errors import JsonError
from cdec.data.input.lines import decode_line

MAX_DEPTH = 128
"""Most levels of nesting; orjson reads 1,024 but writes only 254, and records are written again."""

_SHOWN_BYTES = 40


def parse_json(data: bytes, name: str, line: int, byte_offset: int, unit: str = "line") -> object:
    """Parse one line of JSON, refusing what two readers could take differently.

    Args:
        data: The line's bytes.
        name: Name of the source, for messages.
        line: 1-based line number.
        byte_offset: 0-based offset of the line in the input.
        unit: What ``line`` counts.

    Returns:
        dict, list, str, int, float, bool or None. Cost: 1-2 us a short flat object, more
        where it has nested values or escaped quotes.

    Raises:
        EncodingError: Invalid UTF-8.
        JsonError: Anything JSON does not allow (NaN, a lone surrogate, more text after the value),
            duplicate keys, or more than 128 levels of nesting.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        decode_line(data, name, line, byte_offset, unit)  # invalid UTF-8 is an error of its own
        raise _json_error(name, line, error.msg, data, error.pos, unit) from error
    if type(value) is dict and data.count(b'"') == 2 * _flat_strings(value):
        return value  # every string of the text is in the value: no key was there twice
    strings, depth = _measure(value)
    if depth > MAX_DEPTH:
        problem = f"{depth} levels of nesting, at most {MAX_DEPTH} are read"
        raise _json_error(name, line, problem, unit=unit)
    if data.count(b'"') != 2 * strings:
        # Escaped quotes, or a key that stood twice: only the slow parser can tell.
        _refuse_duplicate_keys(data, name, line, unit)
    return value


def field_with_changed_integer(record: dict[str, object], data: bytes) -> str | None:
    """Return the first field that holds an integer beyond 64 bits, which was read as a float.

    subtle: orjson reads 1180591620717411303424 as 1.1805916207174113e+21.

    Args:
        record: What ``parse_json`` returned.
        data: The text it came from; parsed again, exactly, only where a float is large enough.
    """
    if not _any_leaf(record, _may_be_changed):
        return None
    exact: dict[str, object] = json.loads(data)
    return next((name for name, value in exact.items() if _any_leaf(value, _is_oversized)), None)


def _any_leaf(value: object, test: Callable[[object], bool]) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif test(item):
            return True
    return False


def _may_be_changed(leaf: object) -> bool:
    return isinstance(leaf, float) and abs(leaf) >= 2.0**63


def _is_oversized(leaf: object) -> bool:
    return isinstance(leaf, int) and not -(2**63) <= leaf < 2**64


def _flat_strings(value: dict[str, object]) -> int:
    """Return the number of strings of an object without nested values; -1 where it has some."""
    strings = len(value)
    for item in value.values():
        if type(item) is str:
            strings += 1
        elif type(item) is dict or type(item) is list:
            return -1
    return strings


def _measure(value: object) -> tuple[int, int]:
    """Return the number of strings, keys included, and the levels of nesting."""
    strings = depth = 0
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        item, level = stack.pop()
        if isinstance(item, str):
            strings += 1
        elif isinstance(item, dict):
            depth = max(depth, level)
            strings += len(item)
            stack.extend((child, level + 1) for child in item.values())
        elif isinstance(item, list):
            depth = max(depth, level)
            stack.extend((child, level + 1) for child in item)
    return strings, depth


def _refuse_duplicate_keys(data: bytes, name: str, line: int, unit: str) -> None:
    def pairs(items: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                problem = f"the key {key!r} stands twice in one object"
                raise _json_error(name, line, problem, unit=unit)
            seen.add(key)

    json.loads(data, object_pairs_hook=pairs)


def _json_error(
    name: str,
    line: int,
    problem: str,
    data: bytes | None = None,
    position: int = 0,
    unit: str = "line",
) -> JsonError:
    near = ""
    if data is not None and position < len(data):
        text = data.decode(errors="replace")[position : position + _SHOWN_BYTES]
        near = f" at character {position + 1}, near {text!r}"
    return JsonError(
        f"{name}, {unit} {line} is not valid JSON: {problem}{near}",
        hint="give one JSON object a line; jq -c . FILE rewrites it so"
        if unit == "line"
        else "correct it, or leave it out",
        line=line,
    )
