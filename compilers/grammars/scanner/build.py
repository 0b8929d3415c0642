"""Scanner: one deterministic automaton over bytes, made of all terminals and their contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.terminal import packed
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits, Lexer
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.scanner.competition import (
    Competitors,
    Contexts,
    Keywords,
    completed,
    find_keywords,
    read_copies,
    start_codes,
)
from cdec.compilers.grammars.states import (
    Construction,
    CounterStates,
    Most,
    allowed,
    constructed,
    copies_of_rows,
    joined_copies,
    merge_classes,
    merged_copies,
    merged_states,
)
from cdec.core.errors import LimitError
from cdec.core.mask import offsets_of
from cdec.core.native import library


def live_rows(
    delta: NDArray[np.int32],
    match_offsets: NDArray[np.int32],
    match_terminals: NDArray[np.int32],
    num_terminals: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the terminals that states reached after one byte or more complete.

    Strongly connected states share their row, so one pass over the components, last ones first,
    is enough (Tarjan 1972).

    Args:
        delta: int32[C, K], -1 dead.
        match_offsets, match_terminals: int32[C + 1] and int32, terminals of each state.
        num_terminals: Upper bound of terminal numbers.

    Returns:
        (live_row int32[C], live_offsets int32[L + 1], live_terminals int32): equal rows once,
        ascending within a row. Cost: edges between components x length of a row.
    """
    delta = np.ascontiguousarray(delta)
    found = constructed(library.find_live(delta, match_offsets, match_terminals, num_terminals))
    assert found is not None
    return found.delta.ravel(), found.offsets.astype(np.int32), found.items


