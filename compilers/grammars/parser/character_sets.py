"""Which characters one element of a regular expression matches, as ``re`` itself reads it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

_constants: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")
_compiler: Any = import_module("re._compiler")

_LAST = sys.maxunicode
_SURROGATES = (0xD800, 0xDFFF)


def ranges_of(op: Any, value: Any, flags: int) -> tuple[int, ...]:
    """Return the characters that an element matches: first and last code points, ascending."""
    if op is _constants.ANY:
        return (0, _LAST) if flags & _constants.SRE_FLAG_DOTALL else (0, 9, 11, _LAST)
    folds = flags & _constants.SRE_FLAG_IGNORECASE
    if op is _constants.LITERAL and not folds:
        return (value, value)
    parts = value if op is _constants.IN else ()
    plain = (_constants.LITERAL, _constants.RANGE, _constants.NEGATE)
    if folds or not parts or any(part not in plain for part, _ in parts):
        return _tried(op, tuple(value) if op is _constants.IN else value, flags)
    spans = sorted(
        (v, v) if part is _constants.LITERAL else v for part, v in parts if v is not None
    )
    return _complement(spans) if parts[0][0] is _constants.NEGATE else _merged(spans)


def _merged(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    flat: list[int] = []
    for first, last in spans:
        if flat and first <= flat[-1] + 1:
            flat[-1] = max(flat[-1], last)
        else:
            flat += [first, last]
    return tuple(flat)


def _complement(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    flat: list[int] = []
    edge = 0
    for first, last in spans:
        if first > edge:
            flat += [edge, first - 1]
        edge = max(edge, last + 1)
    return (*flat, edge, _LAST) if edge <= _LAST else tuple(flat)


@lru_cache(maxsize=1024)
def _tried(op: Any, value: Any, flags: int) -> tuple[int, ...]:
    """Find the characters that an element matches by matching it against all there are."""
    state = _parser.State()
    state.flags = flags
    listed = list(value) if op is _constants.IN else value
    one = _parser.SubPattern(state, [(op, listed)])
    several = _parser.SubPattern(state, [(_constants.MAX_REPEAT, (1, _constants.MAXREPEAT, one))])
    low, high = _SURROGATES
    spans = []
    for first, stop in ((0, low), (high + 1, _LAST + 1)):
        found = _compiler.compile(several, flags).finditer(_characters(first, stop))
        spans += [(first + match.start(), first + match.end() - 1) for match in found]
    return _merged(spans)


@lru_cache(maxsize=2)
def _characters(first: int, stop: int) -> str:
    return np.arange(first, stop, dtype="<u4").tobytes().decode("utf-32-le")
