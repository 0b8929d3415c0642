"""Terminals too large for one automaton, read under ``dynamic`` as two that follow one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cdec.compilers.grammars.automata.halves import Half, halves
from cdec.compilers.grammars.definition import (
    ByteAutomaton,
    Grammar,
    GrammarLimits,
    Rule,
    Terminal,
)
from cdec.core.errors import LimitError


def with_halves(
    grammar: Grammar, automaton_of: Callable[[Terminal], ByteAutomaton], limits: GrammarLimits
) -> tuple[Grammar, list[ByteAutomaton]]:
    """Make rules of terminals that are too large, if they can be cut in two.

    Args:
        grammar: Its rules use no ignored terminal.
        automaton_of: Compiles a terminal.
        limits: Of automata.

    Returns:
        A grammar for the same texts, and automata of all its terminals. The halves have the last
        numbers; terminals that were cut are ``refused``.

    Raises:
        LimitError: A terminal is too large and cannot be cut.
    """
    automata, halved = list[ByteAutomaton](), dict[int, tuple[Half, Half]]()
    for number, terminal in enumerate(grammar.terminals):
        try:
            automata.append(automaton_of(terminal))
        except LimitError:
            cut = None if number in grammar.ignored else halves(terminal, limits)
            if cut is None:
                raise
            halved[number] = cut
            automata.append(cut[1][1])  # a stand-in: no rule uses the terminal any more
    automata += [automaton for cut in halved.values() for _, automaton in cut]
    return _over(grammar, halved), automata


def _over(grammar: Grammar, halved: Mapping[int, tuple[Half, Half]]) -> Grammar:
    terminals, names = list(grammar.terminals), list(grammar.nonterminals)
    stands_for, rules = dict[int, int](), list[Rule]()
    for number, (left, right) in halved.items():
        first = len(terminals)
        stands_for[number] = ~len(names)
        rules.append(Rule(len(names), (first, first + 1)))
        terminals += [left[0], right[0]]
        names.append(grammar.terminals[number].name)
    own = tuple(
        replace(rule, rhs=tuple(stands_for.get(symbol, symbol) for symbol in rule.rhs))
        for rule in grammar.rules
    )
    return replace(
        grammar,
        terminals=tuple(terminals),
        nonterminals=tuple(names),
        rules=(*own, *rules),
        refused=grammar.refused | halved.keys(),
    )
