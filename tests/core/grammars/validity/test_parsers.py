"""What lark's own parsers say of finished texts, and when they stop reading."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers.grammars.definition import Grammar, Rule, Terminal
from cdec.compilers.grammars.parser.characters import character_grammar
from cdec.core.child.readers import Language, OutOfTime
from cdec.core.grammars.errors import RegexUnsupportedError
from cdec.core.grammars.validity import parser_of, stored_language
from tests.compilers.grammars.parser.char_earley import accepts
from tests.laws.grammar_cases import texts_over

RANGE = 'start: NUMBER ".." NUMBER\nNUMBER: /[0-9]+(\\.[0-9]+)?/\n'
KEYWORD = 'start: "if" ID "then" ID\nID: /[a-z]+/\n%ignore / +/\n'


Checker = Callable[[bytes], bool | None]


def reader(language: Language, seconds: float = 60.0) -> Checker:
    """Return the verdicts on a language's texts, given in this process."""
    parse = parser_of(*language.parts)
    if parse is None:
        return lambda text: None
    return lambda text: parse(text.decode(), time.process_time() + seconds)


def lexed(source: str, lexer: str = "contextual", start: str = "start", **limits: float) -> Checker:
    options = json.dumps({"lexer": lexer, "start": start})
    return reader(stored_language({"cdec.options": options, "cdec.grammar": source}), **limits)


def terminal(pattern: str, name: str = "T", line: int = 3) -> Terminal:
    return Terminal(name, pattern, pattern, False, line=line)


def grammar(
    terminals: list[str], rules: list[tuple[int, tuple[int, ...]]], ignored: set[int] | None = None
) -> Grammar:
    heads = 1 + max(lhs for lhs, _ in rules)
    return Grammar(
        terminals=tuple(terminal(pattern, f"T{i}") for i, pattern in enumerate(terminals)),
        nonterminals=tuple(f"n{i}" for i in range(heads)),
        rules=tuple(Rule(lhs, rhs) for lhs, rhs in rules),
        start=0,
        ignored=frozenset(ignored or ()),
        lexer="dynamic",
        source="",
        dialect="lark",
    )


def dynamic(grammar: Grammar, **limits: float) -> Checker:
    options = json.dumps({"lexer": "dynamic", "start": "n0"})
    stored = {"cdec.options": options, "cdec.characters": character_grammar(grammar)}
    return reader(stored_language(stored), **limits)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        # Lark's lexer takes "1." as no number, and cannot come back from "1.2".
        (RANGE, "1..2", True),
        (RANGE, "1.5..2", True),
        (RANGE, "1.", False),
        (KEYWORD, "if a then b", True),
        (KEYWORD, "if then then b", True),
        (KEYWORD, "ifa then b", True),
        ('start: A "c"\nA: /a|ab/\n', "abc", False),
        ("%import common.INT\nstart: INT\n", "12", True),
        ("%import common.INT\nstart: INT\n", "1x", False),
    ],
)
def test_contextual_texts_are_judged_by_larks_lexer(source: str, text: str, expected: bool) -> None:
    assert lexed(source)(text.encode()) is expected


def test_basic_is_another_language_than_contextual() -> None:
    assert lexed(KEYWORD, "basic")(b"if then then b") is False
    assert lexed(KEYWORD, "contextual")(b"if then then b") is True


def test_the_start_rule_is_the_stored_one() -> None:
    source = 'start: "a"\nother: "b" start\n'
    assert lexed(source, start="other")(b"ba") is True
    assert lexed(source, start="other")(b"a") is False


