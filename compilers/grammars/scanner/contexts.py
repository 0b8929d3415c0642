"""Which terminals compete where: the scanner's contexts, read off the parse tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar, Lexer

if TYPE_CHECKING:
    from cdec.compilers.grammars.parser.tables import ParseTables


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a grammar, X of them, none twice.

    Attributes:
        terminals: The competing terminals of each context.
        of_state: int32[N] context while this LR state is on top (dynamic: [0] only).
        of_terminal: int32[T] dynamic: context after this terminal; else -1.
        after: For each terminal the contexts that may hold once it is complete, ascending.
    """

    terminals: tuple[frozenset[int], ...]
    of_state: NDArray[np.int32]
    of_terminal: NDArray[np.int32]
    after: tuple[tuple[int, ...], ...]


def find_contexts(grammar: Grammar, tables: ParseTables, lexer: Lexer) -> Contexts:
    """Return the contexts that a lexer distinguishes.

    Args:
        grammar: Analysed.
        tables: Of this grammar; generalised ones for ``dynamic``.
        lexer: ``contextual``: terminals with an action in lark's LR state, and ignored ones, as
            its contextual lexer has them. ``basic``: all. ``dynamic``: terminals that can follow
            the last one by the tables, a superset of those the parser will accept; but for those
            that never follow themselves.

    Returns:
        Contexts. Cost: O(actions).
    """
    if lexer == "dynamic":
        return _dynamic(grammar, tables)
    everywhere = frozenset(range(len(grammar.terminals)))
    numbers: dict[frozenset[int], int] = {}
    of_state = np.zeros(tables.num_states, np.int32)
    for state, accepted in enumerate(tables.competing):
        competing = accepted | grammar.everywhere
        chosen = everywhere if lexer == "basic" else frozenset(competing)
        of_state[state] = numbers.setdefault(chosen, len(numbers))
    after = [
        tuple(range(len(numbers)))  # an ignored terminal leaves the stack, and so the context
        if terminal in grammar.ignored
        else tuple(np.unique(of_state[_states_after(tables, terminal)]).tolist())
        for terminal in range(len(grammar.terminals))
    ]
    nowhere = np.full(len(grammar.terminals), -1, np.int32)
    return Contexts(tuple(numbers), of_state, nowhere, tuple(after))


def _dynamic(grammar: Grammar, tables: ParseTables) -> Contexts:
    everywhere = frozenset(range(len(grammar.terminals))) - grammar.refused
    numbers: dict[frozenset[int], int] = {}
    first = frozenset(tables.accepts[0] | grammar.ignored)
    of_state = np.full(tables.num_states, numbers.setdefault(first, 0), np.int32)
    of_terminal = np.zeros(len(grammar.terminals), np.int32)
    for terminal in range(len(grammar.terminals)):
        chosen = everywhere - ({terminal} & grammar.alone)
        if terminal not in grammar.ignored:
            states: Sequence[int] = _states_after(tables, terminal).tolist()
            chosen = grammar.ignored.union(*(tables.accepts[state] for state in states))
        of_terminal[terminal] = numbers.setdefault(frozenset(chosen), len(numbers))
    after = tuple((context,) for context in of_terminal.tolist())
    return Contexts(tuple(numbers), of_state, of_terminal, after)


def _states_after(tables: ParseTables, terminal: int) -> NDArray[np.int64]:
    """Return the LR states that shifting a terminal leads to."""
    return np.asarray(sorted(tables.contexts_after[terminal]), np.int64)
