"""A text that a lexer and its parser begin and that nothing completes, to show what is left out."""

from __future__ import annotations

from collections import deque

import numpy as np

from cdec.compilers.grammars.soundness.dead_ends import Parser, Stack
from cdec.compilers.grammars.soundness.parts import Parts

_MAX_STEPS = 40_000
"""Bytes to try, shortest texts first: some tenths of a second."""

_Reading = tuple[Stack, int]
"""Stack, and the scanner's state in the terminal that is under way."""
_Readings = tuple[_Reading, ...]
"""The reading under way, then its fallbacks (``cdec.core.grammars.columns``)."""


def find_example(whole: Parts, pruned: Parts) -> bytes | None:
    """Return the shortest text that is allowed by the one and not by the other.

    Args:
        whole: Of a deterministic lexer.
        pruned: The same without what nothing completes.

    Returns:
        A text whose last byte leads into a dead end; None where none was met among short texts.
    """
    before, after = _Lexing(whole), _Lexing(pruned)
    classes = _bytes_of_classes(whole, pruned)
    start = before.start, after.start
    seen = {start}
    ready: deque[tuple[_Readings, _Readings, bytes]] = deque([(*start, b"")])
    steps = 0
    while ready and steps < _MAX_STEPS:
        left, right, text = ready.popleft()
        steps += len(classes)
        for byte in classes:
            both = before.step(left, byte), after.step(right, byte)
            if not both[0] or both in seen:
                continue
            longer = text + bytes([byte])
            if not both[1]:
                return longer
            seen.add(both)
            ready.append((*both, longer))
    return None


def _bytes_of_classes(whole: Parts, pruned: Parts) -> list[int]:
    """Return a byte of each class that both scanners know, letters where there are some."""
    chosen: dict[tuple[int, int], int] = {}
    letters = [byte for byte in range(128) if chr(byte).isalnum()]
    for byte in [*letters, *range(256)]:
        key = int(whole.scanner.byte_class[byte]), int(pruned.scanner.byte_class[byte])
        chosen.setdefault(key, byte)
    return sorted(chosen.values())


class _Lexing:
    """A deterministic lexer and its parser, a byte at a time."""

    def __init__(self, parts: Parts) -> None:
        scanner = parts.scanner
        self._ignored = parts.grammar.ignored
        self._parser = Parser(parts.tables)
        self._byte_class = scanner.byte_class.tolist()
        self._delta = scanner.delta.tolist()
        self._match = np.full(len(scanner.delta), -1, np.int32)
        completes = np.flatnonzero(np.diff(scanner.match_offsets))
        self._match[completes] = scanner.match_terminals[scanner.match_offsets[completes]]
        bounds = scanner.live_offsets.tolist()
        self._live = [
            scanner.live_terminals[bounds[row] : bounds[row + 1]].tolist()
            for row in scanner.live_row.tolist()
        ]
        self._starts = scanner.context_start[parts.contexts.of_state].tolist()
        self._shifted: dict[tuple[Stack, int], Stack | None] = {}
        self.start: _Readings = (((0,), self._starts[0]),)

    def step(self, readings: _Readings, byte: int) -> _Readings:
        """Return the readings after a byte; none where the mask would not allow it."""
        after: list[_Reading] = []
        is_alive = False
        for stack, state in readings:
            state = self._delta[state][self._byte_class[byte]]
            if state < 0:
                continue
            live = self._live[state]
            if live:
                after.append((stack, state))
                is_alive = is_alive or any(self._shift(stack, t) is not None for t in live)
            if self._match[state] >= 0:
                shifted = self._shift(stack, int(self._match[state]))
                if shifted is not None:
                    after.append((shifted, self._starts[shifted[-1]]))
                    is_alive = True
                break
        return tuple(after) if is_alive else ()

    def _shift(self, stack: Stack, terminal: int) -> Stack | None:
        if terminal in self._ignored:
            return stack
        key = stack, terminal
        if key not in self._shifted:
            self._shifted[key] = self._parser.shift(stack, terminal)
        return self._shifted[key]
