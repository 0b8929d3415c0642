"""What is wrong with a Lark grammar is said with a code, a line, a column and a way out."""

from __future__ import annotations

import random
import warnings

import pytest

from cdec.cli.frame.console import in_typed_words
from cdec.compilers.grammars.analysis import analyse
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError, UsageError
from tests.cli.corpus.cases import Case, cases
from tests.compilers.grammars.lark.test_lark_equality import GRAMMARS

LATER = {"gr-untokenizable-literal", "gr-lookahead-terminal"}
"""Cases whose error only the tokenizer shows, or that have a meaning by now."""


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in cases("grammar")])
def test_corpus_of_bad_grammars(case: Case) -> None:
    expect = case.expect
    if "error" not in expect or case.id in LATER:
        notices = [notice.code for notice in analyse(read_grammar(case.data())).notices]
        # The compiler says these later; the corpus of the command line sees them.
        later = ["W_TOKEN_DEAD_END", "W_UNBOUNDED_WHITESPACE"]
        assert expect.get("warning", later[0]) in [*notices, *later]
        return
    with pytest.raises(CdecError) as caught:
        analyse(read_grammar(case.data()))
    error = caught.value
    assert (error.code, error.exit_status) == (expect["error"], expect["exit"])
    assert error.hint
    assert expect.get("hint", "") in in_typed_words(error.hint)
    for key, name in (("line", "line"), ("col", "column"), ("name", "name"), ("limit", "limit")):
        assert error.details.get(name) == expect.get(key, error.details.get(name))
    assert error.details.get("feature") == expect.get("feature", error.details.get("feature"))


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("start: (\n", "E_GRAMMAR_SYNTAX", 1, 9),
        ('start: "a"\nx y\n', "E_GRAMMAR_SYNTAX", 2, 3),
        ('start: "a" )\n', "E_GRAMMAR_SYNTAX", 1, 12),
        ('start: "a"??\n', "E_GRAMMAR_SYNTAX", 1, 12),
        ('start: A\nA: (B 0 "xy" | "xyz")+\nB: "b"\n', "E_GRAMMAR_SYNTAX", 2, 7),
        ('start: "a\n', "E_GRAMMAR_SYNTAX", 1, 8),
        ("start: /a\n", "E_GRAMMAR_SYNTAX", 1, 8),
        ('start: "a"\n%foo\n', "E_GRAMMAR_SYNTAX", 2, 1),
        ('start: A\nA: "a" -> x\n', "E_GRAMMAR_SYNTAX", 2, 8),
        ('start: A\nA: start "a"\n', "E_GRAMMAR_SYNTAX", 2, 4),
        ('start: b\nb: ("x" -> y) "z"\n', "E_GRAMMAR_SYNTAX", 2, 1),
        ('start: _b\n_b: "x" -> y\n', "E_GRAMMAR_SYNTAX", 2, 1),
        ('start: "a".."bc"\n', "E_GRAMMAR_SYNTAX", 1, 8),
        ('start: "z".."a"\n', "E_GRAMMAR_SYNTAX", 1, 8),
        ('start: "\\ud800"\n', "E_GRAMMAR_SYNTAX", 1, 8),
        ('start: "\\x1"\n', "E_GRAMMAR_SYNTAX", 1, 8),
        ('start: "a"~-1\n', "E_GRAMMAR_SYNTAX", 1, 11),
        ('start: t{"a"}\nt{x, y}: x y\n', "E_GRAMMAR_SYNTAX", 1, 1),
        ('start: "a"\nb: t\nt{x}: x\nstart2: b\n', None, 0, 0),
        ("start: b\nb: t\nt{x}: x\n", "E_GRAMMAR_UNDEFINED", 2, 1),
        ('start: "a"\n  | X "b"\n', "E_GRAMMAR_UNDEFINED", 2, 5),
        ('start: "a"\n%ignore X\n', "E_GRAMMAR_UNDEFINED", 2, 9),
        ('start: "a"\n%override b: "b"\n', "E_GRAMMAR_UNDEFINED", 2, 11),
        ('start: A\nA: "a"\n\n// c\nA.3: "b"\n', "E_GRAMMAR_DUPLICATE", 5, 1),
        ('%import common.INT\nINT: "b"\nstart: INT\n', "E_GRAMMAR_DUPLICATE", 2, 1),
        ('start: t{"a", "b"}\nt{x, x}: x\n', "E_GRAMMAR_DUPLICATE", 2, 1),
        ('start: "a"\n%declare X\n', "E_GRAMMAR_UNSUPPORTED", 2, 10),
        ("start: A\nA:\n", "E_GRAMMAR_EMPTY_TERMINAL", 2, 1),
        ('start: "a" ""\n', "E_GRAMMAR_EMPTY_TERMINAL", 1, 12),
        ('A: B\nB: "b" C\nC: A?\nstart: A\n', "E_GRAMMAR_TERMINAL_RECURSION", 1, 1),
        ("start: A\nA: B /x(/\nB: /y/\n", "E_REGEX_SYNTAX", 2, 6),
        ("start: /a{5,2}/\n", "E_REGEX_SYNTAX", 1, 8),
        ("start: /(?i)a/\n", "E_REGEX_SYNTAX", 1, 8),
        ("start: /a\nb/\n", "E_REGEX_SYNTAX", 1, 8),
        ("start: A\nA: B\nB: /y/ /x(?>y)/\n", "E_REGEX_UNSUPPORTED", 3, 8),
        ("start: /a++/\n", "E_REGEX_UNSUPPORTED", 1, 8),
        ("start: /(a)\\1/\n", "E_REGEX_UNSUPPORTED", 1, 8),
        ("start: X\n%import common.X\n", "E_GRAMMAR_IMPORT", 2, 9),
        ("start: X\n%import commons.X\n", "E_GRAMMAR_IMPORT", 2, 9),
        ("start: X\n%import common\n", "E_GRAMMAR_IMPORT", 2, 9),
    ],
)
def test_mistakes_have_a_place(text: str, code: str | None, line: int, column: int) -> None:
    if code is None:
        analyse(read_grammar(text))  # the mistake is in a rule that nothing uses
        return
    with pytest.raises(CdecError) as caught:
        read_grammar(text)
    error = caught.value
    found = (error.code, error.details.get("line"), error.details.get("column"))
    assert found == (code, line, column), error.message
    assert error.hint and error.message.startswith(f"line {line}")


