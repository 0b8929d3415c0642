"""A deterministic lexer's scanner built step by step in plain Python, for small grammars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import Grammar, GrammarLimits

_Thread = tuple[int, int]


@dataclass
class PlainScanner:
    """The arrays of ``cdec.core.grammars.columns``, but for sharing of states."""

    byte_class: NDArray[np.int32]
    delta: NDArray[np.int32]
    match_offsets: NDArray[np.int32]
    match_terminals: NDArray[np.int32]
    live_row: NDArray[np.int32]
    live_offsets: NDArray[np.int32]
    live_terminals: NDArray[np.int32]
    context_start: NDArray[np.int32]


def plain_scanner(grammar: Grammar, contexts: list[frozenset[int]]) -> PlainScanner:
    """Build the scanner; a literal that an earlier terminal also matches wins if as long."""
    automata = [
        compile_terminal(terminal, prioritised=True, limits=GrammarLimits())
        for terminal in grammar.terminals
    ]
    deltas = [np.asarray(automaton.delta) for automaton in automata]
    numbers: dict[tuple[tuple[_Thread, ...], int], int] = {}
    rows: list[dict[int, int]] = []
    matches: list[int] = []

    def number(threads: tuple[_Thread, ...], match: int) -> int:
        found = numbers.setdefault((threads, match), len(rows))
        if found == len(rows):
            rows.append({})
            matches.append(match)
        return found

    starts = [number(tuple((t, 0) for t in sorted(context)), -1) for context in contexts]
    place = 0
    while place < len(rows):
        threads, _ = list(numbers)[place]
        for byte in range(256):
            moved = tuple((t, int(deltas[t][s, byte])) for t, s in threads)
            moved = tuple((t, s) for t, s in moved if s >= 0)
            ended = [t for t, s in moved if automata[t].accepting[s]]
            match = -1
            if ended:
                literal = [t for t in ended if grammar.terminals[t].is_string]
                match = (literal or ended)[0]
                moved = tuple(
                    (t, s) for t, s in moved if t <= ended[0] or grammar.terminals[t].is_string
                )
            if moved:
                rows[place][byte] = number(moved, match)
        place += 1
    return _arrays(rows, matches, starts)


def _arrays(rows: list[dict[int, int]], matches: list[int], starts: list[int]) -> PlainScanner:
    live: list[set[int]] = [set() for _ in rows]
    changed = True
    while changed:
        changed = False
        for state, row in enumerate(rows):
            for target in row.values():
                more = live[target] | ({matches[target]} if matches[target] >= 0 else set())
                if not more <= live[state]:
                    live[state] |= more
                    changed = True
    delta = np.full((len(rows), 256), -1, dtype=np.int32)
    for state, row in enumerate(rows):
        for byte, target in row.items():
            if live[target] or matches[target] >= 0:
                delta[state, byte] = target
    delta, byte_class = np.unique(delta, axis=1, return_inverse=True)
    count = [int(match >= 0) for match in matches]
    return PlainScanner(
        byte_class=byte_class.reshape(-1).astype(np.int32),
        delta=np.ascontiguousarray(delta),
        match_offsets=np.concatenate([[0], np.cumsum(count)]).astype(np.int32),
        match_terminals=np.array([match for match in matches if match >= 0], dtype=np.int32),
        live_row=np.arange(len(rows), dtype=np.int32),
        live_offsets=np.concatenate([[0], np.cumsum([len(row) for row in live])]).astype(np.int32),
        live_terminals=np.array([t for row in live for t in sorted(row)], dtype=np.int32),
        context_start=np.array(starts, dtype=np.int32),
    )
