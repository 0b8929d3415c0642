"""Strict JSON: valid UTF-8, no duplicate keys, no deep nesting, no integers changed to floats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import orjson

from cdec.core.errors import JsonError
from cdec.data.input.lines import LongLine, Skipped, decode_line
from cdec.data.input.source import InputLimits, bom_length

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


UNIT = "record"
"""Name of the values of an input, by which they are counted."""
Value = tuple[int, int, bytes]
"""A value's number from 1, the 0-based offset of its first byte, and its bytes."""

_IN_STRING = rb'[^"\\]*(?:\\.[^"\\]*)*'
_TOKEN = re.compile(rb'"' + _IN_STRING + rb'"|["{}\[\],]', re.DOTALL)
_STRING_PART = re.compile(_IN_STRING, re.DOTALL)
_BLANK = b" \t\r\n"


class JsonValues:
    """The elements of one array, or values with nothing but white space between them.

    Only where a value ends is found here; whether it is JSON says whoever parses it.

    Args:
        chunks: The input, of any chunk size.
        name: For messages.
        limits: ``max_line_bytes`` applies to a value.
        as_texts: What to do where lines of text were meant, for messages.
    """

    def __init__(
        self, chunks: Iterator[bytes], name: str, limits: InputLimits, as_texts: str
    ) -> None:
        self._chunks = chunks
        self._name = name
        self._limits = limits
        self._as_texts = as_texts
        self._number = 0
        self._depth = 0
        self._in_array: bool | None = None  # None until the first value begins
        self._is_over = False
        self._in_string = self._is_escaped = False
        self._pending: list[bytes] = []
        self._size = 0
        self._skipped: Skipped | None = None
        self._offset = self._begin = 0

    def __iter__(self) -> Iterator[Value | LongLine]:
        """Yield the values in their order; of one beyond the limit what a ``LongLine`` says.

        Raises:
            JsonError: Something else stands between values, or the input ends within one.
        """
        for position, chunk in enumerate(self._chunks):
            if position == 0:
                self._offset = self._begin = bom_length(chunk)
                chunk = chunk[self._offset :]
            yield from self._scan(chunk)
            self._offset += len(chunk)
        if self._depth or self._in_string:
            raise JsonError(
                f"{self._name} ends within its JSON: {self._number} whole records stand before",
                hint=f"copy it again; or {self._as_texts}",
                line=self._number + 1,
            )

    def _scan(self, chunk: bytes) -> Iterator[Value | LongLine]:
        """Yield the values that end in a chunk; keep what begins in it."""
        start = 0
        at = self._pass_string(chunk, 0) if self._in_string else 0
        if at and not self._in_string and self._depth == 0:
            yield self._cut(chunk[:at])  # a text outside an array
            start = at
        for match in () if self._in_string else _TOKEN.finditer(chunk, at):
            token = match[0]
            if self._depth and (len(token) > 1 or (token == b"," and self._depth > 1)):
                continue
            end = match.end()
            if self._depth == 0:
                self._require_blank(chunk[start : match.start()], token)
                start = match.start()
                self._begin = self._offset + start
            if token == b'"':
                self._in_array = self._in_array or False
                self._in_string = True
                self._pass_string(chunk, end)
                break
            is_end, is_opened = self._turn(token)
            if is_opened:
                start, self._begin = end, self._offset + end
            elif is_end:
                part = chunk[start : match.start() if self._in_array else end]
                if not (self._is_over and self._is_empty(part)):
                    yield self._cut(part)
                start, self._begin = end, self._offset + end
        self._keep(chunk[start:])

    def _turn(self, token: bytes) -> tuple[bool, bool]:
        """Follow a token; return whether a value ends with it, and whether the array begins."""
        was = self._depth
        self._depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        if self._in_array is None:
            self._in_array = token == b"["
            return not self._in_array and self._depth == 0, self._in_array
        if not self._in_array:
            return self._depth == 0, False
        self._is_over = self._depth == 0
        return self._is_over or (token == b"," and was == 1), False

    def _is_empty(self, part: bytes) -> bool:
        """Whether the array that ends has no element at all."""
        if self._number or self._skipped is not None:
            return False
        return not b"".join((*self._pending, part)).strip(_BLANK)

    def _pass_string(self, chunk: bytes, at: int) -> int:
        """Return where the open string ends in a chunk; that is its end if it goes on."""
        at += self._is_escaped and at < len(chunk)
        match = _STRING_PART.match(chunk, at)
        stop = at if match is None else match.end()
        self._is_escaped = stop < len(chunk) and chunk[stop : stop + 1] == b"\\"
        if stop < len(chunk) and not self._is_escaped:
            self._in_string = False
            return stop + 1
        return len(chunk)

    def _require_blank(self, between: bytes, token: bytes) -> None:
        """Refuse what is no JSON, or follows the array.

        Raises:
            JsonError: It is.
        """
        found = between.strip(_BLANK)
        if not found and not self._is_over and token not in (b",", b"}", b"]"):
            return
        text = (found + token)[:_SHOWN_BYTES].decode(errors="replace")
        where = f"behind {self._number} records" if self._number else "at its beginning"
        raise JsonError(
            f"{self._name} should be JSON by its name, and has {text!r} {where}",
            hint=f"give an array of records or texts; or {self._as_texts}",
            line=self._number + 1,
        )

    def _keep(self, rest: bytes) -> None:
        """Hold the beginning of a value until the next chunk, unless it is too long."""
        if self._depth == 0 and not self._in_string:
            if rest.strip(_BLANK):
                self._require_blank(rest, b"")
            return
        if self._skipped is not None:
            self._skipped.add(rest)
            return
        self._pending.append(rest)
        self._size += len(rest)
        if self._size > self._limits.max_line_bytes + len(_BLANK):
            self._skip()

    def _skip(self) -> None:
        self._skipped = Skipped()
        for part in self._pending:
            self._skipped.add(part)
        self._pending, self._size = [], 0

    def _cut(self, part: bytes) -> Value | LongLine:
        """Return the value that ends with ``part``."""
        self._number += 1
        whole = b"".join((*self._pending, part))
        data = whole.strip(_BLANK)
        offset = self._begin + len(whole) - len(whole.lstrip(_BLANK))
        skipped, self._skipped = self._skipped, None
        self._pending, self._size = [], 0
        if skipped is None and len(data) <= self._limits.max_line_bytes:
            return self._number, offset, data
        skipped = skipped or Skipped()
        skipped.add(whole)
        return LongLine(self._number, offset, skipped.length, skipped.hash.digest(), UNIT)