def test_a_terminal_that_nothing_uses_may_look_around() -> None:
    assert len(read_grammar('start: "a"\nX: /(?!a)b/\n').terminals) == 1


def test_the_hint_names_a_rule_like_the_one_that_is_missing() -> None:
    with pytest.raises(CdecError) as caught:
        read_grammar('start: valeu\nvalue: "a"\n')
    assert caught.value.hint == "did you mean value?"


@pytest.mark.parametrize(
    ("text", "name", "line", "column"),
    [
        ('Start: "a"\n', "Start", 1, 1),
        ('?Start: "a"\n', "Start", 1, 2),
        ('start: "a"\n_myRule.2: "b"\n', "_myRule", 2, 1),
        ('start: "a" | Foo\nFoo: "b"\n', "Foo", 1, 14),
        ('start: "a" Foo\nfoo: "b"\n', "Foo", 1, 12),
        ('start: "Ab" ~2 Foo\n', "Foo", 1, 16),
        ('start: "a"\n%import common.Ws\n', "Ws", 2, 16),
    ],
)
def test_a_name_of_small_and_capital_letters_is_told_whole(
    text: str, name: str, line: int, column: int
) -> None:
    with pytest.raises(CdecError) as caught:
        read_grammar(text)
    error = caught.value
    assert error.code == "E_GRAMMAR_SYNTAX"
    assert f"line {line}, column {column}: the name {name!r} mixes" in error.message
    assert (error.details["line"], error.details["column"]) == (line, column)
    assert error.hint == f"write {name.lower()} for a rule, {name.upper()} for a terminal"


def test_names_that_touch_are_read_as_lark_reads_them() -> None:
    assert len(read_grammar('start: aB\na: "a"\nB: "b"\n').terminals) == 2


def test_the_name_of_the_source_is_part_of_the_error() -> None:
    with pytest.raises(CdecError) as caught:
        read_grammar("start: x\n", GrammarOptions(name="my.lark"))
    assert caught.value.details["path"] == "my.lark"


def test_a_start_that_does_not_exist_is_answered_with_one_that_does() -> None:
    with pytest.raises(CdecError) as caught:
        read_grammar('a: "a"\nb{x}: x\n', GrammarOptions(start="b"))
    assert (caught.value.code, caught.value.hint) == ("E_GRAMMAR_NO_START", "`start` a")


def test_the_lexer_of_the_caller_is_kept() -> None:
    assert read_grammar('start: "a"\n', GrammarOptions(lexer="basic")).lexer == "basic"
    assert read_grammar('start: "a"\n').lexer is None


def test_line_ends_and_byte_order_mark_do_not_matter() -> None:
    plain = read_grammar('start: "a" // c\n  | /b/\n')
    other = read_grammar(b'\xef\xbb\xbfstart: "a" // c\r\n  | /b/\r\n')
    assert other == plain


def test_a_string_with_a_lone_surrogate_is_no_utf8() -> None:
    with pytest.raises(CdecError) as caught:
        read_grammar('start: "a"\n// \ud800\n')
    assert (caught.value.code, caught.value.details["line"]) == ("E_ENCODING", 2)


_PIECES = [*'()[]{}|~*+?!.:,"/\\\n %->#x0', "..", "->", "%import ", "start", "A", '"a"', "~2"]


def test_mutilated_grammars_are_read_or_refused_with_a_way_out() -> None:
    generator = random.Random(0)
    sources = list(GRAMMARS.values())
    refused = 0
    for _ in range(1500):
        text = generator.choice(sources)
        for _ in range(generator.choice([1, 1, 2, 4])):
            place = generator.randrange(len(text) + 1)
            rest = text[place + generator.choice([0, 0, 1, 3]) :]
            text = text[:place] + generator.choice(_PIECES) + rest
        try:
            analyse(read_grammar(text))
        except CdecError as error:
            assert error.code.startswith("E_") and error.code != "E_INTERNAL" and error.hint, text
            refused += 1
    assert 0 < refused < 1500


def test_what_re_thinks_of_a_pattern_is_not_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_grammar("start: /[[a]/ X\nX: /[a||b]/ | /x/\n").rules


def test_the_other_dialect_is_read_where_it_is_named() -> None:
    assert read_grammar(b'root ::= "a"\n', GrammarOptions(format="ebnf")).dialect == "ebnf"
    with pytest.raises(UsageError):
        read_grammar("x", GrammarOptions(format="yacc"))  # type: ignore[arg-type]
