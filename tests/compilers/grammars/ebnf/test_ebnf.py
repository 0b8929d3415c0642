"""EBNF and GBNF: syntax, languages, files."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Terminal
from cdec.compilers.grammars.ebnf import regular as ebnf_regular
from cdec.compilers.grammars.ebnf.read import read_ebnf
from cdec.compilers.grammars.ebnf.regular import Regular
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarError,
    GrammarStartError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    GrammarUnsupportedError,
)
from tests.compilers.grammars.ebnf.ebnf_spans import covers
from tests.compilers.grammars.parser.char_earley import accepts

# --- How `::=` grammars are written: escapes, classes, layout, and the place of every mistake.


def language(source: str, texts: list[str], others: list[str]) -> None:
    grammar = read_ebnf(source)
    assert [text for text in texts if not accepts(grammar, text)] == []
    assert [text for text in others if accepts(grammar, text)] == []


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r'"\n\t\r\\\""', '\n\t\r\\"'),
        (r'"\x41\u00e9\U0001F600"', "Aé😀"),
        (r"'it\'s \"fine\"'", 'it\'s "fine"'),
        (r'"[a-z]*.|()"', "[a-z]*.|()"),
        (r'"\[\]\-\^"', "[]-^"),
        ('"東京"', "東京"),
    ],
)
def test_literals_stand_for_their_text(literal: str, text: str) -> None:
    grammar = read_ebnf(f"root ::= {literal}")
    assert [(t.value, t.is_string) for t in grammar.terminals] == [(text, True)]
    assert accepts(grammar, text) and not accepts(grammar, text + text)


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        ("[a-c_]", "abc_", "d-A"),
        ("[^a-c\\n]", "d\r😀\x00", "abc\n"),
        ("[-+*/]", "-+*/", ",."),
        ("[+-]", "+-", ","),
        ("[a\\-c]", "a-c", "b"),
        ("[\\]\\[^\\\\]", "][^\\", "a"),
        ('["|"-"]', '"|', "-!#"),
        ("[\\x00-\\x1F]", "\x00\n\x1f", " "),
        ("[一-鿿ぁ-ゟ]", "一鿿あ", "aア"),
        ("[\\U0001F600-\\U0001F64F]", "😀🙏", "🚀"),
        ("[--/&&~~||[[]", "&~|-./[", "0]"),
        ("[\\x00-\\uD7FF]", "a\ud7ff", "\ue000"),
        (".", "a\n\x00😀", ""),
        ("[^a]", "\nb", "a"),
    ],
)
def test_classes_hold_what_is_written(written: str, inside: str, outside: str) -> None:
    language(f"root ::= {written}", list(inside), [*outside, "", inside[0] * 2])


@pytest.mark.parametrize(
    ("counts", "allowed"),
    [
        ("*", range(9)),
        ("+", range(1, 9)),
        ("?", range(2)),
        ("{3}", [3]),
        ("{2,}", range(2, 9)),
        ("{,3}", range(4)),
        ("{ 2 , 4 }", range(2, 5)),
        ("{0}", [0]),
        ("?+", range(9)),
    ],
)
def test_counts_say_how_often(counts: str, allowed: range) -> None:
    texts = ["a" * n for n in range(9)]
    grammar = read_ebnf(f'root ::= "a"{counts}')
    assert [n for n, text in enumerate(texts) if accepts(grammar, text)] == list(allowed)


def test_rules_go_on_until_the_next_one_begins() -> None:
    source = (
        '# a comment with "quotes" and ( brackets\r\n'
        'root ::=\r\n  "a"   # first\r\n  | long-name_2 "c"\r\n\r\n'
        '  | (\r\n "d"\r\n \'e\' )\n\nlong-name_2 ::= | "b"\n'
    )
    language(source, ["a", "c", "bc", "de"], ["", "b", "d", "ab"])


def test_names_may_hold_dashes_dots_and_digits() -> None:
    language('root ::= a.b-c 2nd\na.b-c ::= "x"\n2nd ::= "y"', ["xy"], ["x", "y"])
    language('root ::= a.+\na ::= "x"', ["xy", "xyz"], ["x"])


def test_names_may_begin_with_dashes_and_digits() -> None:
    rules = '-x ::= "x"\n--0- ::= "y"\n9-a ::= "z"\n0 ::= "0"\n- ::= "-"'
    language("root ::= -x --0- 9-a 0 -\n" + rules, ["xyz0-"], ["xyz0", "x"])
    language('root ::= (-a|a-a)*-{2}\n-a ::= "a"\na-a ::= "b"\n- ::= "c"', ["cc", "abcc"], ["ab"])
    source = '-root ::= "r" -1?\n-1 ::= -root\n'
    assert accepts(read_ebnf(source, start="-root"), "rr")
    assert GrammarOptions().for_text(source).format == "ebnf"
    assert GrammarOptions().for_text('0 ::= "a"').format == "ebnf"


def test_what_is_no_name_is_an_exclusion_still() -> None:
    for source in ("root ::= [a-z] -x\n", "root ::= [a-z] - x\nx ::= [b]\n"):
        with pytest.raises(GrammarUnsupportedError) as caught:
            read_ebnf(source)
        assert caught.value.details["construct"] == "-"
        assert caught.value.details["column"] == 16


def test_the_start_is_root_then_start_then_what_is_asked_for() -> None:
    source = 'start ::= "s"\nother ::= "o"\n'
    assert accepts(read_ebnf(source), "s")
    assert accepts(read_ebnf(source + 'root ::= "r"'), "r")
    assert accepts(read_ebnf(source, start="other"), "o")


def test_rules_out_of_reach_are_left_out_with_a_notice() -> None:
    grammar = read_ebnf('root ::= "a"\nunused ::= "b" deeper\ndeeper ::= "c" unused')
    assert [notice.code for notice in grammar.notices] == ["W_UNREACHABLE_RULE"]
    assert grammar.notices[0].details["rules"] == ["unused", "deeper"]
    assert [terminal.value for terminal in grammar.terminals] == ["a"]


def test_the_source_is_kept() -> None:
    grammar = read_ebnf('root ::= "a"\n')
    assert (grammar.source, grammar.dialect) == ('root ::= "a"\n', "ebnf")


def test_terminals_know_where_they_are_written() -> None:
    grammar = read_ebnf('root ::= "(" root ")" |\n  "x"\n')
    places = {t.value: (t.line, t.column) for t in grammar.terminals}
    assert places == {"(": (1, 10), ")": (1, 19), "x": (2, 3)}


@pytest.mark.parametrize(
    ("source", "kind", "line", "column"),
    [
        ("", GrammarSyntaxError, 1, 1),
        ("# nothing\n", GrammarSyntaxError, 1, 1),
        ('"a"\n', GrammarSyntaxError, 1, 1),
        ('root ::= "a"{5,0}\n', GrammarSyntaxError, 1, 13),
        ('root ::= "a"{,}\n', GrammarSyntaxError, 1, 13),
        ('root ::= "a"{x}\n', GrammarSyntaxError, 1, 13),
        ("root ::= *\n", GrammarSyntaxError, 1, 10),
        ('root ::= ("a" | *)\n', GrammarSyntaxError, 1, 17),
        ('root ::= ("a"\n\nx ::= "b"\n', GrammarSyntaxError, 3, 1),
        ('root ::= "a")\n', GrammarSyntaxError, 1, 13),
        ('root ::= "a\n', GrammarSyntaxError, 1, 10),
        ("root ::= [a-\n", GrammarSyntaxError, 1, 10),
        ("root ::= [z-a]\n", GrammarSyntaxError, 1, 11),
        ("root ::= []\n", GrammarSyntaxError, 1, 10),
        ("root ::= [^\\x00-\\U0010FFFF]\n", GrammarSyntaxError, 1, 10),
        ("root ::= [^]\n", GrammarSyntaxError, 1, 10),
        ('root ::= "a\\q"\n', GrammarSyntaxError, 1, 12),
        ('root ::= "a\\x4"\n', GrammarSyntaxError, 1, 12),
        ('root ::= "\\uD800"\n', GrammarSyntaxError, 1, 11),
        ('root ::= "\\U00110000"\n', GrammarSyntaxError, 1, 11),
        ('root ::= "a" b ::= "c"\n', GrammarSyntaxError, 1, 14),
        ('root ::= "a"\n  ::= "c"\n', GrammarSyntaxError, 2, 3),
        ('root: "a"\n', GrammarSyntaxError, 1, 5),
        ("root ::= $\n", GrammarSyntaxError, 1, 10),
        ('root ::= "a" | x\n', GrammarUndefinedError, 1, 16),
        ('root ::= "a"\nroot ::= "b"\n', GrammarDuplicateError, 2, 1),
        ('root ::= "a"\n  <think> "b"\n', GrammarUnsupportedError, 2, 3),
        ("root ::= !<[17]>*\n", GrammarUnsupportedError, 1, 10),
        ("root ::= /[a-z]+/\n", GrammarUnsupportedError, 1, 10),
        ("%ignore ws\n", GrammarUnsupportedError, 1, 1),
        ('root ::= "a" - "b"\n', GrammarUnsupportedError, 1, 14),
        ('root ::= "a" (="b")\n', GrammarUnsupportedError, 1, 15),
        ("root ::= [\\d]\n", GrammarUnsupportedError, 1, 11),
        ('/* c */\nroot ::= "a"\n', GrammarUnsupportedError, 1, 1),
    ],
)
def test_mistakes_are_named_with_their_place(
    source: str, kind: type[CdecError], line: int, column: int
) -> None:
    with pytest.raises(kind) as caught:
        read_ebnf(source)
    error = caught.value
    assert (type(error), error.details["line"], error.details["column"]) == (kind, line, column)
    assert error.hint and f"line {line}" in error.message


def test_an_undefined_rule_suggests_a_near_one() -> None:
    with pytest.raises(GrammarUndefinedError) as caught:
        read_ebnf('root ::= vlaue\nvalue ::= "x"')
    assert caught.value.details["name"] == "vlaue"
    assert "value" in str(caught.value.hint)


def test_a_missing_start_names_a_rule_that_exists() -> None:
    with pytest.raises(GrammarStartError) as caught:
        read_ebnf('foo ::= "a"')
    assert caught.value.hint == "`start` foo"
    with pytest.raises(GrammarStartError):
        read_ebnf('root ::= "a"', start="toor")


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ('root ::= "a"{100000000}\n', "max_repeat"),
        ('root ::= "a"{1,' + "9" * 5000 + "}\n", "max_repeat"),
        ("root ::= " + "(" * 30_000 + '"a"', "max_nesting"),
        ("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, "max_nesting"),
        ("\n".join(f'r{i} ::= "a"' for i in range(100_000)), "max_rules"),
        ("# " + "x" * 20_000_000 + '\nroot ::= "a"\n', "max_grammar_bytes"),
        ("# " + "é" * 2_100_000 + '\nroot ::= "a"\n', "max_grammar_bytes"),
    ],
    ids=["count", "long count", "open brackets", "brackets", "rules", "bytes", "encoded bytes"],
)
def test_limits_end_what_is_too_large(source: str, limit: str) -> None:
    with pytest.raises(LimitError) as caught:
        read_grammar(source, GrammarOptions(format="ebnf"))
    assert caught.value.details["limit"] == limit
    assert caught.value.hint


@pytest.mark.slow
def test_nesting_far_beyond_pythons_stack_is_read_when_allowed() -> None:
    depth = 30_000
    source = 'root ::= "x" root | ' + "(" * depth + '"a"' + ")" * depth
    grammar = read_ebnf(source, limits=GrammarLimits(max_nesting=depth))
    assert accepts(grammar, "xxa")
    optional = "root ::= " + '("a" ' * depth + ")?" * depth
    began = time.process_time()
    read_ebnf(optional, limits=GrammarLimits(max_nesting=depth, max_rules=10 * depth))
    assert time.process_time() - began < 60


# --- Which texts a `::=` grammar accepts: lowered to BNF and terminals, against two references.

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


@pytest.mark.share(1)
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


# --- Public `::=` grammars are read, and accept what their owners say they accept.

UNREADABLE = {
    "11604909.ebnf": ("E_GRAMMAR_UNDEFINED", 3, "'_arg_0'"),
    "woosuk/sygus_iter_26_0_bare.ebnf": ("E_GRAMMAR_SYNTAX", 5, "without its ("),
    "woosuk/sygus_iter_26_0_completion.ebnf": ("E_GRAMMAR_SYNTAX", 5, "without its ("),
}


def grammar_files(shared: Path) -> list[Path]:
    data = shared / "data"
    return sorted(
        [
            *data.glob("gad_sygus/grammars/**/*.ebnf"),
            *data.glob("grammars/**/*.ebnf"),
            *data.glob("grammars/**/*.gbnf"),
        ]
    )


def test_every_public_grammar_is_read_or_its_mistake_named(shared: Path) -> None:
    files = grammar_files(shared)
    assert len(files) > 60
    unread = set()
    for path in files:
        try:
            grammar = read_ebnf(path.read_text())
        except GrammarError as error:
            names = [name for name in UNREADABLE if str(path).endswith(name)]
            assert names, f"{path}: {error}"
            code, line, said = UNREADABLE[names[0]]
            assert (error.code, error.details["line"]) == (code, line)
            assert said in error.message
            unread.add(names[0])
        else:
            assert grammar.terminals and grammar.rules
            for terminal in grammar.terminals:
                assert not re.fullmatch(terminal.pattern, "")
    assert unread == set(UNREADABLE)


def test_reference_solutions_are_accepted_or_refused_as_marked(shared: Path) -> None:
    grammars = {}
    counts: Counter[bool] = Counter()
    rows = lzma.decompress((shared / "data/gad_sygus/tasks.jsonl.xz").read_bytes())
    for line in rows.splitlines():
        task = json.loads(line)
        source = task["grammar"]
        if source not in grammars:
            grammars[source] = read_ebnf(source)
        if not task["reference_solution"]:
            continue
        marked = task["reference_solution_in_grammar"]
        assert accepts(grammars[source], task["reference_solution"]) == marked, task["id"]
        counts[marked] += 1
    assert counts == {True: 95, False: 50}


def test_public_grammars_accept_their_own_format(shared: Path) -> None:
    folder = shared / "data/grammars/llguidance/from-llama.cpp"
    cases = {
        "json.gbnf": (['{"a": [1, -2.5e1, "\\u00e9\\n"]}', "{}"], ["[]", '{"a" 1}', '{"a": 01}']),
        "chess.gbnf": (["1. e4 e5\n2. Nf3 Nc6\n"], ["1. e4 e5\n", "e4"]),
        "c.gbnf": (["int main(){return 0;}", ""], ["int main(){return}"]),
        "arithmetic.gbnf": (["1+2*x=3\n", "(a)=b\n"], ["1+=2\n", "1=2"]),
        "list.gbnf": (["- a\n- b c\n"], ["- \n", "a\n"]),
        "japanese.gbnf": (["こんにちは 世界"], ["hello", ""]),
    }
    for name, (inside, outside) in cases.items():
        grammar = read_ebnf((folder / name).read_text())
        assert [text for text in inside if not accepts(grammar, text)] == [], name
        assert [text for text in outside if accepts(grammar, text)] == [], name
