"""How `::=` grammars are written: escapes, classes, layout, and the place of every mistake."""

from __future__ import annotations

import time

import pytest

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.ebnf.read import read_ebnf
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarStartError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    GrammarUnsupportedError,
)
from tests.compilers.grammars.parser.char_earley import accepts


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


def test_nesting_far_beyond_pythons_stack_is_read_when_allowed() -> None:
    depth = 30_000
    source = 'root ::= "x" root | ' + "(" * depth + '"a"' + ")" * depth
    grammar = read_ebnf(source, limits=GrammarLimits(max_nesting=depth))
    assert accepts(grammar, "xxa")
    optional = "root ::= " + '("a" ' * depth + ")?" * depth
    began = time.process_time()
    read_ebnf(optional, limits=GrammarLimits(max_nesting=depth, max_rules=10 * depth))
    assert time.process_time() - began < 60
