"""lay_out: parts of a grammar with an indenter -> parts in which line breaks have columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import ByteAutomaton, Grammar
from cdec.compilers.grammars.indentation.columns import Counted, count_columns
from cdec.compilers.grammars.scanner.contexts import Contexts
from cdec.compilers.grammars.soundness.parts import Parts
from cdec.core.grammars.columns import CLOSE_ROLE, COLUMN_ROLE, NOWHERE_ROLE, OPEN_ROLE
from cdec.core.grammars.errors import GrammarUnsupportedError
from cdec.core.grammars.indenter import Indenter


@dataclass(frozen=True, slots=True)
class Indented:
    """What is laid out.

    Attributes:
        parts: Grammar, contexts, scanner and tables over the line breaks of every column.
        same_tree: int32[C] state whose subterminal tree is that of a state; None: its own.
        columns: ``indent_roles``, ``indent_symbols`` and ``state_column`` of the artifact.
    """

    parts: Parts
    same_tree: NDArray[np.int32] | None = None
    columns: Mapping[str, NDArray[np.int32]] = field(default_factory=dict)


def lay_out(parts: Parts, indenter: Indenter) -> Indented:
    """Number the line breaks of every column behind the other terminals.

    Args:
        parts: Of the grammar with its terminals as written.
        indenter: Of the grammar.

    Returns:
        What takes their place. No table names the new terminals: the engine makes of each what the
        indenter would.
    """
    grammar, old = parts.grammar, len(parts.grammar.terminals)
    (newline,) = grammar.named({indenter.NL_type})
    counted = count_columns(
        parts.scanner, newline, old, tab_len=indenter.tab_len, columns=indenter.columns
    )
    added = 2 * indenter.columns + 3
    lines = (grammar.terminals[newline],) * added
    tables = replace(
        parts.tables,
        action_terminals=_behind(parts.tables.action_terminals, old, added),
        access_symbol=_behind(parts.tables.access_symbol, old, added),
    )
    made = Parts(
        replace(grammar, terminals=grammar.terminals + lines),
        _contexts(parts.contexts, added),
        counted.scanner,
        tables,
    )
    return Indented(made, counted.same_tree, _columns(grammar, newline, indenter, counted))


def unread_around(grammar: Grammar, automata: Sequence[ByteAutomaton]) -> GrammarUnsupportedError:
    """Return the error of a terminal that looks beyond its ends, beside an indenter."""
    name = next(
        terminal.name
        for terminal, automaton in zip(grammar.terminals, automata, strict=True)
        if automaton.is_open
    )
    return GrammarUnsupportedError(
        f"terminal {name} looks at what stands around it, which goes with no indenter",
        hint="write it without what it asks of the text before and behind it",
        name=name,
    )


def _behind(terminals: NDArray[np.int32], end: int, added: int) -> NDArray[np.int32]:
    """Return terminals in which the end of the text comes after those that were added."""
    return np.where(terminals == end, end + added, terminals).astype(np.int32)


def _contexts(contexts: Contexts, added: int) -> Contexts:
    """Return contexts: after a line break any may hold, for brackets drop it anywhere."""
    anywhere = tuple(range(len(contexts.terminals)))
    nowhere = np.full(added, -1, np.int32)
    return replace(
        contexts,
        of_terminal=np.concatenate([contexts.of_terminal, nowhere]),
        after=(*contexts.after, *((anywhere,) * added)),
    )


def _columns(
    grammar: Grammar, newline: int, indenter: Indenter, counted: Counted
) -> dict[str, NDArray[np.int32]]:
    """Return what the engine reads of the indenter."""
    roles = np.zeros(len(grammar.terminals), np.int32)
    roles[sorted(grammar.named(indenter.OPEN_PAREN_types))] = OPEN_ROLE
    roles[sorted(grammar.named(indenter.CLOSE_PAREN_types))] = CLOSE_ROLE
    known = COLUMN_ROLE + 2 * np.arange(indenter.columns + 1, dtype=np.int32)
    symbols = [newline]
    for name in (indenter.INDENT_type, indenter.DEDENT_type):
        symbols += [*grammar.named({name}), -1][:1]
    return {
        "indent_roles": np.concatenate([roles, [NOWHERE_ROLE], known, known + 1]).astype(np.int32),
        "indent_symbols": np.array([*symbols, indenter.columns], np.int32),
        "state_column": counted.column,
    }
