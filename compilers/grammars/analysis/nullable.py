"""Which symbols can be empty, which can produce a text at all, and which rules are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cdec.compilers.grammars.definition import Grammar, Rule


def closed_nonterminals(rules: Sequence[Rule], terminals: frozenset[int] | None) -> frozenset[int]:
    """Return the nonterminals that derive a text of the given terminals only.

    Nullable symbols are those that derive a text of no terminals; productive ones those that
    derive a text of any. One counter a rule: linear in the length of the rules.

    Args:
        rules: Plain BNF.
        terminals: Terminals that count as done; None: all of them.

    Returns:
        Nonterminal numbers.
    """
    open_symbols = [0] * len(rules)
    users: dict[int, list[int]] = {}
    found: set[int] = set()
    ready: deque[int] = deque()
    for number, rule in enumerate(rules):
        for symbol in rule.rhs:
            if symbol < 0:
                users.setdefault(~symbol, []).append(number)
            if symbol < 0 or (terminals is not None and symbol not in terminals):
                open_symbols[number] += 1
        if not open_symbols[number]:
            ready.append(rule.lhs)
    while ready:
        nonterminal = ready.popleft()
        if nonterminal in found:
            continue
        found.add(nonterminal)
        for number in users.get(nonterminal, ()):
            open_symbols[number] -= 1
            if not open_symbols[number]:
                ready.append(rules[number].lhs)
    return frozenset(found)


def nullable_nonterminals(grammar: Grammar) -> frozenset[int]:
    """Return the nonterminals that can be empty; linear in the rules."""
    return closed_nonterminals(grammar.rules, frozenset())


def used_rules(rules: Sequence[Rule], start: int) -> tuple[Rule, ...]:
    """Return the rules that derivations from ``start`` can use, in their order."""
    by_lhs: dict[int, list[Rule]] = {}
    for rule in rules:
        by_lhs.setdefault(rule.lhs, []).append(rule)
    reached = {start}
    ready = [start]
    while ready:
        for rule in by_lhs.get(ready.pop(), ()):
            for symbol in rule.rhs:
                if symbol < 0 and ~symbol not in reached:
                    reached.add(~symbol)
                    ready.append(~symbol)
    return tuple(rule for rule in rules if rule.lhs in reached)
