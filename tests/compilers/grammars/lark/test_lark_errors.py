"""Refusals of Lark grammars: errors, limits, imports."""

from __future__ import annotations

import builtins
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from lark import Lark

from cdec.cli.frame.console import in_typed_words
from cdec.compilers.grammars.analysis import analyse
from cdec.compilers.grammars.definition import Grammar, GrammarLimits
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError, LimitError, UsageError
from tests.cli.corpus.cases import Case, cases
from tests.compilers.grammars.lark.lark_reference import plain
from tests.compilers.grammars.lark.test_lark_language import GRAMMARS

# --- What is wrong with a Lark grammar is said with a code, a line, a column and a way out.

LATER = {"gr-untokenizable-literal", "gr-lookahead-terminal"}
"""Cases whose error only the tokenizer shows, or that have a meaning by now."""


@pytest.mark.share(16)
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
        ('start: "a"\n%declare _X\n', "E_GRAMMAR_UNSUPPORTED", 2, 10),
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


@pytest.mark.slow
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


# --- Nothing in a Lark grammar costs unbounded time, memory or recursion.


def limit_of(text: str, limits: GrammarLimits | None = None) -> object:
    with pytest.raises(LimitError) as caught:
        read_lark(text, limits=limits or GrammarLimits())
    assert caught.value.hint
    return caught.value.details["limit"]


def nested(depth: int, brackets: str, operator: str = "") -> Grammar:
    start, end = brackets
    return read_lark(f'start: {start * depth}"a"{(end + operator) * depth}\n')


@pytest.mark.share(1)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# --- Imports read Lark's own grammars, and files of one folder where that is allowed; nothing
# else.

SHAPES = """
start: pair (SEP pair)*
pair: key "=" value
key: NAME | KEYWORD
value: /[^,"\\n\\/]+/ | QUOTED
QUOTED: "\\"" /(a|\\/)*?/s "\\""
NAME.2: /[a-z_]+/i
KEYWORD: "end"
SEP: "," | "\\n" " "~1..2
%ignore " "
"""


def test_no_file_of_the_working_directory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.lark").write_text('FOO: "a"\n')
    (tmp_path / "common.lark").write_text('INT: "mine"\n')
    monkeypatch.chdir(tmp_path)
    opened: list[object] = []
    original = builtins.open

    def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(file)
        return original(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", watched)
    for text in ("%import .secret.FOO", "%import secret.FOO", "%import .secret (FOO)"):
        with pytest.raises(CdecError) as caught:
            read_lark(f"{text}\nstart: FOO\n")
        assert caught.value.code == "E_GRAMMAR_IMPORT"
    assert "mine" not in read_lark("%import common.INT\nstart: INT\n").terminals[0].pattern
    assert [file for file in opened if str(tmp_path) in str(file) or "secret" in str(file)] == []


def test_files_of_the_allowed_folder_are_imported(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "shapes.lark").write_text("%import .more.WORD\nitem: WORD DIGITS\n"
                                                    "DIGITS: /[0-9]+/\n")  # fmt: skip
    (tmp_path / "parts" / "more.lark").write_text('WORD: "w" | "v"\n')
    for path in (".parts.shapes.item", "parts.shapes.item"):
        grammar = read_lark(f'%import {path}\nstart: item "!"\n', allow_imports=tmp_path)
        names = {terminal.name for terminal in grammar.terminals}
        assert {name.rpartition("__")[2] for name in names} == {"WORD", "DIGITS", "BANG"}


@pytest.mark.parametrize("target", ["..outside.X", ".link.X", "link.X", ".folder.X", ".no.X"])
def test_nothing_outside_the_folder_is_imported(tmp_path: Path, target: str) -> None:
    inside = tmp_path / "inside"
    (inside / "folder.lark").mkdir(parents=True)
    (tmp_path / "outside.lark").write_text('X: "a"\n')
    (inside / "link.lark").symlink_to(tmp_path / "outside.lark")
    with pytest.raises(CdecError) as caught:
        read_lark(f"%import {target}\nstart: X\n", allow_imports=inside)
    assert caught.value.code == "E_GRAMMAR_IMPORT"


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('%import .b.Y\nX: Y "x"\n')
    (tmp_path / "b.lark").write_text('%import .a.X\nY: X "y"\n')
    with pytest.raises(CdecError) as caught:
        read_lark("%import .a.X\nstart: X\n", allow_imports=tmp_path)
    assert caught.value.code in ("E_GRAMMAR_IMPORT", "E_LIMIT")


def test_mistakes_in_an_imported_file_name_it(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('Z: "z"\nX: /(/\n')
    with pytest.raises(CdecError) as caught:
        options = GrammarOptions(allow_imports=tmp_path, name="main.lark")
        read_grammar("%import .a.X\nstart: X\n", options)
    error = caught.value
    assert error.code == "E_REGEX_SYNTAX"
    assert (error.details["line"], error.details["column"]) == (2, 4)
    assert error.details["path"] == str(tmp_path / "a.lark")


def test_the_source_of_a_grammar_with_imported_files_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "shapes.lark").write_text(SHAPES)
    text = '%import .shapes.start -> shapes\n%ignore " "\nstart: shapes ";"?\n'
    grammar = read_lark(text, allow_imports=tmp_path)
    again = read_lark(grammar.source)
    assert "%import" not in grammar.source
    assert len(again.terminals) == len(grammar.terminals)
    for ours, theirs in zip(grammar.terminals, again.terminals, strict=True):
        assert (ours.is_string, ours.flags, ours.priority) == (
            theirs.is_string, theirs.flags, theirs.priority,
        )  # fmt: skip
    assert sorted(len(rule.rhs) for rule in again.rules) == sorted(
        len(rule.rhs) for rule in grammar.rules
    )
    theirs_lark = Lark(grammar.source, parser="lalr")
    ours_lark = Lark(SHAPES + 'top: start ";"?\n', parser="lalr", start="top")
    for sample in ("end=a", 'x = "a/a" , y=b;', "X_y=1,\n  z=2", "=", 'a="', "a=b;;", ""):
        assert accepts(theirs_lark, sample) == accepts(ours_lark, sample), sample


def test_a_grammar_without_imported_files_keeps_its_source() -> None:
    text = "%import common.INT\nstart: INT\n"
    assert read_lark(text).source == text


def test_lark_reads_the_rendered_text_to_the_same_rules(tmp_path: Path) -> None:
    (tmp_path / "e.lark").write_text('E: "\\"" "\\\\n" "\\t" /\\/\\\\[\\n\'"\\]]+/ | "é"\n')
    text = '%import .e.E\nn1: E | "a" n1\nn2.3: n1 | "\\n"\nstart: n2 E "\\\\" |\n'
    grammar = read_lark(text, allow_imports=tmp_path)
    again = plain(read_lark(grammar.source))
    ours = plain(grammar)
    assert [terminal[2:] for terminal in ours.terminals] == [t[2:] for t in again.terminals]
    assert sorted(rule[2] for rule in ours.rules) == sorted(rule[2] for rule in again.rules)
    values = [terminal.value for terminal in grammar.terminals if terminal.is_string]
    assert values == [t.value for t in read_lark(grammar.source).terminals if t.is_string]


def accepts(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text)
    except Exception:
        return False
    return True
