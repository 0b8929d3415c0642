"""Scanner, tables and contexts of a grammar whose terminals look around."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, GrammarLimits
from cdec.compilers.grammars.lookaround.rows import Boundary, End, Row, Rows
from cdec.compilers.grammars.lookaround.tables import Ahead, Variants, split_tables
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.scanner.build import Scanner, smallest
from cdec.compilers.grammars.scanner.competition import Contexts, Keywords, find_keywords
from cdec.compilers.grammars.states import Construction, Numbering
from cdec.core.errors import LimitError


class Refined(NamedTuple):
    """Parts of a grammar with terminals and LR states apart by boundary.

    ``plain``: int32[N] the state that acts like an LR state at the boundary that says nothing; -1
    where it has read something ignored to come to another.
    """

    grammar: Grammar
    tables: ParseTables
    contexts: Contexts
    scanner: Scanner
    plain: NDArray[np.int32]


def refine(
    grammar: Grammar,
    automata: Sequence[ByteAutomaton],
    tables: ParseTables,
    contexts: Contexts,
    limits: GrammarLimits,
) -> Refined:
    """Tell terminals apart by the boundary behind them, and LR states by the one they are met at.

    What a terminal asks of the text around it is part of the scanner's states. A boundary outlives
    the terminal by being part of the terminal's number, and so of the LR state that shifting it
    leads to, in whose context the next terminal begins.

    Args:
        grammar: For ``contextual`` or ``basic``.
        automata: One a terminal; some are open.
        tables: LALR(1) tables. contexts: Of them and the lexer.
        limits: max_states bounds the scanner's states before equal ones are merged.

    Returns:
        Parts that accept what lark's lexer and parser accept.

    Raises:
        LimitError: More than max_states states.
    """
    rows = Rows(grammar, automata, _keywords(grammar, automata), limits)
    scanner = _Scanner(rows, grammar, contexts, limits)
    variants = scanner.explore(tables)
    names = grammar.terminals + tuple(grammar.terminals[number] for number, _ in variants.ends)
    finished = scanner.finish(len(names), variants)
    ahead = Ahead(scanner.may_end, _live(finished))
    split, numbered, plain = split_tables(tables, grammar, contexts, variants, ahead)
    return Refined(replace(grammar, terminals=names), split, numbered, finished, plain)


def _live(scanner: Scanner) -> list[frozenset[int]]:
    """Return the terminals that can end after each context's start."""
    offsets, terminals = scanner.live_offsets.tolist(), scanner.live_terminals.tolist()
    rows = scanner.live_row[scanner.context_start].tolist()
    return [frozenset(terminals[offsets[row] : offsets[row + 1]]) for row in rows]


class _Scanner:
    """Follows rows from every pair of context and boundary; numbers what ends."""

    def __init__(
        self, rows: Rows, grammar: Grammar, contexts: Contexts, limits: GrammarLimits
    ) -> None:
        self._rows = rows
        self._grammar = grammar
        self._contexts = contexts
        self._limits = limits
        self._boundary = Numbering[Boundary]()
        self._known = self._boundary.keys
        self._starts: dict[tuple[int, int], tuple[int, int]] = {}
        self._numbers: dict[tuple[Row, tuple[End, ...]], int] = {}
        self._todo: list[Row] = []
        self._ends: list[tuple[End, ...]] = []
        self._delta: list[NDArray[np.int32]] = []
        self._done = 0

    def explore(self, tables: ParseTables) -> Variants:
        """Follow every boundary to where it can lead, and return what ends with which."""
        first = self._boundary(self._rows.first)
        variants = Variants(self._boundary(self._rows.plain), first)
        variants.returns = self._grammar.indenter is not None
        variants.add(0, first)
        while variants.waiting:
            state, boundary = variants.waiting.pop()
            context = int(self._contexts.of_state[state])
            variants.starts[state, boundary] = self._start(context, boundary)
            if variants.waiting:
                continue
            for origin, end in self._follow():
                variants.end(tables, self._grammar.ignored, origin, end, self._boundary(end.after))
        return variants

    def finish(self, num_terminals: int, variants: Variants) -> Scanner:
        """Return the smallest scanner; contexts in the order in which they were met."""
        matches: list[list[int]] = []
        for ends in self._ends:
            numbers = [variants.number(end) for end in ends]
            # subtle: one terminal alone is certain; what is not certain never stands alone.
            is_certain = len(ends) == 1 and ends[0].after.is_settled
            matches.append(numbers * 2 if len(numbers) == 1 and not is_certain else numbers)
        offsets = np.cumsum([0, *map(len, matches)]).astype(np.int64)
        flat = np.array([number for row in matches for number in row], np.int32)
        starts = [state for _, state in self._starts.values()]
        completing = Construction(offsets, flat, np.array(self._delta, np.int32))
        return smallest(self._rows.byte_class, completing, starts, num_terminals)

    def may_end(self, boundary: int) -> bool:
        """Say whether a text may end at a boundary."""
        known = self._known[boundary]
        return self._rows.looking.may_end(known.wants, known.history)

    def _start(self, context: int, boundary: int) -> int:
        """Return the number of the scanner's context for a context of the parser and a boundary."""
        if (context, boundary) not in self._starts:
            terminals = self._contexts.terminals[context]
            row = self._rows.begin(terminals, self._known[boundary], boundary)
            self._starts[context, boundary] = len(self._starts), self._state(row, ())
        return self._starts[context, boundary][0]

    def _state(self, row: Row, ends: tuple[End, ...]) -> int:
        key = row, ends
        number = self._numbers.setdefault(key, len(self._todo))
        if number == len(self._todo):
            self._todo.append(row)
            self._ends.append(ends)
            if number >= self._limits.max_states:
                raise LimitError(
                    f"the scanner has more than {self._limits.max_states} states",
                    hint="look less far around, or raise `max_states`",
                    limit="max_states",
                )
        return number

    def _follow(self) -> list[tuple[int, End]]:
        """Compute the successors of every new state; return what ended, and with which origin."""
        found: dict[tuple[int, End], None] = {}
        classes = int(self._rows.byte_class.max()) + 1
        while self._done < len(self._todo):
            row = self._todo[self._done]
            targets = np.full(classes, -1, np.int32)
            for kinds, after, ends in self._rows.after(row):
                numbered = tuple(
                    end._replace(origin=row.origin if end.terminal in self._grammar.ignored else -1)
                    for end in dict.fromkeys(ends)
                )
                found.update(((row.origin, end), None) for end in numbered)
                targets[kinds] = self._state(after, numbered)
            self._delta.append(targets)
            self._done += 1
        return list(found)


def _keywords(grammar: Grammar, automata: Sequence[ByteAutomaton]) -> Keywords:
    """Return the keywords; an expression that looks around is asked for each literal alone."""
    nothing = ByteAutomaton(np.full((1, 256), -1, np.int32), [False])
    found = find_keywords(grammar.terminals, [nothing if a.is_open else a for a in automata])
    retyped, embedding = dict(found.retyped), dict(found.embedding)
    for number, automaton in enumerate(automata):
        expression = grammar.terminals[number]
        if not automaton.is_open or expression.is_string:
            continue
        for other, literal in enumerate(grammar.terminals):
            if not literal.is_string or literal.priority != expression.priority:
                continue
            match = re.match(expression.pattern, literal.value)
            if match is not None and match.end() == len(literal.value):
                retyped[other] = tuple(sorted((*retyped.get(other, ()), number)))
                if literal.flags <= expression.flags:
                    embedding[other] = tuple(sorted((*embedding.get(other, ()), number)))
    return Keywords(retyped, embedding)
