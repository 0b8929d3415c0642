"""LR tables in which terminals, and the states after them, are apart by boundary.

A state that shifting a terminal leads to has a copy for every boundary that can stand there; copies
act alike, and differ in the context in which the next terminal begins. What a reduction leads to
needs none: the terminal behind it has been read by then.

An ignored terminal leaves the stack as it is, so where it changes the boundary the parser reads it
after all: it is shifted, and at once reduced, with the symbol before it, to that symbol behind the
new boundary: ``X' -> X I``. No look-ahead set changes by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar, Rule
from cdec.compilers.grammars.lookaround.rows import End
from cdec.compilers.grammars.parser.tables import ParseTables, rows_of, with_rows
from cdec.compilers.grammars.scanner.competition import Contexts

Pair = tuple[int, int]
"""An LR state, or a terminal, and the number of a boundary."""


class Ahead(NamedTuple):
    """Continuations behind a boundary.

    Attributes:
        may_end: Says of a boundary whether the text may end there.
        live: Of each start of the scanner: terminals that can end after it.
    """

    may_end: Callable[[int], bool]
    live: Sequence[frozenset[int]]


@dataclass(slots=True)
class Variants:
    """Boundaries by where they can stand, while they are being found.

    Attributes:
        plain, first: The boundary that says nothing; that at the start of a text.
        starts: LR states at boundaries -> number of the scanner's context.
        waiting: Those that have none yet.
        ends: Terminals with a boundary, which get numbers of their own behind all others.
        dropped: For each boundary what ignored terminals may change it to.
        returns: Whether something may be dropped that leaves the plain boundary, as line breaks
            within brackets are by an indenter.
    """

    plain: int
    first: int
    starts: dict[Pair, int] = field(default_factory=dict)
    waiting: list[Pair] = field(default_factory=list)
    ends: list[Pair] = field(default_factory=list)
    dropped: dict[int, dict[Pair, None]] = field(default_factory=dict)
    returns: bool = False
    _met: set[Pair] = field(default_factory=set)
    _numbers: dict[End, int] = field(default_factory=dict)
    _places: dict[Pair, int] = field(default_factory=dict)

    def add(self, state: int, boundary: int) -> None:
        """Note that an LR state is met at a boundary, and behind what is ignored there."""
        pending = [boundary, self.plain] if self.returns else [boundary]
        while pending:
            pair = state, pending.pop()
            if pair not in self._met:
                self._met.add(pair)
                self.waiting.append(pair)
                pending += (after for _, after in self.dropped.get(pair[1], ()))

    def end(
        self, tables: ParseTables, ignored: frozenset[int], origin: int, end: End, after: int
    ) -> None:
        """Note that a terminal ends with a boundary; ``origin`` is where an ignored one began."""
        if end in self._numbers:
            return
        is_ignored = end.terminal in ignored
        if after == (origin if is_ignored else self.plain):
            self._numbers[end] = end.terminal
        else:
            variant = end.terminal, after
            place = self._places.setdefault(variant, len(self.ends))
            if place == len(self.ends):
                self.ends.append(variant)
            self._numbers[end] = len(tables.contexts_after) + place
        if not is_ignored:
            for state in tables.contexts_after[end.terminal].tolist():
                self.add(state, after)
        elif after != origin:
            self.dropped.setdefault(origin, {})[end.terminal, after] = None
            for state, boundary in list(self._met):
                if boundary == origin:
                    self.add(state, after)

    def number(self, end: End) -> int:
        """Return the number of the terminal that ends so."""
        return self._numbers[end]


def split_tables(
    tables: ParseTables,
    grammar: Grammar,
    contexts: Contexts,
    variants: Variants,
    ahead: Ahead,
) -> tuple[ParseTables, Contexts, NDArray[np.int32]]:
    """Return the tables over the variants, the contexts of their states, and ``Refined.plain``.

    Args:
        tables: LALR(1). grammar: Its grammar. contexts: Of the tables.
        variants: All that can be met.
        ahead: What can come; a shift to where nothing can is left out.
    """
    return _Split(tables, grammar, contexts, variants, ahead).run()


class _Split:
    """Lays out the states: the old ones, their copies, and those that have read what is ignored."""

    def __init__(
        self,
        tables: ParseTables,
        grammar: Grammar,
        contexts: Contexts,
        variants: Variants,
        ahead: Ahead,
    ) -> None:
        self._tables, self._grammar, self._contexts = tables, grammar, contexts
        self._variants, self._may_end = variants, ahead.may_end
        self._old_end = len(grammar.terminals)
        self._end = self._old_end + len(variants.ends)
        self._of: dict[int, list[Pair]] = {}
        for place, (terminal, after) in enumerate(variants.ends, self._old_end):
            self._of.setdefault(terminal, []).append((place, after))
        self._copies = [p for p in variants.starts if p[0] == 0 or p[1] != variants.plain]
        self._number = {(s, variants.plain): s for s in range(1, tables.num_states)}
        self._number |= {pair: tables.num_states + i for i, pair in enumerate(self._copies)}
        self._symbols: dict[Pair, int] = {}
        self._rules: list[Rule] = []
        self._rule_numbers: dict[tuple[Pair, int], int] = {}
        self._readers: dict[tuple[Pair, bool], int] = {}
        self._rows: list[list[Pair]] = []
        self._old_rows = rows_of(
            tables.action_offsets, tables.action_terminals, tables.action_values
        )
        self._old_gotos = rows_of(tables.goto_offsets, tables.goto_symbols, tables.goto_states)
        self._dead = {pair for pair in self._copies if not self._leads_on(pair, ahead)}

    def _leads_on(self, pair: Pair, ahead: Ahead) -> bool:
        """Say whether the text may end at a pair, or some terminal can end that it takes."""
        state, boundary = pair
        taken = {terminal for terminal, _ in self._old_rows[state]}
        if self._old_end in taken and ahead.may_end(boundary):
            return True
        taken |= self._grammar.ignored
        taken |= {number for t in list(taken) for number, _ in self._of.get(t, ())}
        return not taken.isdisjoint(ahead.live[self._variants.starts[pair]])

    def run(self) -> tuple[ParseTables, Contexts, NDArray[np.int32]]:
        variants, states = self._variants, range(self._tables.num_states)
        met = [(0, variants.first), *((state, variants.plain) for state in states[1:])]
        for state, boundary in [*met, *self._copies]:
            is_old = len(self._rows) < len(states)
            ends = (is_old and state > 0) or self._may_end(boundary)
            row = self._expanded(state, ends)
            if (state, boundary) in variants.starts:
                row += self._ignored(state, boundary, is_old)
            self._rows.append(sorted(row))
        for (pair, _), rule in self._reductions():
            terminals = {terminal for terminal, _ in self._rows[self._number[pair]]}
            self._rows.append([(terminal, ~rule) for terminal in sorted(terminals)])
        return self._parse_tables(), self._new_contexts(), self._plain()

    def _plain(self) -> NDArray[np.int32]:
        """Return the state at the plain boundary of each state, -1 of some that read on."""
        old, plain = self._tables.num_states, self._variants.plain
        found = [*range(old), *(state for state, _ in self._copies)]
        for (_, boundary), _ in self._readers:
            found.append(len(found) if boundary == plain else -1)
        return np.array(found, np.int32)

    def _expanded(self, state: int, ends: bool) -> list[Pair]:
        row: list[Pair] = []
        for terminal, value in self._old_rows[state]:
            if terminal == self._old_end:
                row += [(self._end, value)] * ends
                continue
            row.append((terminal, value))
            for number, after in self._of.get(terminal, ()):
                target = self._number.get((value, after)) if value >= 0 else value
                if target is not None and (value < 0 or (value, after) not in self._dead):
                    row.append((number, target))
        return row

    def _ignored(self, state: int, boundary: int, is_old: bool) -> list[Pair]:
        """Return the shifts of ignored terminals that change the boundary."""
        row = []
        for variant in self._variants.dropped.get(boundary, ()):
            number = self._old_end + self._variants.ends.index(variant)
            pair, is_first = (state, variant[1]), is_old and state == 0
            if pair in self._dead:
                continue
            reader = self._readers.setdefault((pair, is_first), len(self._readers))
            row.append((number, len(self._number_base) + reader))
        return row

    @property
    def _number_base(self) -> range:
        return range(self._tables.num_states + len(self._copies))

    def _reductions(self) -> Iterable[tuple[tuple[Pair, bool], int]]:
        """Return the rule by which each state that has read something ignored goes on."""
        for (pair, is_first), _ in list(self._readers.items()):
            symbol = int(self._tables.access_symbol[pair[0]])
            key = (symbol, pair[1]), 1 if is_first else 2
            if key not in self._rule_numbers:
                self._rule_numbers[key] = len(self._tables.rules) + len(self._rules)
                lhs = self._symbols.setdefault(
                    key[0], len(self._tables.nonterminals) + len(self._symbols)
                )
                self._rules.append(Rule(lhs, (max(symbol, 0),) * key[1]))
            yield (pair, is_first), self._rule_numbers[key]

    def _gotos(self) -> list[list[Pair]]:
        """Return the gotos of all states: of the old ones, copies as them, then none."""
        by_terminal: dict[int, list[Pair]] = {}
        for (symbol, boundary), lhs in self._symbols.items():
            by_terminal.setdefault(symbol, []).append((lhs, boundary))
        rows = []
        for state, old in enumerate(self._old_gotos):
            row = list(old)
            for terminal, value in self._old_rows[state]:
                if value >= 0:
                    for lhs, boundary in by_terminal.get(terminal, ()):
                        if (value, boundary) in self._number:
                            row.append((lhs, self._number[value, boundary]))
            if state == 0:
                row += [
                    (lhs, self._number[0, boundary])
                    for lhs, boundary in by_terminal.get(int(self._tables.access_symbol[0]), ())
                ]
            rows.append(sorted(set(row)))
        rows += [rows[state] for state, _ in self._copies]
        return rows + [[] for _ in self._readers]

    def _parse_tables(self) -> ParseTables:
        old, gotos = self._tables, self._gotos()
        items = rows_of(old.item_offsets, old.item_rules, old.item_dots)
        items += [items[state] for state, _ in self._copies]
        numbers = [rule for _, rule in self._reductions()]
        every = (*old.rules, *self._rules)
        items += [[(number, len(every[number].rhs))] for number in numbers]
        origin = [s for s, _ in self._copies] + [pair[0] for pair, _ in self._readers]
        accepts = [frozenset(t for t, _ in row if t != self._end) for row in self._rows]
        return replace(
            with_rows(old, self._rows, gotos, items, every),
            nonterminals=(*old.nonterminals, *(f"__behind_{n}" for n in range(len(self._symbols)))),
            accepts=accepts,
            competing=accepts,
            contexts_after=[
                *old.contexts_after,
                *([np.empty(0, np.int32)] * len(self._variants.ends)),
            ],
            access_symbol=np.concatenate([old.access_symbol, old.access_symbol[origin]]),
        )

    def _new_contexts(self) -> Contexts:
        variants, starts = self._variants, self._variants.starts
        pairs = [
            (0, variants.first),
            *((s, variants.plain) for s in range(1, self._tables.num_states)),
        ]
        pairs += [*self._copies, *(pair for pair, _ in self._readers)]
        of_state = np.array([starts.get(pair, 0) for pair in pairs], np.int32)
        by_start = {number: pair for pair, number in starts.items()}
        terminals = [self._contexts.terminals[0]] * len(by_start)
        for number, (state, _) in by_start.items():
            terminals[number] = self._contexts.terminals[int(self._contexts.of_state[state])]
        after: list[tuple[int, ...]] = []
        everywhere = tuple(range(len(terminals)))
        for terminal in range(self._old_end):
            is_ignored = terminal in self._grammar.ignored
            after.append(everywhere if is_ignored else self._after(terminal, variants.plain))
        for terminal, boundary in variants.ends:
            after.append(self._after(terminal, boundary))
        nowhere = np.full(self._end, -1, np.int32)
        return Contexts(tuple(terminals), of_state, nowhere, tuple(after))

    def _after(self, terminal: int, boundary: int) -> tuple[int, ...]:
        """Return the contexts that may hold after a terminal with a boundary."""
        starts: dict[Pair, int] = self._variants.starts
        if terminal in self._grammar.ignored:
            return tuple(sorted({n for (_, at), n in starts.items() if at == boundary}))
        states = self._tables.contexts_after[terminal].tolist()
        return tuple(sorted({starts[s, boundary] for s in states if (s, boundary) in starts}))
