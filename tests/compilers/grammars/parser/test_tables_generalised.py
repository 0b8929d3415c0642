"""Generalised tables accept the context-free language: all of it, nothing else."""

from __future__ import annotations

import itertools
import random

import pytest

from cdec.compilers.grammars.analysis import epsilon_free
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule
from cdec.compilers.grammars.parser.tables import (
    ParseTables,
    ambiguity,
    build_tables,
    refuse_ambiguity,
)
from cdec.core.errors import LimitError
from tests.compilers.grammars.parser.lark_tables import plain_grammar

LONGEST = 5

AWKWARD = {
    "left recursion": [("S", "S a"), ("S", "b")],
    "hidden left recursion": [("S", "X S a"), ("S", "b"), ("X", "")],
    "hidden right recursion": [("S", "a S X"), ("S", "b"), ("X", ""), ("X", "c")],
    "nullable loop": [("S", "X S"), ("S", ""), ("X", "X X"), ("X", ""), ("X", "a")],
    "nullable mutual": [("S", "X S"), ("S", ""), ("X", ""), ("X", "S")],
    "cyclic unit": [("S", "X"), ("X", "Y"), ("X", "a"), ("Y", "X")],
    "ambiguous": [("S", "S S"), ("S", "a")],
    "dangling else": [("S", "a S"), ("S", "a S b S"), ("S", "c")],
    "not LALR": [
        *[("S", "a X a"), ("S", "b X b"), ("S", "a Y b"), ("S", "b Y a")],
        *[("X", "c"), ("Y", "c")],
    ],
    "palindromes": [("S", "a S a"), ("S", "b S b"), ("S", "a"), ("S", "b"), ("S", "")],
    "many optional": [
        *[("S", "A B C A B"), ("A", "a"), ("A", ""), ("B", "b"), ("B", ""), ("C", "c"), ("C", "")]
    ],
    "many optional and one not": [
        ("S", "A B c A B A"),
        ("A", "a"),
        ("A", ""),
        ("B", "b"),
        ("B", ""),
    ],
    "nothing but empty": [("S", "X X"), ("X", "")],
    "dead alternative": [("S", "a"), ("S", "D"), ("D", "D b")],
    "empty language": [("S", "S a")],
}


def language(
    grammar: Grammar, longest: int, nullable: frozenset[int] = frozenset()
) -> set[tuple[int, ...]]:
    """Return all words up to a length, by the definition: a fixpoint over the rules."""
    words: list[set[tuple[int, ...]]] = [set() for _ in grammar.nonterminals]
    changed = True
    while changed:
        changed = False
        for rule in grammar.rules:
            found: set[tuple[int, ...]] = {()}
            for symbol in rule.rhs:
                choices = words[~symbol] if symbol < 0 else {(symbol,)}
                if symbol in nullable:
                    choices = choices | {()}
                found = {x + y for x in found for y in choices if len(x) + len(y) <= longest}
            if not found <= words[rule.lhs]:
                words[rule.lhs] |= found
                changed = True
    return words[grammar.start]


def table_actions(tables: ParseTables, state: int, terminal: int) -> list[int]:
    begin, stop = tables.action_offsets[state : state + 2]
    return [
        int(value)
        for value, on in zip(
            tables.action_values[begin:stop], tables.action_terminals[begin:stop], strict=True
        )
        if on == terminal
    ]


def goto(tables: ParseTables, state: int, nonterminal: int) -> int:
    begin, stop = tables.goto_offsets[state : state + 2]
    place = tables.goto_symbols[begin:stop].tolist().index(nonterminal)
    return int(tables.goto_states[begin + place])


def accepts(tables: ParseTables, word: tuple[int, ...], end: int) -> bool:
    """Follow all stacks one by one, each a tuple of states: slow and plain."""
    stacks = {(0,)}
    for terminal in (*word, end):
        ready, seen, after = list(stacks), set(stacks), set()
        while ready:
            stack = ready.pop()
            for action in table_actions(tables, stack[-1], terminal):
                if action >= 0:
                    after.add((*stack, action))
                    continue
                rest = stack[: -int(tables.rule_length[~action])]
                new = (*rest, goto(tables, rest[-1], int(tables.rule_lhs[~action])))
                if new not in seen:
                    seen.add(new)
                    ready.append(new)
        stacks = after
    return bool(stacks)


def assert_same_language(
    grammar: Grammar, longest: int, nullable: frozenset[int] = frozenset()
) -> int:
    tables = build_tables(grammar, generalised=True, nullable_terminals=nullable)
    assert all(rule.rhs for rule in tables.rules)
    expected = language(grammar, longest, nullable)
    terminals = range(len(grammar.terminals))
    for length in range(longest + 1):
        for word in itertools.product(terminals, repeat=length):
            assert accepts(tables, word, len(terminals)) == (word in expected), word
    return len(expected)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_grammars_keep_their_language(name: str) -> None:
    assert_same_language(plain_grammar(AWKWARD[name], names="a b c"), LONGEST)


