"""Sets of characters as ranges of code points: classes, categories and case as ``re`` has them."""

from __future__ import annotations

import functools
import re

# The parser of ``re`` is the definition of the syntax; it has no public name.
import re._constants as sre  # type: ignore[import-not-found]
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of code points: sorted, disjoint, not adjacent."""

MAX_CODE_POINT = sys.maxunicode
EVERYTHING: Ranges = ((0, MAX_CODE_POINT),)
_BLOCK = 256
_CLASS_ESCAPES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def normalised(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ``ranges`` sorted, overlaps and neighbours joined."""
    joined: list[tuple[int, int]] = []
    for pair in sorted(ranges):
        low, high = pair
        if joined and low <= joined[-1][1] + 1:
            if high > joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
        else:
            joined.append(pair)  # not a copy: thousands of classes may hold a category's ranges
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """Return all code points outside ``ranges``."""
    gaps: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if at < low:
            gaps.append((at, low - 1))
        at = high + 1
    if at <= MAX_CODE_POINT:
        gaps.append((at, MAX_CODE_POINT))
    return tuple(gaps)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Return the code points in both; linear in the number of ranges."""
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            common.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


@functools.lru_cache(maxsize=4096)
def charset(items: tuple[Any, ...], flags: int) -> Ranges:
    """Return the characters that one item of a parsed pattern matches.

    Args:
        items: ``(op, argument)`` pairs of ``re``'s parser: LITERAL, NOT_LITERAL or ANY alone, or
            the members of a class, NEGATE first where it is negated.
        flags: ``re.I``, ``re.S`` and ``re.A`` as they hold at the item.

    Returns:
        The exact set, lone surrogates included (no UTF-8 text holds them). Cost: microseconds;
        some 20 ms for the first use of a Unicode category or of case folding.
    """
    if items[0][0] is sre.ANY:
        return EVERYTHING if flags & re.S else complement(((10, 10),))
    plain = _without_case(items, flags)
    if not flags & re.I:
        return plain
    # Characters without case match as they do without the flag; the few others are asked of ``re``
    # itself, whose folding has exceptions of its own.
    cased_text, cased, uncased = _cased_characters()
    asked = re.compile(_class_text(items), flags & (re.I | re.A))
    matched = [(ord(c), ord(c)) for c in asked.findall(cased_text)]
    return normalised((*intersection(plain, uncased), *intersection(normalised(matched), cased)))


def _without_case(items: tuple[Any, ...], flags: int) -> Ranges:
    op, argument = items[0]
    if op is sre.LITERAL and len(items) == 1:
        return ((argument, argument),)
    if op is sre.NOT_LITERAL:
        return complement(((argument, argument),))
    ranges: list[tuple[int, int]] = []
    for kind, value in items:
        if kind is sre.LITERAL:
            ranges.append((value, value))
        elif kind is sre.RANGE:
            ranges.append((value[0], value[1]))
        elif kind is sre.CATEGORY:
            ranges.extend(_category(_CLASS_ESCAPES[value], bool(flags & re.A)))
    found = normalised(ranges)
    return complement(found) if op is sre.NEGATE else found


@functools.cache
def _category(escape: str, ascii_only: bool) -> Ranges:
    if escape.isupper():
        return complement(_category(escape.lower(), ascii_only))
    runs = re.compile(f"{escape}+", re.A if ascii_only else 0)
    text = _ascii_text() if ascii_only else _all_characters()
    return tuple((run.start(), run.end() - 1) for run in runs.finditer(text))


def _ascii_text() -> str:
    return "".join(map(chr, range(128)))


@functools.cache
def _all_characters() -> str:
    code_points = np.arange(MAX_CODE_POINT + 1, dtype="<u4")
    return code_points.tobytes().decode("utf-32-le", "surrogatepass")


@functools.cache
def _cased_characters() -> tuple[str, Ranges, Ranges]:
    """Return all characters that have, or are, another case of something, and their complement."""
    everything = _all_characters()
    found: set[str] = set()
    for start in range(0, len(everything), _BLOCK):
        block = everything[start : start + _BLOCK]
        if block == block.lower() == block.upper():
            continue
        for character in block:
            other_cases = character.lower() + character.upper()
            if other_cases != character + character:
                found.update(character, other_cases)
    cased = normalised((ord(c), ord(c)) for c in found)
    return "".join(sorted(found)), cased, complement(cased)


def _class_text(items: Sequence[tuple[Any, Any]]) -> str:
    """Write ``items`` as a pattern again."""
    op, argument = items[0]
    if op is sre.LITERAL and len(items) == 1:
        return _escaped(argument)
    if op is sre.NOT_LITERAL:
        return f"[^{_escaped(argument)}]"
    parts = []
    for kind, value in items:
        if kind is sre.NEGATE:
            parts.append("^")
        elif kind is sre.LITERAL:
            parts.append(_escaped(value))
        elif kind is sre.RANGE:
            parts.append(f"{_escaped(value[0])}-{_escaped(value[1])}")
        else:
            parts.append(_CLASS_ESCAPES[value])
    return f"[{''.join(parts)}]"


def _escaped(code_point: int) -> str:
    return f"\\U{code_point:08x}"
