"""Texts that are lost where conflicts are decided for shifting are found."""

from __future__ import annotations

import random

import pytest

from cdec.compilers.grammars.analysis import analyse, hidden_left_recursive
from cdec.compilers.grammars.definition import Grammar, Rule, Terminal
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.parser.derivations import Derivations, Stack
from cdec.compilers.grammars.parser.shifting import lost_texts
from cdec.compilers.grammars.parser.tables import ParseTables, build_tables
from cdec.core.errors import CdecError

LOST = {
    'start: atom (bond? atom)*\natom: "C" (bond? D)*\nbond: "="\nD: "1"\n': "C = C",
    'start: a b\na: "x"*\nb: "x" "y"\n': "x y",
    'start: "i" start ("e" start)? "f"? | "x"\n': None,
    'start: "i" start | "i" start "e" start | "x"\n': None,
    'start: e\ne: "x" | e "+" e | e "*" e | "-" e | "(" e ")"\n': None,
    'start: s*\ns: "if" "x" s ("else" s)? | "{" s* "}" | "x" ";"\n': None,
    'start: s* "else" "!"\ns: "if" s ("else" s)? | "x"\n': "if x else !",
}


def first_lost(grammar: Grammar) -> tuple[int, ...] | None:
    tables = build_tables(grammar, generalised=False)
    assert tables.resolved
    return next(lost_texts(Derivations(tables), tables), None)


@pytest.mark.parametrize("text", LOST)
def test_what_shifting_loses_is_told_from_what_it_leaves(text: str) -> None:
    grammar = read_lark(text)
    lost = first_lost(grammar)
    spelled = None if lost is None else " ".join(grammar.terminals[t].value for t in lost)
    assert spelled == LOST[text]


def _shortest_lost(tables: ParseTables, length: int) -> tuple[int, ...] | None:
    """Read all short texts in every way at once, and as the tables do."""
    derivations = Derivations(tables)
    level: list[tuple[tuple[int, ...], list[Stack], Stack | None]] = [((), [(0,)], (0,))]
    for _ in range(length + 1):
        following = []
        for text, stacks, taken in level[:500]:
            if any(derivations.stacks_after(stack, derivations.end) for stack in stacks) and (
                taken is None or derivations.read(taken, derivations.end) is None
            ):
                return text
            for terminal in range(derivations.end):
                after = [s for stack in stacks for s in derivations.stacks_after(stack, terminal)]
                if after:
                    shifted = None if taken is None else derivations.read(taken, terminal)
                    following.append(((*text, terminal), list(dict.fromkeys(after))[:20], shifted))
        level = following
    return None


def _random_grammar(rng: random.Random) -> Grammar:
    num_terminals, num_nonterminals = rng.randint(2, 4), rng.randint(1, 5)
    rules: dict[Rule, None] = {}
    for lhs in range(num_nonterminals):
        for _ in range(rng.randint(1, 3)):
            length = rng.choice([0, 1, 1, 2, 2, 3, 3, 4])
            symbols = [
                rng.choice([rng.randrange(num_terminals), ~rng.randrange(num_nonterminals)])
                for _ in range(length)
            ]
            rules[Rule(lhs, tuple(symbols))] = None
    terminals = tuple(Terminal(f"T{i}", c, c, True) for i, c in enumerate("abcd"[:num_terminals]))
    names = tuple(f"n{i}" for i in range(num_nonterminals))
    return Grammar(terminals, names, tuple(rules), 0, frozenset(), None, "", "lark")


def test_random_grammars_lose_what_is_found_and_nothing_short_where_none_is() -> None:
    rng = random.Random(5)
    found = kept = 0
    while found < 15 or kept < 12:
        try:
            grammar = analyse(_random_grammar(rng))
            tables = build_tables(grammar, generalised=False)
        except CdecError:
            continue
        if not tables.resolved or hidden_left_recursive(grammar):
            continue
        lost = next(lost_texts(derivations := Derivations(tables), tables), None)
        if lost is None:
            kept += 1
            assert _shortest_lost(tables, 5) is None, grammar.rules
            continue
        found += 1
        stack: Stack | None = (0,)
        stacks: list[Stack] = [(0,)]
        for terminal in (*lost, derivations.end):
            stack = None if stack is None else derivations.read(stack, terminal)
            stacks = [s for r in stacks for s in derivations.stacks_after(r, terminal)][:500]
        assert stack is None and stacks