@pytest.mark.parametrize("path", [".mine", "mine", ".common", "mine.inner"])
def test_imports_open_no_file(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("mine.lark", "common.lark", "inner/mine.lark"):
        (tmp_path / name).write_text('WORD: "a"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "x"), raising=False)
    assert lexed(f"%import {path}.WORD\nstart: WORD\n")(b"a") is None


def test_what_lark_cannot_read_is_unknown() -> None:
    assert lexed('root ::= "a"\n', start="root")(b"a") is None
    assert parser_of('{"lexer": "dynamic", "start": "s"}') is None


def test_a_parser_looks_at_the_time() -> None:
    ambiguous = grammar(["a"], [(0, (0,)), (0, (~0, ~0))])
    assert dynamic(ambiguous)(b"a" * 20) is True
    for check, text in (
        (dynamic(ambiguous, seconds=0.2), b"a" * 5000),
        (lexed('start: "a"*\n', seconds=-1.0), b"aaa"),
        # A parser that reduces for ever.
        (lexed('start: "b" x "a" x+ | "a"\nx.1: | "d"\n', seconds=0.2), b"ba"),
    ):
        begun = time.process_time()
        with pytest.raises(OutOfTime):
            check(text)
        assert time.process_time() - begun < 10


def test_every_segmentation_counts_under_dynamic() -> None:
    check = dynamic(grammar(["a+", "a", r"\s+"], [(0, (0, 1))], {2}))
    verdicts = {text: check(text.encode()) for text in ("aa", "a", " a  aa ", "aab", "", " ")}
    assert verdicts == {
        "aa": True,
        "a": False,
        " a  aa ": False,
        "aab": False,
        "": False,
        " ": False,
    }
    assert check(b"\taaa\na\r") is True


def test_ignored_text_may_stand_anywhere_even_alone() -> None:
    check = dynamic(grammar(["a", "#+"], [(0, ()), (0, (~0, 0))], {1}))
    assert all(check(text) for text in (b"", b"##", b"a", b"#a##a#"))
    assert check(b"b#") is False


def test_hidden_left_recursion_cycles_and_nullable_rules_are_read() -> None:
    rules = [(0, (~1, ~0, 0)), (0, (1,)), (0, (~0,)), (1, ()), (1, (~1, ~1)), (1, (2,))]
    check = dynamic(grammar(["a", "b", "c"], rules))
    assert [check(text) for text in (b"b", b"cba", b"ccbaa", b"ba", b"a", b"bc")] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]


def test_deep_nesting_is_no_problem() -> None:
    check = dynamic(grammar(["a", "b"], [(0, ()), (0, (0, ~0, 1))]), seconds=60)
    assert check(b"a" * 2000 + b"b" * 2000) is True
    assert check(b"a" * 2000 + b"b" * 1999) is False
    nested = lexed('start: "(" start ")" | "x"\n', seconds=60)
    assert nested(b"(" * 20_000 + b"x" + b")" * 20_000) is True


PATTERNS = [
    "(ab|c){3,7}",
    "a{0,13}b?",
    "(a?){2,5}",
    "(a*)*",
    "(?i:K\u017f)x",
    r"[^\d]{2,3}",
    "(a|b{2,})*c",
    "",
    r"[a-cx]{4}|\w+1",
    "(?s:.){2}",
    ".{2}",
    "(?:a|(?:b|(?:c|))){5,9}",
    "(?x: a b # comment\n c)",
]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PATTERNS), st.text("abc1Kk\u017fx\u212a\n", max_size=12))
def test_terminals_are_written_out_as_re_reads_them(pattern: str, text: str) -> None:
    check = CHECKS.setdefault(pattern, dynamic(grammar([pattern], [(0, (0,))])))
    assert check(text.encode()) is (re.fullmatch(pattern, text) is not None)


CHECKS: dict[str, Checker] = {}


@pytest.mark.parametrize("pattern", ["(a|b{2,})*?c", "a+?|b", "(?:a*?|b)c??", "a(?s:.){1,3}?"])
def test_lazy_terminals_hold_what_match_takes_as_a_whole(pattern: str) -> None:
    check = dynamic(grammar([pattern], [(0, (0,))]))
    for text in texts_over("abc", 5):
        match = re.match(pattern, text)
        assert check(text.encode()) is (match is not None and match.end() == len(text)), text


def test_patterns_that_re_refuses_have_no_parser() -> None:
    forged = {"sets": [], "patterns": ["(a"], "rules": [[0, [0]]], "start": 0}
    assert parser_of('{"lexer": "dynamic"}', characters=json.dumps(forged)) is None


def test_every_count_is_exact() -> None:
    for low, high in ((0, 1), (3, 3), (2, 17), (31, 33), (64, 100)):
        check = dynamic(grammar([f"a{{{low},{high}}}"], [(0, (0,))]))
        accepted = {n for n in range(high + 3) if check(b"a" * n)}
        assert accepted == set(range(low, high + 1))


def test_large_counts_need_few_rules() -> None:
    stored = json.loads(character_grammar(grammar(["[^\n]{1,10000}"], [(0, (0,))])))
    assert len(stored["rules"]) < 200


terminals = st.sampled_from(["a", "b", "ab", "a+", "(ab)*", "b?a", "[ab]", "c|a"])
symbols = st.integers(-2, 2)
rules = st.lists(
    st.tuples(st.integers(0, 1), st.lists(symbols, max_size=3).map(tuple)), min_size=2, max_size=6
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(terminals, min_size=3, max_size=3),
    rules,
    st.booleans(),
    st.lists(st.text("abc", max_size=5), min_size=4, max_size=4),
)
def test_verdicts_are_those_of_a_plain_recogniser(
    patterns: list[str],
    drawn: list[tuple[int, tuple[int, ...]]],
    ignores: bool,
    texts: list[str],
) -> None:
    made = grammar(patterns, [*drawn, (0, (0,)), (1, (1,))], {2} if ignores else set())
    check = dynamic(made, seconds=20)
    assert [check(text.encode()) for text in texts] == [accepts(made, text) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "error", "feature"),
    [
        ("b(?=a)", RegexUnsupportedError, "look-around"),
        ("(?<!a)b", RegexUnsupportedError, "look-around"),
        (r"(a)\1", RegexUnsupportedError, "back-reference"),
        ("a++", RegexUnsupportedError, "possessive"),
        ("(?>a)", RegexUnsupportedError, "atomic group"),
    ],
)
def test_patterns_that_are_not_regular_are_refused(
    pattern: str, error: type[Exception], feature: str
) -> None:
    with pytest.raises(error) as caught:
        character_grammar(grammar([pattern], [(0, (0,))]))
    details = caught.value.details  # type: ignore[attr-defined]
    assert (details["line"], details.get("feature")) == (3, feature)
