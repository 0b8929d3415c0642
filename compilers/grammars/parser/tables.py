"""Parse tables: LALR(1) as lark resolves it, or every action for the generalised parser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.analysis.nullable import closed_nonterminals, used_rules
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule
from cdec.compilers.grammars.parser.conflicts import Conflict, bits, conflict_error, resolve
from cdec.compilers.grammars.parser.epsilon_free import epsilon_free
from cdec.compilers.grammars.parser.lalr import lookaheads
from cdec.compilers.grammars.parser.lr0 import Automaton
from cdec.core.errors import LimitError

_ACTIONS_PER_STATE = 64
"""Table entries allowed for each state that ``max_states`` allows."""


@dataclass(frozen=True, slots=True)
class ParseTables:
    """Parse tables in the form of ``cdec.core.grammars.columns``, and what later stages ask.

    N LR states, R rules, T terminals; terminal T is the end of the text. The last state is the one
    after the end of the text; it has no actions.

    Attributes:
        num_states: N.
        action_offsets: int32[N + 1].
        action_terminals: int32, ascending within a state.
        action_values: int32, state to shift to, or ~rule to reduce by; of one terminal's actions
            the shift comes first, then rules ascending.
        goto_offsets: int32[N + 1].
        goto_symbols: int32, nonterminals, ascending within a state.
        goto_states: int32.
        rule_lhs: int32[R].
        rule_length: int32[R].
        item_offsets: int32[N + 1], kernel items; those of the added root rule are left out.
        item_rules: int32.
        item_dots: int32.
        rules: What the R numbers refer to; without empty rules in the generalised form.
        nonterminals: Names; the generalised form may have more than the grammar.
        accepts: Per state: terminals with an action, the end of the text left out.
        competing: Per state: those, and terminals that lark would shift to no avail.
        contexts_after: Per terminal: int32 LR states reached by shifting it, ascending.
        access_symbol: int32[N], the symbol shifted or reduced to on the way in (T for the last
            state); ``NO_SYMBOL`` for state 0.
        start_nullable: The generalised form accepts the empty text by an action of state 0.
        resolved: Shift/reduce conflicts in which the shift was taken, as lark does.
        is_whole: Every rule derives some sequence of terminals, and no action was left out.
    """

    num_states: int
    action_offsets: NDArray[np.int32]
    action_terminals: NDArray[np.int32]
    action_values: NDArray[np.int32]
    goto_offsets: NDArray[np.int32]
    goto_symbols: NDArray[np.int32]
    goto_states: NDArray[np.int32]
    rule_lhs: NDArray[np.int32]
    rule_length: NDArray[np.int32]
    item_offsets: NDArray[np.int32]
    item_rules: NDArray[np.int32]
    item_dots: NDArray[np.int32]
    rules: tuple[Rule, ...]
    nonterminals: tuple[str, ...]
    accepts: list[frozenset[int]]
    competing: list[frozenset[int]]
    contexts_after: list[NDArray[np.int32]]
    access_symbol: NDArray[np.int32]
    start_nullable: bool
    resolved: tuple[Conflict, ...]
    is_whole: bool


def build_tables(
    grammar: Grammar,
    *,
    generalised: bool,
    limits: GrammarLimits | None = None,
    nullable_terminals: frozenset[int] = frozenset(),
    barren_terminals: frozenset[int] = frozenset(),
) -> ParseTables:
    """Build the parse tables of a grammar.

    Args:
        grammar: The grammar; unproductive rules removed if generalised. Else they count as in
            lark's tables, but for shifts that nothing else asks for.
        generalised: Keep every action, over rules made epsilon-free; else LALR(1) with conflicts
            resolved as lark resolves them.
        limits: ``max_states`` bounds the LR states, and 64 times that the actions.
        nullable_terminals: Terminals that can match the empty text: generalised only.
        barren_terminals: Terminals that can match no text, or only the empty one: generalised
            only.

    Returns:
        The tables.

    Raises:
        GrammarConflictError: Not generalised, and two rules of equal priority can end at the same
            place before the same terminal.
        LimitError: ``max_states``.
    """
    limits = limits or GrammarLimits()
    start_nullable = False
    if generalised:
        rules, names, start_nullable = epsilon_free(grammar, nullable_terminals, barren_terminals)
    else:
        rules, names = used_rules(grammar.rules, grammar.start), grammar.nonterminals
    root = Rule(len(names), (~grammar.start,))
    automaton = Automaton((*rules, root), limits.max_states - 1)
    end = len(grammar.terminals)
    ahead = lookaheads(automaton, end, as_lark=not generalised)
    builder = _TableBuilder(grammar, automaton, rules, end, limits)
    for state, reductions in enumerate(ahead):
        builder.add_state(state, reductions, generalised, start_nullable)
    builder.refuse_conflicts()
    return builder.finish(names, start_nullable)


class _TableBuilder:
    """Collects the actions of one state after another."""

    def __init__(
        self,
        grammar: Grammar,
        automaton: Automaton,
        rules: tuple[Rule, ...],
        end: int,
        limits: GrammarLimits,
    ) -> None:
        self._grammar = grammar
        self._automaton = automaton
        self._rules = rules
        self._end = end
        self._accepting = len(automaton.kernels)
        self._after_start = automaton.transitions[0][~grammar.start]
        self._max_actions = _ACTIONS_PER_STATE * limits.max_states
        self._num_actions = 0
        self._terminals: list[NDArray[np.int32]] = []
        self._values: list[NDArray[np.int32]] = []
        self._accepts: list[frozenset[int]] = []
        self._competing: list[frozenset[int]] = []
        self._conflicts: list[Conflict] = []
        self._bits: dict[int, NDArray[np.int32]] = {}
        self._sets: dict[int, frozenset[int]] = {}
        productive = closed_nonterminals(rules, None)
        barren = [any(s < 0 and ~s not in productive for s in rule.rhs) for rule in rules]
        self._barren = [*barren, False] if any(barren) else None
        self._is_whole = self._barren is None

    def add_state(
        self, state: int, reductions: dict[int, int], generalised: bool, start_nullable: bool
    ) -> None:
        """Add the actions of the next state."""
        leaving = self._automaton.transitions[state]
        shifts = {symbol: target for symbol, target in leaving.items() if symbol >= 0}
        # The end of the text is shifted where the start symbol stands alone on the stack: lark
        # accepts as soon as it gets there, so the shift comes before any reduction.
        if state == self._after_start or (start_nullable and state == 0):
            shifts[self._end] = self._accepting
        shifted = sum(1 << symbol for symbol in shifts)
        if not generalised:
            kept, conflicts = resolve(state, shifted, reductions, self._rules)
            self._is_whole = self._is_whole and kept == reductions
            self._conflicts.extend(conflicts)
            reductions = kept
        ordered = sorted(shifts if self._barren is None else self._fruitful(state, shifts))
        terminals = [np.array(ordered, dtype=np.int32)]
        values = [np.array([shifts[symbol] for symbol in ordered], dtype=np.int32)]
        actions = sum(1 << symbol for symbol in ordered)
        for rule, before in sorted(reductions.items()):
            terminals.append(self._bits_of(before))
            values.append(np.full(terminals[-1].size, ~rule, dtype=np.int32))
            actions |= before
        self._add_actions(terminals, values)
        self._accepts.append(self._set_of(actions & ~(1 << self._end)))
        self._competing.append(self._set_of((actions | shifted) & ~(1 << self._end)))

    def _fruitful(self, state: int, shifts: Iterable[int]) -> list[int]:
        """Return the terminals whose shifts some rule that can be completed asks for.

        Lark makes the other shifts as well, but no text that goes that way is in the language.
        """
        items, barren = self._automaton.items, self._barren
        rules = items.rule_of
        kernel = self._automaton.kernels[state]
        ready = [items.symbols[item] for item in kernel if not (barren and barren[rules[item]])]
        wanted = {self._end}
        while ready:
            symbol = ready.pop()
            if symbol in wanted:
                continue
            wanted.add(symbol)
            for rule in items.by_lhs.get(~symbol, ()) if symbol < 0 else ():
                if not (barren and barren[rule]):
                    ready.append(items.symbols[items.first[rule]])
        return [symbol for symbol in shifts if symbol in wanted]

    def _add_actions(
        self, terminals: list[NDArray[np.int32]], values: list[NDArray[np.int32]]
    ) -> None:
        parts = [number for number, part in enumerate(terminals) if part.size]
        if len(parts) == 1:
            self._terminals.append(terminals[parts[0]])
            self._values.append(values[parts[0]])
        else:
            together = np.concatenate(terminals)
            order = np.argsort(together, kind="stable")
            self._terminals.append(together[order])
            self._values.append(np.concatenate(values)[order])
        self._num_actions += self._terminals[-1].size
        if self._num_actions > self._max_actions:
            raise LimitError(
                f"the parse table of this grammar has more than {self._max_actions} actions",
                hint="raise `max_states`, or write long lists of alternatives as one terminal",
                limit="max_states",
            )

    def _bits_of(self, numbers: int) -> NDArray[np.int32]:
        if numbers not in self._bits:
            self._bits[numbers] = np.array(bits(numbers), dtype=np.int32)
        return self._bits[numbers]

    def _set_of(self, numbers: int) -> frozenset[int]:
        if numbers not in self._sets:
            self._sets[numbers] = frozenset(self._bits_of(numbers).tolist())
        return self._sets[numbers]

    def refuse_conflicts(self) -> None:
        """Raise the error for conflicts that have no resolution."""
        undecided = [conflict for conflict in self._conflicts if not conflict.shift]
        if undecided:
            items = self._kernel_items(undecided[0].state)
            raise conflict_error(self._grammar, self._rules, undecided, items)

    def _kernel_items(self, state: int) -> list[tuple[int, int]]:
        """Return (rule, dot) of a state's kernel, the root rule left out."""
        items = self._automaton.items
        found = [
            (items.rule_of[item], item - items.first[items.rule_of[item]])
            for item in self._automaton.kernels[state]
        ]
        return [(rule, dot) for rule, dot in found if rule < len(self._rules)]

    def finish(self, names: tuple[str, ...], start_nullable: bool) -> ParseTables:
        """Return the tables."""
        nothing = np.zeros(0, dtype=np.int32)
        self._terminals.append(nothing)
        self._values.append(nothing)
        self._accepts.append(frozenset())
        self._competing.append(frozenset())
        gotos = [
            sorted((~symbol, target) for symbol, target in leaving.items() if symbol < 0)
            for leaving in self._automaton.transitions
        ] + [[]]
        kernels = [self._kernel_items(state) for state in range(self._accepting)] + [[]]
        goto_offsets, goto_symbols, goto_states = _ragged_pairs(gotos)
        item_offsets, item_rules, item_dots = _ragged_pairs(kernels)
        access = np.array([*self._automaton.access, self._end], dtype=np.int32)
        order = np.argsort(access, kind="stable").astype(np.int32)
        edges = np.searchsorted(access[order], np.arange(self._end + 1))
        return ParseTables(
            num_states=self._accepting + 1,
            action_offsets=_offsets([part.size for part in self._terminals]),
            action_terminals=np.concatenate(self._terminals),
            action_values=np.concatenate(self._values),
            goto_offsets=goto_offsets,
            goto_symbols=goto_symbols,
            goto_states=goto_states,
            rule_lhs=np.array([rule.lhs for rule in self._rules], dtype=np.int32),
            rule_length=np.array([len(rule.rhs) for rule in self._rules], dtype=np.int32),
            item_offsets=item_offsets,
            item_rules=item_rules,
            item_dots=item_dots,
            rules=self._rules,
            nonterminals=names,
            accepts=self._accepts,
            competing=self._competing,
            contexts_after=np.split(order, edges)[1:-1],
            access_symbol=access,
            start_nullable=start_nullable,
            resolved=tuple(conflict for conflict in self._conflicts if conflict.shift),
            is_whole=self._is_whole,
        )


def _offsets(counts: list[int]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _ragged_pairs(
    rows: list[list[tuple[int, int]]],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return offsets, first and second numbers of lists of pairs."""
    flat = np.array([pair for row in rows for pair in row], dtype=np.int32).reshape(-1, 2)
    return _offsets([len(row) for row in rows]), flat[:, 0].copy(), flat[:, 1].copy()
