"""Analysis: what produces or reaches nothing goes, with a warning."""

from __future__ import annotations

import random
from functools import reduce
from operator import or_

import pytest

from cdec.compilers.grammars.analysis import (
    analyse,
    components,
    nullable_nonterminals,
    reachable,
    union_reached,
)
from cdec.compilers.grammars.definition import Grammar, Rule, Terminal
from cdec.compilers.grammars.lark.source import read_lark
from cdec.core.grammars.errors import EmptyLanguageError


def grammar_of(rules: list[tuple[int, tuple[int, ...]]], count: int) -> Grammar:
    terminals = tuple(Terminal(t, t.lower(), t.lower(), True) for t in "AB")
    names = tuple(f"n{n}" for n in range(count))
    return Grammar(
        terminals, names, tuple(Rule(*rule) for rule in rules), 0, frozenset(), None, "", "lark"
    )


def warnings_of(text: str) -> dict[str, list[str]]:
    return {n.code: n.details["rules"] for n in analyse(read_lark(text)).notices}  # type: ignore[misc]


def words(grammar: Grammar, length: int) -> list[set[tuple[int, ...]]]:
    """Derive all terminal strings up to a length, for every nonterminal, by brute force."""
    found: list[set[tuple[int, ...]]] = [set() for _ in grammar.nonterminals]
    changed = True
    while changed:
        changed = False
        for rule in grammar.rules:
            made: set[tuple[int, ...]] = {()}
            for symbol in rule.rhs:
                parts = {(symbol,)} if symbol >= 0 else found[~symbol]
                made = {a + b for a in made for b in parts if len(a) + len(b) <= length}
            changed |= not made <= found[rule.lhs]
            found[rule.lhs] |= made
    return found


@pytest.mark.parametrize("seed", range(60))
def test_analysis_keeps_the_language(seed: int) -> None:
    generator = random.Random(seed)
    count = generator.randint(1, 5)
    rules = [
        (
            generator.randrange(count),
            tuple(generator.randrange(-count, 2) for _ in range(generator.randint(0, 3))),
        )
        for _ in range(generator.randint(1, 8))
    ]
    grammar = grammar_of(list(dict.fromkeys(rules)), count)
    before = words(grammar, 4)
    try:
        after = analyse(grammar)
    except EmptyLanguageError:
        assert before[0] == set()
        return
    assert words(after, 4)[after.start] == before[0]
    used = {~s for rule in after.rules for s in rule.rhs if s < 0} | {after.start}
    assert used == set(range(len(after.nonterminals))) == {rule.lhs for rule in after.rules}
    empty = {after.nonterminals[n] for n in nullable_nonterminals(after)}
    assert empty == {
        name for name, found in zip(after.nonterminals, words(after, 0), strict=True) if found
    }
    assert after.terminals == grammar.terminals


def test_dead_alternatives_are_dropped_with_a_warning() -> None:
    grammar = analyse(read_lark('start: "a" | dead other\ndead: dead "x"\nother: "y"\n'))
    assert [(rule.lhs, rule.rhs) for rule in grammar.rules] == [(0, (0,))]
    assert {n.code: n.details["rules"] for n in grammar.notices} == {
        "W_UNPRODUCTIVE_RULE": ["dead"]
    }


def test_every_rule_that_is_never_reached_is_named_once() -> None:
    text = 'start: "a"\nu: v "b"\nv: "c"\nw: x | "d"\nx: w "e"\n_h: "f"\nt{p}: p\ndead: dead\n'
    assert warnings_of(text) == {"W_UNREACHABLE_RULE": ["u", "v", "dead", "w", "x"]}


def test_a_grammar_without_dead_ends_gives_no_warning() -> None:
    assert warnings_of('start: "a" b*\nb: "b" | start\n') == {}


def test_the_empty_language_is_an_error_that_names_the_start() -> None:
    with pytest.raises(EmptyLanguageError) as caught:
        analyse(read_lark('start: x "a"\nx: start "b"\n'))
    assert caught.value.details["name"] == "start"


def test_long_chains_and_wide_rules_need_no_recursion() -> None:
    count = 50_000
    chain = [(n, (~(n + 1),)) for n in range(count - 1)]
    grammar = analyse(grammar_of([*chain, (count - 1, (0,))], count))
    assert len(grammar.rules) == count
    wide = analyse(grammar_of([(0, (~1,) * count), (1, (0,)), (1, ())], 2))
    assert nullable_nonterminals(wide) == {0, 1}
    with pytest.raises(EmptyLanguageError):
        analyse(grammar_of([*chain, (count - 1, (~0,))], count))


@pytest.mark.parametrize("seed", range(30))
def test_graph_functions_agree_with_their_definitions(seed: int) -> None:
    generator = random.Random(seed)
    count = generator.randint(1, 9)
    successors = [
        sorted({generator.randrange(count) for _ in range(generator.randint(0, 2))})
        for _ in range(count)
    ]
    reach = [reachable(n, successors) for n in range(count)]
    component = components(successors)
    for a in range(count):
        for b in range(count):
            assert (component[a] == component[b]) == (a in reach[b] and b in reach[a])
            assert b not in reach[a] or component[b] <= component[a]
    values = [generator.getrandbits(8) for _ in range(count)]
    unions = [reduce(or_, (values[node] for node in found)) for found in reach]
    assert union_reached(successors, values) == unions
