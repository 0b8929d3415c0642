"""Cuts a JSON array, or JSON values one after the other, into values; memory stays bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdec.core.errors import JsonError
from cdec.data.input.lines import LongLine, Skipped
from cdec.data.input.source import InputLimits, bom_length

UNIT = "record"
"""What the values of an input are called, and counted by."""
Value = tuple[int, int, bytes]
"""A value's number from 1, the 0-based offset of its first byte, and its bytes."""

_IN_STRING = rb'[^"\\]*(?:\\.[^"\\]*)*'
_TOKEN = re.compile(rb'"' + _IN_STRING + rb'"|["{}\[\],]', re.DOTALL)
_STRING_PART = re.compile(_IN_STRING, re.DOTALL)
_BLANK = b" \t\r\n"
_SHOWN_BYTES = 40


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
