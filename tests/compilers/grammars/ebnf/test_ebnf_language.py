"""Which texts a `::=` grammar accepts: lowered to BNF and terminals, against two references."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Terminal
from cdec.compilers.grammars.ebnf import regular as ebnf_regular
from cdec.compilers.grammars.ebnf.read import read_ebnf
from cdec.compilers.grammars.ebnf.regular import Regular
from cdec.core.errors import LimitError
from tests.compilers.grammars.ebnf.ebnf_spans import covers
from tests.compilers.grammars.parser.char_earley import accepts

TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product("ab", repeat=n)]
NAMES = ("root", "x", "y", "z")


def expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(
        ['"a"', '"b"', '"ab"', '""', "[ab]", "[^a]", ".", "x", "y", "z", "root"]
    )
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{,3}", "{2,}", "{0}"])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(" ".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' | '.join(parts)})"),
            st.tuples(inner, counts).map(lambda pair: f"({pair[0]}){pair[1]}"),
        )

    return st.recursive(leaves, grow, max_leaves=8)


sources = st.tuples(*[expressions()] * len(NAMES)).map(
    lambda bodies: "\n".join(f"{name} ::= {body}" for name, body in zip(NAMES, bodies, strict=True))
)


@pytest.mark.parametrize(
    ("longest_pattern", "large_count"), [(0, 32), (6, 32), (2000, 1), (2000, 32)]
)
@settings(
    max_examples=70,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(source=sources, texts=st.lists(st.sampled_from(TEXTS), min_size=6, max_size=12))
@example(source='root ::= ("a"?){2} x\nx ::= ("" | "b" x)?\ny ::= "a"\nz ::= "b"', texts=TEXTS)
@example(source='root ::= x{2,3}\nx ::= "a" x "b" | ""\ny ::= "a"\nz ::= "b"', texts=TEXTS)
@example(source='root ::= y "a" | y\ny ::= root "b" | z\nz ::= z "b" | "a"\nx ::= ""', texts=TEXTS)
def test_random_grammars_accept_what_their_expressions_cover(
    source: str,
    texts: list[str],
    longest_pattern: int,
    large_count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ebnf_regular, "LARGE_COUNT", large_count)
    monkeypatch.setattr(ebnf_regular, "MAX_PATTERN", longest_pattern)
    grammar = read_ebnf(source)
    check_shape(grammar)
    for text in texts:
        assert accepts(grammar, text) == covers(source, "root", text), (source, text)


def check_shape(grammar: Grammar) -> None:
    """Every terminal is a distinct pattern without the empty text, every symbol is in range."""
    assert len({terminal.pattern for terminal in grammar.terminals}) == len(grammar.terminals)
    assert len({terminal.name for terminal in grammar.terminals}) == len(grammar.terminals)
    assert not any(re.fullmatch(terminal.pattern, "") for terminal in grammar.terminals)
    for terminal in grammar.terminals:
        assert not terminal.is_string or re.fullmatch(terminal.pattern, terminal.value)
    assert len(set(grammar.rules)) == len(grammar.rules)
    for rule in grammar.rules:
        for symbol in rule.rhs:
            assert -len(grammar.nonterminals) <= symbol < len(grammar.terminals)
    assert grammar.lexer == "dynamic" and not grammar.ignored


@pytest.mark.parametrize(
    ("least", "most"), [(0, 1), (0, 5), (1, 4), (3, 3), (2, 7), (0, 8), (5, 21), (0, 31), (4, None)]
)
def test_counts_of_a_recursive_part_are_exact(least: int, most: int | None) -> None:
    counts = f"{{{least},{'' if most is None else most}}}"
    grammar = read_ebnf(f'root ::= "<" pair{counts} ">"\npair ::= "(" pair? ")"')
    for count in range((most or least) + 3):
        inside = least <= count and (most is None or count <= most)
        assert accepts(grammar, "<" + "()" * count + ">") == inside, count


def test_large_counts_of_a_recursive_part_need_few_rules() -> None:
    grammar = read_ebnf('root ::= pair{7,100000}\npair ::= "(" pair? ")"')
    assert len(grammar.rules) < 100


def test_large_counts_of_a_regular_part_need_few_rules() -> None:
    grammar = read_ebnf("root ::= ([a-z]{1,1000} [0-9]){1,1000}")
    assert len(grammar.rules) < 100
    assert accepts(grammar, "ab1c2") and not accepts(grammar, "ab1c")


def test_a_regular_grammar_becomes_one_terminal() -> None:
    grammar = read_ebnf(
        'root ::= word (" " word)*\nword ::= [a-z]+ ("-" digits)?\ndigits ::= [0-9]+'
    )
    assert [len(grammar.terminals), len(grammar.rules)] == [1, 1]


def test_a_rule_that_recurs_at_its_end_becomes_a_loop() -> None:
    grammar = read_ebnf("root ::= ([ \\t\\n] root)?")
    assert [terminal.pattern for terminal in grammar.terminals] == ["[\\x09\\x0a ]+"]
    assert accepts(grammar, "") and accepts(grammar, " \n ") and not accepts(grammar, " a")


def test_a_rule_that_recurs_at_its_beginning_becomes_a_loop() -> None:
    grammar = read_ebnf('root ::= root "," | root ";" | "x"')
    assert len(grammar.terminals) == 1
    assert accepts(grammar, "x,;") and not accepts(grammar, ",x") and not accepts(grammar, "")


def test_equal_literals_are_one_terminal() -> None:
    grammar = read_ebnf('root ::= "(" root ")" | "(" "(" root "]"| "x"')
    assert sorted(t.value for t in grammar.terminals) == ["(", "((", ")", "]", "x"]


def test_an_empty_language_stays_for_the_analysis() -> None:
    grammar = read_ebnf('root ::= "a" root')
    assert not accepts(grammar, "a")
    assert grammar.rules


def test_deep_expressions_stay_within_what_re_can_parse() -> None:
    depth = 400
    nested = '("a" ' * depth + '"b"' + ")?" * depth
    grammar = read_ebnf(f"root ::= {nested}")
    check_shape(grammar)
    assert accepts(grammar, "aab") is False
    assert accepts(grammar, "a" * 399) and accepts(grammar, "a" * 400 + "b")
    assert not accepts(grammar, "a" * 401)


def test_a_chain_of_many_rules_is_read_without_recursion() -> None:
    names = [f"r{i}" for i in range(3000)]
    chain = "\n".join(f"{a} ::= {b}" for a, b in itertools.pairwise(["root", *names]))
    assert accepts(read_ebnf(f'{chain}\nr2999 ::= "a"'), "a")
    assert accepts(read_ebnf(f'{chain}\nr2999 ::= "a" | "(" root ")"'), "((a))")


def test_many_alternatives_are_few_terminals() -> None:
    words = [f"w{i:06d}" for i in range(20_000)]
    grammar = read_ebnf("root ::= " + " | ".join(f'"{word}"' for word in words))
    assert len(grammar.terminals) < 200
    assert accepts(grammar, "w019999") and not accepts(grammar, "w020000")


def test_expanding_past_the_limit_of_rules_is_an_error() -> None:
    rules = "\n".join(f'a{i} ::= "x" root "y" | "z" root' for i in range(50))
    choice = " | ".join(f"a{i}" for i in range(50))
    with pytest.raises(LimitError) as caught:
        read_ebnf(f"root ::= {choice}\n{rules}", limits=GrammarLimits(max_rules=100))
    assert caught.value.details["limit"] == "max_rules"


@pytest.mark.parametrize(
    "source",
    [
        'root ::= [ab]* "a" [ab]{40}',
        "root ::= .* [^a] [^\\n]{1,200}",
        'root ::= ([a-z]+ " "?){1,200}',
        'root ::= ("a" | "ab") [a-z]{1,200}',
        "root ::= ([ab]{1,50} [ab]?)+",
    ],
)
def test_large_counts_never_blow_up_an_automaton(source: str) -> None:
    states = [terminal_states(terminal) for terminal in read_ebnf(source).terminals]
    assert max(states) <= 10 * 202  # UTF-8 takes up to 8 states for a character


def test_large_counts_that_follow_something_else_stay_in_one_terminal() -> None:
    grammar = read_ebnf('root ::= "Note: " [^\\n]{1,200} "\\n" ("!" [0-9]{,50} ";")?')
    assert len(grammar.terminals) == 1


def terminal_states(terminal: Terminal) -> int:
    return len(compile_terminal(terminal, prioritised=False, limits=GrammarLimits()).accepting)


def regulars() -> st.SearchStrategy[Regular]:
    leaves = st.sampled_from("abc").map(ebnf_regular.literal) | st.sampled_from(
        [ebnf_regular.one_of([(97, 98)]), ebnf_regular.one_of([(98, 99)]), ebnf_regular.EMPTY]
    )

    def grow(inner: st.SearchStrategy[Regular]) -> st.SearchStrategy[Regular]:
        counts = st.sampled_from([(0, 1), (0, None), (1, None), (2, 2), (1, 3), (2, 4)])
        return st.one_of(
            st.tuples(inner, inner).map(lambda pair: attempt(ebnf_regular.concatenate, *pair)),
            st.lists(inner, min_size=2, max_size=3).map(lambda p: attempt(ebnf_regular.choose, p)),
            st.tuples(inner, counts).map(lambda p: attempt(ebnf_regular.repeat, p[0], *p[1])),
        )

    return st.recursive(leaves, grow, max_leaves=10)


def attempt(operation: Callable[..., Regular], *arguments: object) -> Regular:
    try:
        return operation(*arguments)
    except ebnf_regular.TooLargeError:
        return ebnf_regular.EMPTY


@settings(max_examples=150, deadline=None)
@given(made=regulars())
def test_a_clear_expression_has_no_more_states_than_positions(made: Regular) -> None:
    assume(made.clear and made.pattern)
    terminal = Terminal("T", made.pattern, made.pattern, is_string=False)
    assert terminal_states(terminal) <= made.positions + 1
