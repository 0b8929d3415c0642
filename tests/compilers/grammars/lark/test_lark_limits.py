"""Nothing in a Lark grammar costs unbounded time, memory or recursion."""

from __future__ import annotations

import sys
import time

import pytest

from cdec.compilers.grammars.analysis import analyse
from cdec.compilers.grammars.definition import Grammar, GrammarLimits
from cdec.compilers.grammars.lark.source import read_lark
from cdec.core.errors import LimitError


def limit_of(text: str, limits: GrammarLimits | None = None) -> object:
    with pytest.raises(LimitError) as caught:
        read_lark(text, limits=limits or GrammarLimits())
    assert caught.value.hint
    return caught.value.details["limit"]


def nested(depth: int, brackets: str, operator: str = "") -> Grammar:
    start, end = brackets
    return read_lark(f'start: {start * depth}"a"{(end + operator) * depth}\n')


@pytest.mark.parametrize("brackets", ["()", "[]"])
@pytest.mark.parametrize("operator", ["", "?", "*", "+"])
def test_brackets_nest_as_deep_as_the_limit_says(brackets: str, operator: str) -> None:
    if brackets == "[]":
        operator = ""
    grammar = nested(500, brackets, operator)
    assert len(analyse(grammar).terminals) == 1
    with pytest.raises(LimitError):
        nested(501, brackets, operator)


def test_deep_groups_of_a_terminal_end_in_a_limit() -> None:
    assert limit_of("start: A\nA: " + "(" * 501 + '"a"' + ")+" * 501 + "\n") == "max_nesting"
    assert len(read_lark("start: A\nA: " + "(" * 200 + '"a"' + ")+" * 200 + "\n").terminals) == 1
    assert limit_of("start: /" + "(" * 501 + "a" + ")" * 501 + "/\n") == "max_nesting"


def test_brackets_in_strings_classes_and_comments_do_not_nest() -> None:
    inside = "(" * 600
    grammar = read_lark(f'start: "{inside}" /[{inside}]/ // {inside}\n')
    assert len(grammar.terminals) == 2


def test_raised_limits_hold() -> None:
    limits = GrammarLimits(max_nesting=3, max_repeat=5, max_rules=4)
    assert limit_of('start: (((("a"))))\n', limits) == "max_nesting"
    assert limit_of('start: "a"~6\n', limits) == "max_repeat"
    assert limit_of("start: /a{6}/\n", limits) == "max_repeat"
    assert limit_of('start: "a" | "b" | "c" | "d" | "e"\n', limits) == "max_rules"
    assert limit_of('start: ("a" | "b") ("c" | "d" | "e")\n', limits) == "max_rules"
    assert read_lark('start: ((("a"~5))) | /a{5}/ | "c" | "d"\n', limits=limits).rules


@pytest.mark.parametrize(
    "text",
    [
        'start: ("a"|"b")~0..20 "a" ("a"|"b")~20 "c"\n',
        'start: t{A}\nt{x}: ("a"|x)~0..20 x ("a"|x)~20\nA: "c"\n',
        "start: " + "(" * 5 + '"a"? "b"?' + ")~9" * 5 + "\n",
    ],
)
def test_alternatives_that_even_helper_rules_cannot_hold_end_in_a_limit(text: str) -> None:
    assert limit_of(text, GrammarLimits(max_rules=5000)) == "max_rules"


def test_repetitions_that_multiply_out_are_counted_first() -> None:
    assert limit_of("start: " + "(" * 60 + '"a"' + ")~3" * 60 + "\n") == "max_repeat"


def test_counts_up_to_the_limit_make_few_rules() -> None:
    grammar = read_lark('start: "a"~100000 ("b" | "c"~5..99999)\n')
    assert len(grammar.rules) < 100


def test_templates_that_grow_without_end_are_stopped() -> None:
    assert limit_of('start: t{A}\nt{x}: "b" | t{u{x}}\nu{x}: x\nA: "a"\n') == "max_nesting"


def test_terminals_that_multiply_out_are_counted_first() -> None:
    lines = [f"A{i}: A{i - 1} A{i - 1}" for i in range(1, 40)]
    assert limit_of('start: A39\nA0: "aa"\n' + "\n".join(lines) + "\n") == "max_grammar_bytes"


def test_long_chains_of_terminals_are_read_or_refused() -> None:
    def chain(length: int) -> str:
        lines = [f"A{i}: A{i - 1}" for i in range(1, length)]
        return f'start: A{length - 1}\nA0: "aa"\n' + "\n".join(lines) + "\n"

    assert len(read_lark(chain(200)).terminals) == 1
    assert limit_of(chain(600)) == "max_nesting"


def test_backslashes_without_an_end_take_no_time() -> None:
    start = time.perf_counter()
    for quote in '"/':
        with pytest.raises(Exception, match="without end"):
            read_lark(f"start: {quote}" + "\\" * 20_001 + "\n")
    assert time.perf_counter() - start < 5  # exponential otherwise: not a matter of a slow machine


def test_thousands_of_rules_and_alternatives_are_read() -> None:
    chain = "\n".join(f"r{i}: r{i + 1}" for i in range(3000))
    grammar = analyse(read_lark(f'start: r0\n{chain}\nr3000: "a"\n'))
    assert len(grammar.rules) == 3002
    words = " | ".join(f'"w{i:06d}"' for i in range(5000))
    assert len(read_lark(f"start: {words}\n").terminals[0].words) == 5000


def test_the_recursion_limit_is_left_alone() -> None:
    before = sys.getrecursionlimit()
    nested(300, "()")
    assert sys.getrecursionlimit() == before
