"""Competing terminals: where each begins in a scanner, and what its states complete.

A scanner state is a row of codes, ascending: ``2 * state`` of a terminal's automaton (states of all
terminals are numbered through) where the terminal competes; plus 1 where it is followed only to
know whether a text is a keyword. The first terminal that completes beats all behind it for good, as
in one large alternation; a keyword is followed while an expression that becomes it competes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.scanner.keywords import Keywords


class Competitors(NamedTuple):
    """The automata of T terminals side by side, over common byte classes, and their keywords.

    Attributes:
        offsets: int64[S + 1].
        kinds, targets: int32, edges of a state by byte class.
        accepts: bool[S].
        owners: int32[S] terminal of a state.
        keyword_offsets: int64[T + 1].
        expressions: int32, the regular expressions that become each keyword.
        classes: Number of byte classes.
        competing: Whether terminals compete; otherwise each goes its own way.
    """

    offsets: NDArray[np.int64]
    kinds: NDArray[np.int32]
    targets: NDArray[np.int32]
    accepts: NDArray[np.bool_]
    owners: NDArray[np.int32]
    keyword_offsets: NDArray[np.int64]
    expressions: NDArray[np.int32]
    classes: int
    competing: bool


def start_codes(
    contexts: Sequence[frozenset[int]], bases: list[int], keywords: Keywords, terminals: Competitors
) -> Iterator[NDArray[np.int32]]:
    """Yield the codes in which each context's terminals begin; embedded keywords do not compete.

    Args:
        contexts: Sets of terminals.
        bases: First state of each terminal.
        keywords, terminals: Of the grammar.
    """
    ends, expressions = terminals.keyword_offsets.tolist(), terminals.expressions.tolist()
    for context in contexts:
        embedded = {t for t in context if not context.isdisjoint(keywords.embedding.get(t, ()))}
        competing = context - embedded
        codes = [
            bases[t] << 1 | (t in embedded)
            for t in sorted(context)
            if t in competing or not competing.isdisjoint(expressions[ends[t] : ends[t + 1]])
        ]
        yield np.array(codes, np.int32)


def completed(
    terminals: Competitors,
    becomes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    codes: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (match_offsets int64[n + 1], match_terminals int32): what each state completes.

    Args:
        terminals: They.
        becomes: int32[T] what a text is that became a keyword.
        offsets, codes: int64[n + 1] and int32, the rows of the states.
    """
    n = len(offsets) - 1
    ends = np.flatnonzero(terminals.accepts[codes >> 1])
    states = np.repeat(np.arange(n), np.diff(offsets))[ends]
    owners = terminals.owners[codes[ends] >> 1]
    places = np.flatnonzero(codes[ends] & 1 == 0)
    if terminals.competing:
        places = places[np.unique(states[places], return_index=True)[1]]
    matches = owners[places]
    match_offsets = np.searchsorted(states[places], np.arange(n + 1)).astype(np.int64)
    if terminals.competing:
        winner = np.full(n, -1, np.int32)
        winner[states[places]] = matches
        keyword = _keywords(terminals, states, owners, winner)
        retyped = np.flatnonzero(keyword >= 0)
        winner[retyped] = becomes[keyword[retyped]]
        matches = winner[states[places]]
    return match_offsets, matches


def _keywords(
    terminals: Competitors,
    states: NDArray[np.int64],
    ended: NDArray[np.int32],
    winner: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Return the first keyword that the text of each state's winner is, -1 for none: int32[n].

    Args:
        terminals: They.
        states, ended: int[m] states, ascending, and each terminal whose text ends there.
        winner: int32[n] the first of them that competes, -1 for none.
    """
    found = np.full(len(winner), -1, np.int32)
    counts = np.diff(terminals.keyword_offsets)[ended]
    which = np.repeat(np.arange(len(states)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    expressions = terminals.expressions[terminals.keyword_offsets[ended[which]] + within]
    which = which[expressions == winner[states[which]]]
    became, first = np.unique(states[which], return_index=True)
    found[became] = ended[which[first]]
    return found