def test_random_grammars_keep_their_language() -> None:
    rich = 0
    for seed in range(400):
        rich += assert_same_language(random_grammar(seed, terminals=2), 4) > 3
    assert rich > 50


def test_terminals_that_can_be_empty_become_optional() -> None:
    rich = 0
    for seed in range(200):
        rich += assert_same_language(random_grammar(seed, terminals=2), 4, frozenset({1})) > 3
    assert rich > 50


def random_grammar(seed: int, terminals: int) -> Grammar:
    pick = random.Random(seed)
    names = ["a", "b", "c"][:terminals]
    nonterminals = ["S", "A", "B"][: pick.randint(1, 3)]
    rules = []
    for lhs in nonterminals:
        for _ in range(pick.randint(1, 3)):
            length = pick.choice([0, 1, 1, 2, 2, 3, 5])
            rules.append((lhs, " ".join(pick.choices([*nonterminals, *names], k=length))))
    return plain_grammar(rules, names=" ".join(names))


def test_terminals_that_match_nothing_take_their_rules_with_them() -> None:
    grammar = plain_grammar([("S", "a S"), ("S", "b X"), ("S", "c"), ("X", "a")], names="a b c")
    found = epsilon_free(grammar, barren_terminals=frozenset({1}))
    assert [rule.rhs for rule in found.rules] == [(0, ~0), (2,)]
    both = epsilon_free(grammar, frozenset({2}), frozenset({2}))
    assert both.start_nullable
    assert (0,) in [rule.rhs for rule in both.rules]
    assert all(2 not in rule.rhs for rule in both.rules)


def test_many_optional_symbols_in_one_rule_stay_linear() -> None:
    symbols = 150
    rules = [Rule(0, tuple(~n for n in range(1, symbols + 1)))]
    for number in range(1, symbols + 1):
        rules += [Rule(number, ()), Rule(number, (number - 1,))]
    words = plain_grammar([("S", " ".join(f"w{n}" for n in range(symbols)))]).terminals
    names = ("s", *(f"x{n}" for n in range(symbols)))
    grammar = Grammar(words, names, tuple(rules), 0, frozenset(), None, "", "lark")
    found = epsilon_free(grammar)
    assert found.start_nullable
    assert len(found.rules) < 6 * symbols
    tables = build_tables(grammar, generalised=True)
    assert accepts(tables, (0, 7, symbols - 1), symbols)
    assert accepts(tables, (), symbols)
    assert not accepts(tables, (7, 0), symbols)


def test_every_action_is_kept_shifts_first() -> None:
    grammar = plain_grammar([("S", "S S"), ("S", "a")])
    tables = build_tables(grammar, generalised=True)
    crowded = [
        values
        for state in range(tables.num_states)
        if len(values := table_actions(tables, state, 0)) > 1
    ]
    assert crowded
    assert all(values[0] >= 0 and values[1] < 0 for values in crowded)
    assert not tables.resolved


def plain_ambiguity(tables: ParseTables) -> int:
    """Return the ambiguity of tables by the definition."""
    most = 0
    for terminal in range(int(tables.action_terminals.max()) + 1):
        found = [table_actions(tables, state, terminal) for state in range(tables.num_states)]
        competing = {action for actions in found if len(actions) > 1 for action in actions}
        names = {int(tables.rule_lhs[~action]) for action in competing if action < 0}
        most = max(most, sum(int((tables.goto_symbols == name).sum()) for name in names))
    return most


@pytest.mark.parametrize("name", AWKWARD)
def test_ambiguity_counts_the_reductions_that_compete(name: str) -> None:
    tables = build_tables(plain_grammar(AWKWARD[name]), generalised=True)
    assert ambiguity(tables) == plain_ambiguity(tables)


def chain(count: int, *forms: str) -> list[tuple[str, str]]:
    """Return rules each of which is the next one, or has other forms of itself and the next one."""
    pairs = list(itertools.pairwise(["S", *(f"R{i}" for i in range(1, count)), "Z"]))
    more = [
        (name, form.format(own=name, next=after, i=i))
        for i, (name, after) in enumerate(pairs)
        for form in forms
    ]
    return [*pairs, *more, ("Z", "a")]


def test_chains_of_ambiguous_rules_are_refused_by_their_square() -> None:
    def tables(count: int) -> ParseTables:
        rules = chain(count, "{next} {next}", "b {next} c")
        return build_tables(plain_grammar(rules), generalised=True)

    assert 3.8 < ambiguity(tables(40)) / ambiguity(tables(20)) < 4.2
    with pytest.raises(LimitError) as raised:
        refuse_ambiguity(tables(300), GrammarLimits())
    assert raised.value.details["limit"] == "max_ambiguity"
    assert "`max_ambiguity`" in str(raised.value.hint)
    refuse_ambiguity(tables(300), GrammarLimits(max_ambiguity=1 << 20))


def test_long_chains_without_ambiguity_are_not_refused() -> None:
    rules = chain(300, "{own} o{i} {next}")
    assert ambiguity(build_tables(plain_grammar(rules), generalised=True)) == 0
