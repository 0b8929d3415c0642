"""Indentation: line breaks as terminals that are told apart by the columns behind them.

The scanner counts: a state within a line break is written out for every count: for a line that
began within the text the count itself, and once more for one that was there before the bytes at
hand, as how much more it has become. Subterminal trees need the second kind alone: the first are
the same, shifted. The engine reads the parts so laid out (``native/grammars/indents.h``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.scanner.build import Parts, Scanner, live_rows
from cdec.compilers.grammars.scanner.competition import Contexts
from cdec.compilers.grammars.states import Numbering
from cdec.core.grammars.columns import CLOSE_ROLE, COLUMN_ROLE, NOWHERE_ROLE, OPEN_ROLE
from cdec.core.grammars.errors import GrammarUnsupportedError
from cdec.core.grammars.indenter import Indenter

_LINE, _BLANK, _TAB = 10, 32, 9
_NONE = -1
"""The count before the first line feed."""
_ALL_PLAIN = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Counted:
    """A scanner that counts columns.

    Attributes:
        scanner: Its line breaks are numbered ``first`` for those without a line feed or beyond the
            last column, then one a column, then one a column more.
        column: int32[C] count of states within a line break that know it, else 0.
        same_tree: int32[C] state whose subterminal tree is that of a state.
    """

    scanner: Scanner
    column: NDArray[np.int32]
    same_tree: NDArray[np.int32]


def count_columns(
    scanner: Scanner, newline: int, first: int, *, tab_len: int, columns: int
) -> Counted:
    """Tell line breaks apart by columns.

    Args:
        scanner: With terminals below ``first``. newline: Terminal of line breaks.
        first: Number of the first of ``2 * columns + 3`` new terminals.
        tab_len: Columns of a tab. columns: Most columns.

    Returns:
        The scanner. Cost: states within line breaks x columns.
    """
    return _Counting(scanner, newline, first, tab_len, columns).run()


class _Counting:
    """Follows pairs of state and count; a count above ``columns`` + 1 is one of columns more."""

    def __init__(
        self, scanner: Scanner, newline: int, first: int, tab_len: int, columns: int
    ) -> None:
        self._old, self._newline, self._first = scanner, newline, first
        self._columns = columns
        self._over = columns + 1
        self._byte_class, self._rows = _apart(scanner)
        self._advance = {
            int(self._byte_class[_BLANK]): 1,
            int(self._byte_class[_TAB]): tab_len,
        }
        self._line = int(self._byte_class[_LINE])
        self._counts = _ends_in(scanner, newline)
        self._number = Numbering((state, _NONE) for state in range(len(scanner.live_row)))
        self._pairs = self._number.keys

    def run(self) -> Counted:
        met, delta = set[int](), list[NDArray[np.int32]]()
        pending = self._old.context_start.tolist()
        rows: dict[int, NDArray[np.int32]] = {}
        while pending:
            number = pending.pop()
            if number in met:
                continue
            met.add(number)
            rows[number] = self._row(number)
            state, count = self._pairs[number]
            if 0 <= count <= self._columns:
                pending.append(self._number((state, self._over + 1)))
            pending += [after for after in np.unique(rows[number]).tolist() if after >= 0]
        dead = np.full(self._rows.shape[1], -1, np.int32)
        delta = [rows.get(number, dead) for number in range(len(self._pairs))]
        return self._counted(np.array(delta), met)

    def _row(self, number: int) -> NDArray[np.int32]:
        """Return the states after each class of bytes."""
        state, count = self._pairs[number]
        row: NDArray[np.int32] = self._rows[state].copy()
        for k in np.flatnonzero(row >= 0).tolist():
            after = int(row[k])
            if self._counts[after]:
                row[k] = self._number((after, self._counted_on(count, k)))
        return row

    def _counted_on(self, count: int, k: int) -> int:
        """Return the count after a byte of a class."""
        if k == self._line:
            return 0
        if count in (_NONE, self._over):
            return count
        more = count + self._advance.get(k, 0)
        is_known = count <= self._columns
        last = self._columns if is_known else self._over + 1 + self._columns
        return more if more <= last else self._over

    def _counted(self, delta: NDArray[np.int32], met: set[int]) -> Counted:
        """Lay out the scanner of all pairs."""
        old, matches, offsets = self._old, list[int](), [0]
        for state, count in self._pairs:
            low, high = old.match_offsets[state], old.match_offsets[state + 1]
            for terminal in old.match_terminals[low:high].tolist():
                matches.append(self._variant(count) if terminal == self._newline else terminal)
            matches[offsets[-1] :] = sorted(matches[offsets[-1] :])
            offsets.append(len(matches))
        match_offsets, flat = np.array(offsets, np.int32), np.array(matches, np.int32)
        live = live_rows(delta, match_offsets, flat, self._first + 2 * self._columns + 3)
        column = np.array(
            [count if 0 < count <= self._columns else 0 for _, count in self._pairs], np.int32
        )
        return Counted(
            Scanner(self._byte_class, delta, match_offsets, flat, *live, old.context_start),
            column,
            self._same_trees(met),
        )

    def _variant(self, count: int) -> int:
        """Return the number of a line break that ends at a count."""
        if count in (_NONE, self._over):
            return self._first
        return self._first + 1 + count - (count > self._over)

    def _same_trees(self, met: set[int]) -> NDArray[np.int32]:
        """Return for each pair the one whose tree it has; that of what is never met is anyone's."""
        same = np.arange(len(self._pairs), dtype=np.int32)
        for number, (state, count) in enumerate(self._pairs):
            if number not in met:
                same[number] = self._old.context_start[0]
            elif count not in (_NONE, self._over):
                # Those of columns more are met within trees alone, and need none.
                same[number] = self._number((state, self._over + 1))
        return same


def _apart(scanner: Scanner) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return byte_class and delta in which the bytes that count have classes of their own."""
    byte_class, delta = scanner.byte_class.copy(), np.asarray(scanner.delta)
    for byte in (_LINE, _BLANK, _TAB):
        old = byte_class[byte]
        if (byte_class == old).sum() > 1:
            byte_class[byte] = delta.shape[1]
            delta = np.concatenate([delta, delta[:, old : old + 1]], axis=1)
    return byte_class, delta


def _ends_in(scanner: Scanner, terminal: int) -> NDArray[np.bool_]:
    """Say of which states a terminal ends on entering, or can still end."""
    rows = np.repeat(np.arange(len(scanner.live_offsets) - 1), np.diff(scanner.live_offsets))
    alive = np.zeros(len(scanner.live_offsets) - 1, np.bool_)
    alive[rows[scanner.live_terminals == terminal]] = True
    owners = np.repeat(np.arange(len(scanner.live_row)), np.diff(scanner.match_offsets))
    found = alive[scanner.live_row]
    found[owners[scanner.match_terminals == terminal]] = True
    return found


@dataclass(frozen=True, slots=True)
class Indented:
    """Parts of a grammar with an indenter, laid out.

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
