"""build_scanner: terminals' automata and contexts -> one deterministic scanner over bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.terminal import packed
from cdec.compilers.grammars.definition import (
    ByteAutomaton,
    Grammar,
    GrammarLimits,
    Lexer,
)
from cdec.compilers.grammars.scanner.ignoring import read_copies
from cdec.compilers.grammars.scanner.kernels import (
    FULL,
    Edges,
    Retyping,
    compete,
    completed,
    step_scanner,
    union_edges,
)
from cdec.compilers.grammars.scanner.keywords import Keywords, find_keywords
from cdec.compilers.grammars.scanner.live_rows import live_rows
from cdec.compilers.grammars.states.copies import (
    Copies,
    copies_of_rows,
    joined_copies,
    merged_copies,
)
from cdec.compilers.grammars.states.minimise import merge_classes, merged_states
from cdec.compilers.grammars.states.row_store import RowStore, grown_rows
from cdec.core.errors import LimitError


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
    copies: Copies | None = None


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
    byte_class, edges, bases = _join(automata)
    keywords = find_keywords(grammar.terminals, automata) if competing else Keywords({}, {})
    retyping = _retyping(grammar, keywords)
    store = RowStore()
    starts = [store.add(row) for row in _start_rows(contexts, bases, keywords, edges, retyping)]
    delta = _construct(edges, retyping, competing, store, int(byte_class.max()) + 1, limits)
    match_offsets, matches = completed(edges, retyping, competing, *store.content()[::-1])
    counts = joined_copies([a.copies for a in automata], np.diff(bases).tolist())
    copies = counts and copies_of_rows(store.rows, counts, flagged=True, ordered=True)
    return smallest(byte_class, delta, match_offsets, matches, starts, len(automata), copies)


def smallest(
    byte_class: NDArray[np.int32],
    delta: NDArray[np.int32],
    match_offsets: NDArray[np.int64],
    matches: NDArray[np.int32],
    starts: Sequence[int],
    num_terminals: int,
    copies: Copies | None = None,
) -> Scanner:
    """Return the smallest scanner that does as this one.

    Args:
        byte_class: int32[256]. delta: int32[n, K].
        match_offsets: int64[n + 1]. matches: int32, completed on entering a state.
        starts: State of each context. num_terminals: Upper bound of their numbers.
        copies: Of counted repetitions, by state.
    """
    labels = _labels(match_offsets, matches)
    delta, old, numbers = merged_states(delta, labels, np.array(starts, np.int32))
    copies = copies and merged_copies(copies, numbers, len(delta))
    byte_class, delta = merge_classes(byte_class, delta)
    offsets, kept = _selected(match_offsets, matches, old)
    live = live_rows(delta, offsets, kept, num_terminals)
    return Scanner(byte_class, delta, offsets, kept, *live, numbers[list(starts)], copies)


def _join(
    automata: Sequence[ByteAutomaton],
) -> tuple[NDArray[np.int32], Edges, NDArray[np.int64]]:
    """Return (byte_class int32[256], edges, first state of each automaton int64[T + 1])."""
    deltas = [packed(automaton) for automaton in automata]
    byte_classes = np.array([delta.byte_class for delta in deltas], np.int32).reshape(-1, 256)
    numbers: dict[bytes, int] = {}
    columns = np.ascontiguousarray(byte_classes.T)
    byte_class = np.array(
        [numbers.setdefault(column.tobytes(), len(numbers)) for column in columns], np.int32
    )
    bytes_of = np.unique(byte_class, return_index=True)[1].astype(np.int32)
    bases = np.zeros(len(deltas) + 1, np.int64)
    np.cumsum([len(delta) for delta in deltas], out=bases[1:])
    widths = np.array([delta.rows.shape[1] for delta in deltas], np.int64)
    rows = np.concatenate([np.empty(0, np.int32), *(delta.rows.ravel() for delta in deltas)])
    offsets, kinds, targets = union_edges(byte_classes, bytes_of, rows, widths, bases)
    accepts = np.array([end for automaton in automata for end in automaton.accepting], np.bool_)
    owners = np.repeat(np.arange(len(deltas), dtype=np.int32), np.diff(bases))
    return byte_class, Edges(offsets, kinds, targets, accepts, owners), bases


def _retyping(grammar: Grammar, keywords: Keywords) -> Retyping:
    """Lay out the keywords for the kernels.

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
    result = np.arange(num_terminals, dtype=np.int32)
    for keyword, copy in read_copies(grammar).items():
        result[keyword] = copy
    return Retyping(offsets, np.array(expressions, np.int32), result)


def _start_rows(
    contexts: Sequence[frozenset[int]],
    bases: NDArray[np.int64],
    keywords: Keywords,
    edges: Edges,
    retyping: Retyping,
) -> Iterator[NDArray[np.int32]]:
    """Yield the codes in which each context's terminals begin; embedded keywords do not compete."""
    nothing_ends = edges._replace(accepts=np.zeros_like(edges.accepts))
    present = np.zeros(len(retyping.result), np.int64)
    for stamp, context in enumerate(contexts, 1):
        codes = [
            int(bases[t]) << 1 | (not context.isdisjoint(keywords.embedding.get(t, ())))
            for t in sorted(context)
        ]
        row = np.array(codes, np.int32)
        yield row[: compete(row, nothing_ends, retyping, present, stamp)]


def _construct(
    edges: Edges,
    retyping: Retyping,
    competing: bool,
    store: RowStore,
    num_classes: int,
    limits: GrammarLimits,
) -> NDArray[np.int32]:
    """Complete the subset construction from the rows in ``store``; return delta int32[n, K]."""
    delta = np.full((256, num_classes), -1, np.int32)
    present, progress = np.zeros(len(retyping.result), np.int64), np.zeros(3, np.int64)
    status = FULL
    while status == FULL:
        store.reserve(num_classes + 1, int(progress[2]))
        delta = grown_rows(delta, len(store) + num_classes + 1, limits.max_states)
        status = step_scanner(edges, retyping, competing, store.rows, delta, present, progress)
        if store.exceeds(limits.max_states):
            raise LimitError(
                f"the scanner has more than {limits.max_states} states",
                hint="make the terminals simpler, repeat fewer times, or raise `max_states`",
                limit="max_states",
            )
    return delta[: len(store)]


def _labels(match_offsets: NDArray[np.int64], matches: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number the distinct sets of completed terminals, 0 for none: int32[n]."""
    counts = np.diff(match_offsets)
    labels = np.zeros(len(counts), np.int32)
    single = counts == 1
    labels[single] = matches[match_offsets[:-1][single]] + 1
    several = RowStore()
    beyond = int(matches.max(initial=0)) + 2
    for state in np.flatnonzero(counts > 1):
        row = matches[match_offsets[state] : match_offsets[state + 1]]
        labels[state] = several.add(row) + beyond
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
