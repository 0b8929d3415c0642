"""Decoding states of a deterministic lexer as plain tuples, stepped byte class by byte class."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.parser.tables import ParseTables
from tests.compilers.grammars.scanner.plain_scanner import PlainScanner

_Configuration = tuple[int, tuple[int, ...], bool]
Configurations = tuple[_Configuration, ...]
"""Each: scanner state, stack of LR states, at the start of a terminal; then its fallback."""


class PlainConfigurations:
    """The ordered configurations of ``cdec.core.grammars.columns``, by their definition."""

    def __init__(
        self,
        scanner: PlainScanner,
        tables: ParseTables,
        lr_context: NDArray[np.int32],
        ignored: frozenset[int],
    ) -> None:
        self._delta = scanner.delta.tolist()
        self.byte_class: list[int] = scanner.byte_class.tolist()
        offsets = scanner.match_offsets.tolist()
        self._match = [
            int(scanner.match_terminals[begin]) if begin < stop else -1
            for begin, stop in itertools.pairwise(offsets)
        ]
        edges = scanner.live_offsets.tolist()
        self._live = [
            scanner.live_terminals[edges[row] : edges[row + 1]].tolist()
            for row in scanner.live_row.tolist()
        ]
        self._first = [int(scanner.context_start[context]) for context in lr_context.tolist()]
        self._ignored = ignored
        self._tables = tables
        self._end = len(tables.contexts_after)
        self._actions = [
            dict(
                zip(
                    tables.action_terminals[begin:stop].tolist(),
                    tables.action_values[begin:stop].tolist(),
                    strict=True,
                )
            )
            for begin, stop in zip(
                tables.action_offsets[:-1].tolist(),
                tables.action_offsets[1:].tolist(),
                strict=True,
            )
        ]
        self._shifted: dict[tuple[tuple[int, ...], int], tuple[int, ...] | None] = {}
        self.start: Configurations = ((self._first[0], (0,), True),)

    def shift(self, stack: tuple[int, ...], terminal: int) -> tuple[int, ...] | None:
        key = (stack, terminal)
        if key not in self._shifted:
            self._shifted[key] = self._shift(stack, terminal)
        return self._shifted[key]

    def _shift(self, stack: tuple[int, ...], terminal: int) -> tuple[int, ...] | None:
        if terminal in self._ignored:
            return stack
        tables = self._tables
        while True:
            action = self._actions[stack[-1]].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return (*stack, action)
            rule = ~action
            stack = stack[: len(stack) - int(tables.rule_length[rule])]
            begin, stop = tables.goto_offsets[stack[-1] : stack[-1] + 2].tolist()
            row = tables.goto_symbols[begin:stop].tolist()
            place = begin + row.index(int(tables.rule_lhs[rule]))
            stack = (*stack, int(tables.goto_states[place]))

    def step(self, configurations: Configurations, column: int) -> Configurations | None:
        """Return the configurations after one byte of a class, None if none can go on."""
        after: list[_Configuration] = []
        for state, stack, _ in configurations:
            target = self._delta[state][column]
            if target < 0:
                continue
            if self._live[target]:
                after.append((target, stack, False))
            if self._match[target] >= 0:
                shifted = self.shift(stack, self._match[target])
                if shifted is not None:
                    after.append((self._first[shifted[-1]], shifted, True))
                break
        alive = any(
            fresh or any(self.shift(stack, terminal) is not None for terminal in self._live[state])
            for state, stack, fresh in after
        )
        return tuple(after) if alive else None

    def is_complete(self, configurations: Configurations) -> bool:
        _, stack, fresh = configurations[-1]
        return fresh and self.shift(stack, self._end) is not None

    def after(self, configurations: Configurations) -> Iterator[tuple[int, Configurations]]:
        for column in range(len(self._delta[0])):
            stepped = self.step(configurations, column)
            if stepped is not None:
                yield column, stepped

    def completes(self, configurations: Configurations, more_bytes: int) -> bool:
        """Return whether some text of so many more bytes is complete, low stacks tried first."""
        ready = [(0, 0, 0, configurations)]
        seen = {configurations}
        while ready:
            _, length, _, found = heapq.heappop(ready)
            if self.is_complete(found):
                return True
            if length == more_bytes or len(seen) > 20_000:
                continue
            for _, stepped in self.after(found):
                if stepped not in seen:
                    seen.add(stepped)
                    cost = length + 2 * len(stepped[-1][1])
                    heapq.heappush(ready, (cost, length + 1, len(seen), stepped))
        return False

    def stuck(self, *, prefix_bytes: int, more_bytes: int, most: int) -> list[int] | None:
        """Return byte classes that lead where nothing completes a text, None if none do."""
        ready: deque[tuple[Configurations, list[int]]] = deque([(self.start, [])])
        seen = {self.start}
        while ready:
            configurations, text = ready.popleft()
            if not self.completes(configurations, more_bytes):
                return text
            if len(text) == prefix_bytes:
                continue
            for column, stepped in self.after(configurations):
                if stepped not in seen and len(seen) < most:
                    seen.add(stepped)
                    ready.append((stepped, [*text, column]))
        return None
