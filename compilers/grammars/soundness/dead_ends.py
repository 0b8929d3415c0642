"""A search for a text that has been begun and cannot be completed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.soundness.adjacency import Adjacency
from cdec.compilers.grammars.soundness.completions import ACCEPT, Boundary, Completions
from cdec.compilers.grammars.soundness.pending import NOTHING_PENDING

_MAX_STACKS = 3_000
"""Stacks to look at, shortest texts first."""

_MAX_REDUCTIONS = 10_000
"""Reductions before one terminal, beyond which it is taken for refused: the search misses that."""

Stack = tuple[int, ...]
"""LR states, the bottom first."""


def find_dead_end(
    tables: ParseTables,
    adjacency: Adjacency,
    ahead: Mapping[Boundary, int],
    completions: Completions,
    ignored: frozenset[int],
) -> list[int] | None:
    """Return terminals after which no completion exists, or None if no such text was met.

    Only stacks with nothing pending count: else the pending match may still complete the text.

    Args:
        tables: LALR(1) tables.
        adjacency: Letters and pending matches.
        ahead: Per boundary: the letters that can follow, ignored ones between.
        completions: Of the same tables.
        ignored: Ignored terminals.
    """
    parser = Parser(tables)
    start: tuple[Stack, int] = ((0,), NOTHING_PENDING)
    seen = {start}
    ready: deque[tuple[Stack, int, list[int]]] = deque([(*start, [])])
    while ready:
        stack, pending, text = ready.popleft()
        if pending == NOTHING_PENDING and not _completes(stack, pending, completions):
            return text
        for number in bits(ahead[stack[-1], pending]):
            letter = adjacency.letters[number]
            if letter.terminal in ignored:
                continue
            after = parser.shift(stack, letter.terminal)
            if after is not None and (after, letter.pending) not in seen:
                if len(seen) >= _MAX_STACKS:
                    return None
                seen.add((after, letter.pending))
                ready.append((after, letter.pending, [*text, letter.terminal]))
    return None


def _completes(stack: Stack, pending: int, completions: Completions) -> bool:
    """Return whether some text completes this very stack."""
    ways = completions.of((stack[-1], pending))
    for state in reversed(stack[:-1]):
        ways = completions.under(state, ways)
    return ACCEPT in ways


class Parser:
    """The deterministic parser on stacks of its own."""

    def __init__(self, tables: ParseTables) -> None:
        self._tables = tables
        self._actions: dict[int, dict[int, int]] = {}

    def _row(self, state: int) -> dict[int, int]:
        if state not in self._actions:
            begin, stop = self._tables.action_offsets[state : state + 2].tolist()
            self._actions[state] = dict(
                zip(
                    self._tables.action_terminals[begin:stop].tolist(),
                    self._tables.action_values[begin:stop].tolist(),
                    strict=True,
                )
            )
        return self._actions[state]

    def shift(self, stack: Stack, terminal: int) -> Stack | None:
        """Return the stack after a terminal, None if it cannot be shifted.

        subtle: where a rule's priority prefers reducing an empty rule the stack can grow for ever;
        by more states than there are it does.
        """
        tables, highest = self._tables, len(stack) + self._tables.num_states
        for _ in range(_MAX_REDUCTIONS):
            action = self._row(stack[-1]).get(terminal)
            if action is None or len(stack) > highest:
                return None
            if action >= 0:
                return (*stack, action)
            stack = stack[: len(stack) - int(tables.rule_length[~action])]
            begin, stop = tables.goto_offsets[stack[-1] : stack[-1] + 2].tolist()
            place = tables.goto_symbols[begin:stop].tolist().index(int(tables.rule_lhs[~action]))
            stack = (*stack, int(tables.goto_states[begin + place]))
        return None
