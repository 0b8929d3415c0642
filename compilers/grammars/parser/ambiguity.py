"""How much reading texts in several ways at once may cost, told from the parse tables."""

from __future__ import annotations

import numpy as np

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.core.errors import LimitError

__all__ = ["ambiguity", "refuse_ambiguity"]


def ambiguity(tables: ParseTables) -> int:
    """Return how many reductions may compete before one terminal, at most.

    A nonterminal that some state reduces to in conflict with another action counts once for every
    state that it can follow: a text may have led to all of these together. That is what a step of
    the generalised parser costs; it squares with the length of chains of ambiguous rules.
    """
    states = np.repeat(np.arange(tables.num_states), np.diff(tables.action_offsets))
    cells = states * (tables.action_terminals.max(initial=0) + 1) + tables.action_terminals
    same = cells[1:] == cells[:-1]
    competes = np.zeros(len(cells), np.bool_)
    competes[1:] = same
    competes[:-1] |= same
    reduces = competes & (tables.action_values < 0)
    reduced = tables.rule_lhs[~tables.action_values[reduces]]
    followed = np.bincount(tables.goto_symbols, minlength=len(tables.nonterminals))
    pairs = np.unique(np.stack([tables.action_terminals[reduces], reduced]), axis=1)
    return int(np.bincount(pairs[0], followed[pairs[1]]).max(initial=0))


def refuse_ambiguity(tables: ParseTables, limits: GrammarLimits) -> None:
    """Refuse a grammar whose masks would take long.

    Raises:
        LimitError: More than ``max_ambiguity``.
    """
    found = ambiguity(tables)
    if found > limits.max_ambiguity:
        raise LimitError(
            f"up to {found:,} reductions of this grammar compete before one terminal, the limit is "
            f"{limits.max_ambiguity:,}",
            hint="raise `max_ambiguity`, or write fewer rules that can be read in several ways",
            limit="max_ambiguity",
        )
