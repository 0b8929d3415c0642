"""Plain scanners to compare with."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from lark import Lark
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import (
    ByteAutomaton,
    Grammar,
    GrammarLimits,
    Lexer,
    Terminal,
)
from cdec.compilers.grammars.scanner.build import Scanner, build_scanner
from cdec.compilers.grammars.scanner.competition import with_keyword_copies

# --- A deterministic lexer's scanner built step by step in plain Python, for small grammars.

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


# --- Lexing by hand: walks over automata and scanners, grammars of terminals alone.

LIMITS = GrammarLimits()
EXPRESSIONS = ["/[a-z]+/", "/[a-z]+/i", "/[a-c]+?/", r"/[0-9]+(\.[0-9]+)?/", "/a|ab/", "/ab|a/",
               "/[ab]*?c/", "/(a|b)+/", r"/[A-Z]\w*/", "/[^ ]/", "/i[a-z]/", "/..?/", '/"[^"]*"/',
               "/ +/", r"/[ \n]+/", "/é+|e/i", "/[a-z]{2}/", "/if|i/"]  # fmt: skip
LITERALS = ['"if"', '"if"i', '"i"', '"ab"', '"abc"', '"a"', '".."', '"."', '" "', '"fi"i', '"IF"',
            '"é"', '"1"']  # fmt: skip
PIECES = [
    "a",
    "b",
    "c",
    "i",
    "f",
    "if",
    "IF",
    "If",
    "é",
    "É",
    ".",
    "1",
    "..",
    "1.5",
    " ",
    "ab",
    '"',
]


def expression(pattern: str, name: str = "A", *, flags: str = "", priority: int = 0) -> Terminal:
    """Return a regular-expression terminal."""
    written = f"(?{flags}:{pattern})" if flags else pattern
    return Terminal(name, written, pattern, False, frozenset(flags), priority)


def literal(value: str, name: str, *, flags: str = "", priority: int = 0) -> Terminal:
    """Return a string terminal."""
    written = f"(?{flags}:{re.escape(value)})" if flags else re.escape(value)
    return Terminal(name, written, value, True, frozenset(flags), priority)


def automaton(pattern: str, *, prioritised: bool = True) -> ByteAutomaton:
    """Compile one pattern."""
    return compile_terminal(expression(pattern), prioritised=prioritised, limits=LIMITS)


def last_end(compiled: ByteAutomaton, data: bytes) -> int | None:
    """Return where the last accepting state on the path of ``data`` is."""
    delta = np.asarray(compiled.delta)
    state, end = 0, 0 if compiled.accepting[0] else None
    for at, byte in enumerate(data, 1):
        state = int(delta[state, byte])
        if state < 0:
            break
        if compiled.accepting[state]:
            end = at
    return end


def terminals_only(terminals: tuple[Terminal, ...], ignored: frozenset[int]) -> Grammar:
    """Return a grammar without rules."""
    return Grammar(terminals, (), (), 0, ignored, None, "", "lark")


def from_lark(lark: Lark) -> Grammar:
    """Return lark's terminals in the order in which they compete, with copies of keywords."""
    ordered = sorted(
        lark.terminals,
        key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name),
    )
    terminals = tuple(
        Terminal(
            t.name,
            t.pattern.to_regexp(),
            t.pattern.value,
            t.pattern.type == "str",
            frozenset(t.pattern.flags),
            t.priority,
        )
        for t in ordered
    )
    ignored = frozenset(i for i, t in enumerate(terminals) if t.name in lark.ignore_tokens)
    return with_keyword_copies(terminals_only(terminals, ignored), automata_of(terminals, "basic"))


def automata_of(terminals: tuple[Terminal, ...], lexer: Lexer) -> list[ByteAutomaton]:
    """Return the automata of terminals under a lexer."""
    return [
        compile_terminal(terminal, prioritised=lexer != "dynamic", limits=LIMITS)
        for terminal in terminals
    ]


def scanner_of(
    grammar: Grammar, contexts: list[frozenset[int]] | None = None, lexer: Lexer = "basic"
) -> Scanner:
    """Build the scanner of ``grammar``, by default with one context of all terminals."""
    automata = automata_of(grammar.terminals, lexer)
    everything = [frozenset(range(len(automata)))]
    return build_scanner(grammar, automata, contexts or everything, lexer=lexer, limits=LIMITS)


def completed(scanner: Scanner, state: int) -> tuple[int, ...]:
    """Return the terminals that entering ``state`` completes."""
    first, stop = scanner.match_offsets[state : state + 2]
    return tuple(scanner.match_terminals[first:stop].tolist())


def alive(scanner: Scanner, state: int) -> set[int]:
    """Return the terminals that can still complete after ``state``."""
    row = scanner.live_row[state]
    first, stop = scanner.live_offsets[row : row + 2]
    return set(scanner.live_terminals[first:stop].tolist())


def path(scanner: Scanner, data: bytes, context: int = 0) -> list[int]:
    """Return the states after each byte of ``data`` until the scanner dies."""
    state, states = int(scanner.context_start[context]), []
    for byte in data:
        state = int(scanner.delta[state, scanner.byte_class[byte]])
        if state < 0:
            break
        states.append(state)
    return states


def tokens(grammar: Grammar, scanner: Scanner, text: str) -> list[tuple[str, str]]:
    """Lex ``text``: the last completion on the path, again from there; ("", rest) at an error."""
    data, at, found = text.encode(), 0, []
    while at < len(data):
        ends = [
            (at + offset, completed(scanner, state)[0])
            for offset, state in enumerate(path(scanner, data[at:]), 1)
            if completed(scanner, state)
        ]
        if not ends:
            return [*found, ("", data[at:].decode())]
        end, terminal = ends[-1]
        if terminal not in grammar.ignored:
            found.append((grammar.terminals[terminal].name, data[at:end].decode()))
        at = end
    return found
