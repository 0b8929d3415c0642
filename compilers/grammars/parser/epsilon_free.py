"""The same language without empty rules: what the generalised parser is built from.

With no empty rule every reduction takes at least one symbol off the stack, so hidden left
recursion (``start: x start "a"`` with an empty ``x``) needs no special care while parsing: the
trap of Tomita's algorithm that right-nulled parsers (Scott and Johnstone 2006) avoid online is
avoided here offline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cdec.compilers.grammars.analysis.nullable import closed_nonterminals, used_rules
from cdec.compilers.grammars.definition import Grammar, Rule

_MAX_OPTIONAL = 2
"""Symbols of one rule that may be left out before the rule is cut in two: at most four variants."""


class EpsilonFree(NamedTuple):
    """A grammar's rules without empty ones.

    Attributes:
        rules: No ``rhs`` is empty; all are reachable and productive; no rule ``A -> A``.
        nonterminals: Names: those of the grammar, then those of the rests of long rules.
        start_nullable: The empty text belongs to the language and needs saying apart.
    """

    rules: tuple[Rule, ...]
    nonterminals: tuple[str, ...]
    start_nullable: bool


def epsilon_free(
    grammar: Grammar,
    nullable_terminals: frozenset[int] = frozenset(),
    barren_terminals: frozenset[int] = frozenset(),
) -> EpsilonFree:
    """Remove empty rules: every occurrence of a nullable symbol becomes optional.

    Rules with many nullable symbols are cut first (``A -> B C D E`` into ``A -> B R`` and
    ``R -> C D E``), so that the result is linear in the grammar and not exponential.

    Args:
        grammar: The grammar.
        nullable_terminals: Terminals that can match the empty text; afterwards they do not.
        barren_terminals: Terminals that can match nothing but, perhaps, the empty text.

    Returns:
        Rules for the same language over nonempty terminals, less the empty text.
    """
    nullable = closed_nonterminals(grammar.rules, nullable_terminals)
    optional = {~nonterminal for nonterminal in nullable} | set(nullable_terminals)
    names = list(grammar.nonterminals)
    variants: dict[Rule, None] = {}
    for rule in grammar.rules:
        for piece in _cut(rule, optional, names):
            for rhs in _choices(piece.rhs, optional):
                if rhs and rhs != (~piece.lhs,):
                    variants.setdefault(Rule(piece.lhs, rhs, piece.priority))
    every = frozenset(range(len(grammar.terminals)))
    productive = closed_nonterminals(tuple(variants), every - barren_terminals)
    rules = [
        rule
        for rule in variants
        if all(
            (~symbol in productive) if symbol < 0 else (symbol not in barren_terminals)
            for symbol in rule.rhs
        )
    ]
    return EpsilonFree(used_rules(rules, grammar.start), tuple(names), grammar.start in nullable)


def _cut(rule: Rule, optional: set[int], names: list[str]) -> Iterator[Rule]:
    """Yield rules equal to ``rule`` with at most ``_MAX_OPTIONAL`` symbols that can be left out.

    Adds the names of new nonterminals to ``names`` and, where the rest of a rule can be empty,
    the new nonterminal to ``optional``.
    """
    places = [place for place, symbol in enumerate(rule.rhs) if symbol in optional]
    # subtle: a rest is optional only if all its symbols are, so it is known before it is cut.
    all_optional_from = len(rule.rhs)
    while all_optional_from and rule.rhs[all_optional_from - 1] in optional:
        all_optional_from -= 1
    lhs, begin = rule.lhs, 0
    for place in places[:-_MAX_OPTIONAL]:
        cut = place + 1
        rest = len(names)
        names.append(f"__{names[rule.lhs]}_from_{cut + 1}")
        if cut >= all_optional_from:
            optional.add(~rest)
        yield Rule(lhs, (*rule.rhs[begin:cut], ~rest), rule.priority)
        lhs, begin = rest, cut
    yield Rule(lhs, rule.rhs[begin:], rule.priority)


def _choices(rhs: tuple[int, ...], optional: set[int]) -> list[tuple[int, ...]]:
    """Return ``rhs`` with every subset of its optional symbols left out."""
    places = [place for place, symbol in enumerate(rhs) if symbol in optional]
    found = []
    for subset in range(1 << len(places)):
        gone = {place for bit, place in enumerate(places) if subset >> bit & 1}
        found.append(tuple(symbol for place, symbol in enumerate(rhs) if place not in gone))
    return found
