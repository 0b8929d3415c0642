"""Hidden left recursion: rules that no deterministic LR parser reads, however it is resolved."""

from __future__ import annotations

from cdec.compilers.grammars.analysis.graphs import components
from cdec.compilers.grammars.analysis.nullable import nullable_nonterminals
from cdec.compilers.grammars.definition import Grammar


def hidden_left_recursive(grammar: Grammar) -> list[str]:
    """Return the nonterminals that can begin with themselves behind something empty.

    Such a grammar is LR(k) for no k: the parser must guess how many empty things to put down
    before it has seen what would tell.

    Args:
        grammar: Its rules are looked at.

    Returns:
        Names, in the grammar's order. Cost: linear in the length of the rules.
    """
    nullable = nullable_nonterminals(grammar)
    begins: list[set[int]] = [set() for _ in grammar.nonterminals]
    hidden: list[tuple[int, int]] = []
    for rule in grammar.rules:
        for place, symbol in enumerate(rule.rhs):
            if symbol >= 0:
                break
            begins[rule.lhs].add(~symbol)
            if place:
                hidden.append((rule.lhs, ~symbol))
            if ~symbol not in nullable:
                break
    component = components(begins)
    found = {lhs for lhs, first in hidden if component[lhs] == component[first]}
    return [grammar.nonterminals[number] for number in sorted(found)]