def states_with_fallback(
    delta: NDArray[np.int32], match_offsets: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return the states in which the lexer can still remember an earlier end of the terminal.

    They are the states that complete a terminal and all that come after them: bool[C].

    Args:
        delta: int32[C, K], -1 dead.
        match_offsets: int32[C + 1], terminals of each state.
    """
    found = np.diff(match_offsets) > 0
    front: NDArray[Any] = np.flatnonzero(found)
    while len(front):
        reached = np.unique(delta[front])
        front = reached[(reached >= 0) & ~found[reached]]
        found[front] = True
    return found


@dataclass(frozen=True, slots=True)
class Scanner:
    """The scanner part of ``cdec.core.grammars.columns.GrammarArrays``, but ``delta`` is a matrix.

    Attributes:
        byte_class: int32[256].
        delta: int32[C, K], -1 dead.
        match_offsets: int32[C + 1]. match_terminals: int32, completed on entering a state.
        live_row: int32[C]. live_offsets: int32[L + 1]. live_terminals: int32.
        context_start: int32[X].
        copies: Of counted repetitions; None where nothing is counted.
    """

    byte_class: NDArray[np.int32]
    delta: NDArray[np.int32]
    match_offsets: NDArray[np.int32]
    match_terminals: NDArray[np.int32]
    live_row: NDArray[np.int32]
    live_offsets: NDArray[np.int32]
    live_terminals: NDArray[np.int32]
    context_start: NDArray[np.int32]
    copies: CounterStates | None = None


def build_scanner(
    grammar: Grammar,
    automata: Sequence[ByteAutomaton],
    contexts: Sequence[frozenset[int]],
    *,
    lexer: Lexer,
    limits: GrammarLimits,
) -> Scanner:
    """Join the automata of the terminals of each context into one smallest scanner.

    ``contextual`` and ``basic`` do as lark's lexer: the first terminal in order that matches wins,
    with the length that it prefers itself; texts of regular expressions become keywords. Under
    ``dynamic`` every terminal goes its own way.

    Args:
        grammar: Its terminals are in the order in which they compete; ignored keywords have copies
            (``with_keyword_copies``).
        automata: One a terminal; prioritised unless ``lexer`` is dynamic.
        contexts: Sets of terminal numbers, the ignored ones included.
        lexer, limits: max_states holds before equal states are merged.

    Raises:
        LimitError: More than max_states states.
        UncountableError: Copies that were left out of terminals cannot be put in afterwards.
    """
    competing = lexer != "dynamic"
    keywords = find_keywords(grammar.terminals, automata) if competing else Keywords({}, {})
    byte_class, terminals, bases = _join(grammar, automata, keywords, competing)
    numbers: dict[bytes, int] = {}
    rows = start_codes(contexts, bases.tolist(), keywords, terminals)
    starts = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    found = _construct(terminals, list(numbers), limits)
    becomes = np.arange(len(automata), dtype=np.int32)
    for keyword, copy in read_copies(grammar).items():
        becomes[keyword] = copy
    match_offsets, matches = completed(terminals, becomes, found.offsets, found.items)
    counts = joined_copies([a.copies for a in automata], np.diff(bases).tolist())
    copies = counts and copies_of_rows(found, counts, flagged=True, ordered=True)
    completing = Construction(match_offsets, matches, found.delta)
    return smallest(byte_class, completing, starts, len(automata), copies)


def smallest(
    byte_class: NDArray[np.int32],
    completing: Construction,
    starts: Sequence[int],
    num_terminals: int,
    copies: CounterStates | None = None,
) -> Scanner:
    """Return the smallest scanner that does as this one.

    Args:
        byte_class: int32[256].
        completing: States as the terminals that are completed on entering them.
        starts: State of each context. num_terminals: Upper bound of their numbers.
        copies: Of counted repetitions, by state.
    """
    match_offsets, matches, delta = completing
    labels = _labels(match_offsets, matches)
    delta, old, numbers = merged_states(delta, labels, np.array(starts, np.int32))
    copies = copies and merged_copies(copies, numbers, len(delta))
    byte_class, delta = merge_classes(byte_class, delta)
    offsets, kept = _selected(match_offsets, matches, old)
    live = live_rows(delta, offsets, kept, num_terminals)
    return Scanner(byte_class, delta, offsets, kept, *live, numbers[list(starts)], copies)


def _join(
    grammar: Grammar, automata: Sequence[ByteAutomaton], keywords: Keywords, competing: bool
) -> tuple[NDArray[np.int32], Competitors, NDArray[np.int64]]:
    """Return (byte_class int32[256], terminals, first state of each automaton int64[T + 1])."""
    deltas = [packed(automaton) for automaton in automata]
    byte_classes = np.array([delta.byte_class for delta in deltas], np.int32).reshape(-1, 256)
    numbers: dict[bytes, int] = {}
    columns = np.ascontiguousarray(byte_classes.T)
    byte_class = np.array(
        [numbers.setdefault(column.tobytes(), len(numbers)) for column in columns], np.int32
    )
    bytes_of = np.unique(byte_class, return_index=True)[1]
    bases = offsets_of([len(delta) for delta in deltas])
    rows = [
        np.where(to >= 0, to + base, -1)
        for delta, base in zip(deltas, bases.tolist(), strict=False)
        for to in (delta.rows[:, np.asarray(delta.byte_class)[bytes_of]],)
    ]
    whole = np.concatenate([np.empty((0, len(bytes_of)), np.int64), *rows])
    states, kinds = np.nonzero(whole >= 0)
    terminals = Competitors(
        np.searchsorted(states, np.arange(len(whole) + 1)).astype(np.int64),
        kinds.astype(np.int32),
        whole[states, kinds].astype(np.int32),
        np.array([end for automaton in automata for end in automaton.accepting], np.bool_),
        np.repeat(np.arange(len(deltas), dtype=np.int32), np.diff(bases)),
        *_expressions(grammar, keywords),
        len(bytes_of),
        competing,
    )
    return byte_class, terminals, bases


def _expressions(
    grammar: Grammar, keywords: Keywords
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``keyword_offsets`` and ``expressions`` of ``Competitors``.

    subtle: lark drops an ignored expression's text even where it is a keyword's, so those never
    become keywords; and hands an ignored keyword to the parser if an expression that is not
    ignored matched it: the keyword's copy here, see ``with_keyword_copies``.
    """
    num_terminals = len(grammar.terminals)
    offsets = np.zeros(num_terminals + 1, np.int64)
    expressions: list[int] = []
    for keyword in range(num_terminals):
        of_keyword = keywords.retyped.get(keyword, ())
        expressions.extend(r for r in of_keyword if r not in grammar.ignored)
        offsets[keyword + 1] = len(expressions)
    return offsets, np.array(expressions, np.int32)


def _construct(
    terminals: Competitors, starts: Sequence[bytes], limits: GrammarLimits
) -> Construction:
    """Do the subset construction from some rows of codes int32."""
    offsets = offsets_of([len(row) // 4 for row in starts])
    codes = np.frombuffer(b"".join(starts), np.int32)
    begun = library.determinise_terminals(terminals, offsets, codes)
    found = constructed(begun, allowed(limits.max_states)._replace(cells=Most().cells))
    if found is None:
        raise LimitError(
            f"the scanner has more than {limits.max_states} states",
            hint="make the terminals simpler, repeat fewer times, or raise `max_states`",
            limit="max_states",
        )
    return found


def _labels(match_offsets: NDArray[np.int64], matches: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number the distinct sets of completed terminals, 0 for none: int32[n]."""
    counts = np.diff(match_offsets)
    labels = np.zeros(len(counts), np.int32)
    single = counts == 1
    labels[single] = matches[match_offsets[:-1][single]] + 1
    several: dict[bytes, int] = {}
    beyond = int(matches.max(initial=0)) + 2
    for state in np.flatnonzero(counts > 1):
        row = matches[match_offsets[state] : match_offsets[state + 1]].tobytes()
        labels[state] = several.setdefault(row, len(several)) + beyond
    return labels


def _selected(
    match_offsets: NDArray[np.int64], matches: NDArray[np.int32], old: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (match_offsets int32, match_terminals) of the states ``old`` int32[n]."""
    counts = np.diff(match_offsets)[old]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    places = np.repeat(match_offsets[:-1][old], counts) + within
    return offsets.astype(np.int32), matches[places]


class Parts(NamedTuple):
    """A grammar with all that was made of it; trees and columns are made of these four."""

    grammar: Grammar
    contexts: Contexts
    scanner: Scanner
    tables: ParseTables
