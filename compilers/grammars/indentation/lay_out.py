"""lay_out: parts of a grammar with an indenter -> parts in which line breaks have columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar
from cdec.compilers.grammars.indentation.columns import Counted, count_columns
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.scanner.contexts import Contexts
from cdec.compilers.grammars.soundness.parts import Parts
from cdec.core.grammars.columns import CLOSE_ROLE, COLUMN_ROLE, NOWHERE_ROLE, OPEN_ROLE
from cdec.core.grammars.errors import GrammarUnsupportedError
from cdec.core.grammars.indenter import Indenter

_ALL_PLAIN = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Indented:
    """What is laid out.

    Attributes:
        parts: Grammar, contexts, scanner and tables over the line breaks of every column.
        same_tree: int32[C] state whose subterminal tree is that of a state; None: its own.
        columns: ``indent_roles``, ``indent_symbols``, ``state_column`` and ``lr_plain`` of the
            artifact.
    """

    parts: Parts
    same_tree: NDArray[np.int32] | None = None
    columns: Mapping[str, NDArray[np.int32]] = field(default_factory=dict)


def lay_out(parts: Parts, indenter: Indenter, plain: NDArray[np.int32] = _ALL_PLAIN) -> Indented:
    """Number the line breaks of every column behind the other terminals.

    Args:
        parts: Of the grammar with its terminals as written.
        indenter: Of the grammar.
        plain: As in ``Refined``, where terminals look around.

    Returns:
        What takes their place. No table names the new terminals: the engine makes of each what the
        indenter would.

    Raises:
        GrammarUnsupportedError: What a line break ends with decides how the next terminal begins.
    """
    grammar, old = parts.grammar, len(parts.grammar.terminals)
    named = grammar.named({indenter.NL_type})
    _require_apart(grammar, named, plain)
    newline = min(named)
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
    columns = _columns(grammar, newline, indenter, counted)
    return Indented(made, counted.same_tree, columns | {"lr_plain": plain})


def follow_blocks(tables: ParseTables, grammar: Grammar, indenter: Indenter) -> ParseTables:
    """Return tables in which a line break leads where the blocks behind it lead as well.

    So ``refine`` finds what can begin there.
    """
    numbers = grammar.named({indenter.NL_type, *indenter.declared})
    after = np.unique(np.concatenate([tables.contexts_after[number] for number in sorted(numbers)]))
    (newline,) = grammar.named({indenter.NL_type})
    listed = list(tables.contexts_after)
    listed[newline] = after.astype(np.int32)
    return replace(tables, contexts_after=listed)


def _require_apart(grammar: Grammar, newline: frozenset[int], plain: NDArray[np.int32]) -> None:
    """Refuse terminals that look around at line breaks: how they end would have to be kept."""
    if len(newline) == 1 and (plain >= 0).all():
        return
    name = grammar.terminals[min(newline)].name
    raise GrammarUnsupportedError(
        f"a terminal looks at what stands before it, behind {name} or behind what is ignored, "
        "which goes with no indenter",
        hint="write it without the look-behind, ^, $ or \\b at its start",
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
