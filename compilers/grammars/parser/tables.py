"""Parse tables: LALR(1) as lark resolves it, or every action for the generalised parser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.analysis import closed_nonterminals, epsilon_free, used_rules
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule
from cdec.compilers.grammars.parser.lalr import Automaton, lookaheads
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import GrammarConflictError

_MAX_NAMES = 8
_ACTIONS_PER_STATE = 64
"""Table entries allowed for each state that ``max_states`` allows."""
__all__ = ["ambiguity", "refuse_ambiguity"]


class Conflict(NamedTuple):
    """A place where one action was taken and another was possible.

    Attributes:
        state: LR state.
        terminals: Before which terminals (the end of the text is ``len(grammar.terminals)``).
        rules: What could be reduced there, ascending.
        shift: A shift was possible as well, and taken.
    """

    state: int
    terminals: tuple[int, ...]
    rules: tuple[int, ...]
    shift: bool


def bits(numbers: int) -> list[int]:
    """Return the positions of the bits that are set, ascending."""
    text = bin(numbers)[:1:-1]
    found = []
    place = text.find("1")
    while place >= 0:
        found.append(place)
        place = text.find("1", place + 1)
    return found


def resolve(
    state: int, shifted: int, reductions: dict[int, int], rules: Sequence[Rule]
) -> tuple[dict[int, int], list[Conflict]]:
    """Leave at most one action a terminal: higher rule priority first, then shift before reduce.

    Args:
        state: LR state, for the conflicts.
        shifted: Terminals that can be shifted, as bits.
        reductions: Rule -> terminals before which it can be reduced, as bits.
        rules: The grammar's rules.

    Returns:
        ``reductions`` without what lost; the conflicts. Those without ``shift`` are between rules
        of equal priority and have no resolution: their terminals are left out.
    """
    conflicts: list[Conflict] = []
    seen = clash = 0
    for terminals in reductions.values():
        clash |= seen & terminals
        seen |= terminals
    if not (clash or seen & shifted):
        return reductions, conflicts
    kept = dict(reductions)
    undecided: dict[tuple[int, ...], list[int]] = {}
    for terminal in bits(clash):
        rivals = sorted(rule for rule, terminals in kept.items() if terminals >> terminal & 1)
        ranked = sorted(rivals, key=lambda rule: -rules[rule].priority)
        # subtle: lark asks this before it looks for a shift, so rules of equal priority clash
        # even where a shift would beat them both.
        decided = rules[ranked[0]].priority > rules[ranked[1]].priority
        if not decided:
            undecided.setdefault(tuple(rivals), []).append(terminal)
        for rule in ranked[1:] if decided else ranked:
            kept[rule] &= ~(1 << terminal)
    for rivals_key, terminals_list in undecided.items():
        conflicts.append(Conflict(state, tuple(terminals_list), rivals_key, shift=False))
    for rule, terminals in kept.items():
        if terminals & shifted:
            conflicts.append(Conflict(state, tuple(bits(terminals & shifted)), (rule,), shift=True))
            kept[rule] = terminals & ~shifted
    return kept, conflicts


def conflict_error(
    grammar: Grammar,
    rules: Sequence[Rule],
    conflicts: Sequence[Conflict],
    items: Iterable[tuple[int, int]],
) -> GrammarConflictError:
    """Return the error for conflicts without resolution.

    Args:
        rules: The rules that conflicts refer to.
        conflicts: At least one.
        items: Kernel items (rule, dot) of the first conflict's state.
    """
    first = conflicts[0]
    names = [terminal_name(grammar, terminal) for terminal in first.terminals]
    shown = ", ".join(names[:_MAX_NAMES]) + (", ..." if len(names) > _MAX_NAMES else "")
    reduced = [rule_text(grammar, rules[rule]) for rule in first.rules]
    after = [rule_text(grammar, rules[rule], dot) for rule, dot in items]
    more = f" ({len(conflicts) - 1} more such places)" if len(conflicts) > 1 else ""
    return GrammarConflictError(
        f"the grammar is not LALR(1): before {shown} both {' and '.join(reduced[:_MAX_NAMES])} "
        f"could end{more}",
        hint="use `lexer` dynamic, which parses every grammar, or give one rule a higher priority",
        terminals=names,
        rules=reduced,
        state_items=after,
        conflicts=len(conflicts),
    )


def terminal_name(grammar: Grammar, terminal: int) -> str:
    """Return a terminal as it is shown to users: its text in quotes, or its name."""
    if terminal == len(grammar.terminals):
        return "the end of the text"
    found = grammar.terminals[terminal]
    return f'"{found.value}"' if found.is_string and not found.words else found.name


def rule_text(grammar: Grammar, rule: Rule, dot: int | None = None) -> str:
    """Return a rule as ``a -> b C``, with a dot where one is given."""
    names = [
        grammar.nonterminals[~symbol] if symbol < 0 else terminal_name(grammar, symbol)
        for symbol in rule.rhs
    ]
    if dot is not None:
        names.insert(dot, ".")
    return f"{grammar.nonterminals[rule.lhs]} -> {' '.join(names) or '(nothing)'}"


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


Rows: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""Pairs of numbers, a list of them a state."""


def rows_of(
    offsets: NDArray[np.int32], first: NDArray[np.int32], second: NDArray[np.int32]
) -> list[list[tuple[int, int]]]:
    """Return the lists of pairs of numbers that columns hold, one a state."""
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    return [pairs[begin:stop] for begin, stop in pairwise(offsets.tolist())]


def action_rows(tables: ParseTables) -> list[dict[int, int]]:
    """Return the actions of each state by terminal, of tables with one action each."""
    columns = tables.action_offsets, tables.action_terminals, tables.action_values
    return list(map(dict, rows_of(*columns)))


def goto_rows(tables: ParseTables) -> list[dict[int, int]]:
    """Return the states that each state goes to, by nonterminal."""
    return list(map(dict, rows_of(tables.goto_offsets, tables.goto_symbols, tables.goto_states)))


def columns_of(rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return offsets, first and second numbers of lists of pairs."""
    flat = np.array([pair for row in rows for pair in row], dtype=np.int32).reshape(-1, 2)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return offsets, flat[:, 0].copy(), flat[:, 1].copy()


def with_rows(
    tables: ParseTables,
    actions: Rows,
    gotos: Rows,
    items: Rows,
    rules: Sequence[Rule],
) -> ParseTables:
    """Return tables with other actions, gotos, kernel items and rules, a row of each a state."""
    acting, going, begun = columns_of(actions), columns_of(gotos), columns_of(items)
    return replace(
        tables,
        num_states=len(actions),
        action_offsets=acting[0],
        action_terminals=acting[1],
        action_values=acting[2],
        goto_offsets=going[0],
        goto_symbols=going[1],
        goto_states=going[2],
        rule_lhs=np.array([rule.lhs for rule in rules], np.int32),
        rule_length=np.array([len(rule.rhs) for rule in rules], np.int32),
        item_offsets=begun[0],
        item_rules=begun[1],
        item_dots=begun[2],
        rules=tuple(rules),
    )


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
        goto_offsets, goto_symbols, goto_states = columns_of(gotos)
        item_offsets, item_rules, item_dots = columns_of(kernels)
        access = np.array([*self._automaton.access, self._end], dtype=np.int32)
        order = np.argsort(access, kind="stable").astype(np.int32)
        edges = np.searchsorted(access[order], np.arange(self._end + 1))
        return ParseTables(
            num_states=self._accepting + 1,
            action_offsets=np.cumsum([0, *map(len, self._terminals)]).astype(np.int32),
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
