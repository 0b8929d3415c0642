"""Bounded white space: the language is lark's but for longer runs, under every lexer."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from cdec.compilers import compile_grammar
from cdec.compilers.grammars.options import GrammarOptions, GrammarReport
from cdec.core.errors import UsageError
from cdec.data.assets import grammar_path
from tests.laws.grammar_cases import byte_vocabulary, compiled, random_split, texts_over
from tests.laws.sessions import assert_session_laws

LIST = 'start: "a" ("," "a")*\n'
IGNORED = {
    "run": "W: /[ \\n]+/\n%ignore W\n",
    "one": "W: /[ \\n]/\n%ignore W\n",
    "two": '%ignore " "\n%ignore /\\n+/\n',
    "lazy": "W: /[ \\n]+?/\n%ignore W\n",
    "spaces": '%ignore " "\n',
    "lines": "%ignore /\\n/\n",
}
LEXERS = ("contextual", "basic", "dynamic")


def is_allowed(run: str, most: int) -> bool:
    """Read a run as its definition says it, character by character."""
    blanks = breaks = indentation = 0
    for character in run:
        if character == "\n":
            if indentation:
                return False
            breaks += 1
        elif breaks:
            indentation += 1
        else:
            blanks += 1
    return blanks <= most and breaks <= most and indentation <= 4 * most


@cache
def _parser(source: str, lexer: str) -> Lark:
    return Lark(source, parser="lalr", lexer=lexer)


def reference(source: str, text: str, most: int, lexer: str = "contextual") -> bool:
    """Lark's verdict, and of what its lexer leaves out between tokens the runs of blanks."""
    parser = _parser(source, lexer)
    try:
        parser.parse(text)
    except UnexpectedInput:
        return False
    at, gaps = 0, []
    for token in parser.lex(text):
        gaps.append(text[at : token.start_pos])
        at = token.end_pos
    gaps.append(text[at:])
    return all(is_allowed(run, most) for gap in gaps for run in gap.split("#"))


def accepted(constraint: Any, texts: list[str]) -> list[bool]:
    """Follow the bytes of texts."""
    session = constraint.session()
    after = session.advance_bytes(session.start(len(texts)), [text.encode() for text in texts])
    return [bool(done) for done in session.is_complete(after)]


@pytest.mark.parametrize("lexer", LEXERS)
@pytest.mark.parametrize("ignored", IGNORED)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_language_is_larks_with_the_bound(
    ignored: str, lexer: str, most: int, tmp_path: Path
) -> None:
    source = LIST + IGNORED[ignored]
    constraint = compiled(source, tmp_path, lexer=lexer, max_whitespace=most)
    texts = list(texts_over("a, \n", 5))
    parser_says = [reference(source, text, most) for text in texts]
    assert accepted(constraint, texts) == parser_says
    members = [text for text, said in zip(texts, parser_says, strict=True) if said]
    others = [t for t in texts if t.replace(" ", "").replace("\n", "") == "a" and t not in members]
    for text in [*members[:60], *others[:60]]:
        assert constraint.accepts(text.encode()) is (text in members), text


@pytest.mark.parametrize("lexer", LEXERS)
def test_long_runs_are_told_from_indentation(lexer: str, tmp_path: Path) -> None:
    source = LIST + IGNORED["run"]
    constraint = compiled(source, tmp_path, lexer=lexer, max_whitespace=2)
    runs = [
        " " * blanks + "\n" * breaks + " " * indentation + more
        for blanks in range(4)
        for breaks in range(4)
        for indentation in (0, 1, 7, 8, 9)
        for more in ("", "\n")
    ]
    for place in ("{}a", "a{},a", "a{}"):
        texts = [place.format(run) for run in runs]
        expected = [is_allowed(run, 2) for run in runs]
        assert accepted(constraint, texts) == expected
        assert [constraint.accepts(text.encode()) for text in texts] == expected


@pytest.mark.parametrize("lexer", LEXERS)
def test_a_comment_ends_a_run(lexer: str, tmp_path: Path) -> None:
    source = LIST + "C: /#/\n%ignore C\n%ignore / +/\n"
    constraint = compiled(source, tmp_path, lexer=lexer, max_whitespace=1)
    texts = list(texts_over("a# ", 5))
    expected = [reference(source, text, 1) for text in texts]
    assert accepted(constraint, texts) == expected
    assert sum(expected) > 20


@pytest.mark.parametrize("lexer", LEXERS)
@pytest.mark.parametrize("most", [0, 1, 3])
def test_masks_obey_the_laws(lexer: str, most: int, tmp_path: Path) -> None:
    vocabulary = byte_vocabulary(["  ", "   ", " a", "a ", ", ", ",\n  ", "\n", "\n\n", "a,"])
    source = LIST + IGNORED["run"]
    constraint = compiled(source, tmp_path, vocabulary, lexer=lexer, max_whitespace=most)
    assert constraint.is_sound
    rng = np.random.default_rng(0)
    texts = [t for t in texts_over("a, ", 5) if reference(source, t, most)][:40]
    members = [random_split(text.encode(), vocabulary, rng) for text in texts]
    assert_session_laws(constraint, members, rng)


@pytest.mark.parametrize("name", ["json", "jsonl", "sexpr", "arithmetic", "sql", "c"])
def test_shipped_grammars_are_bounded_and_stay_sound(name: str, tmp_path: Path) -> None:
    vocabulary = byte_vocabulary()
    source = grammar_path(name).read_text()
    report = compile_grammar(source, vocabulary, tmp_path / "x.arrow")
    assert report.max_whitespace == 8 and report.is_sound


def test_indented_json_is_json(tmp_path: Path) -> None:
    constraint = compiled(grammar_path("json").read_text(), tmp_path, max_whitespace=8)
    value: object = 1
    for depth in range(8):
        value = {"name": [value]} if depth % 2 else {"value": value, "more": "    " * 20}
    for indent in (None, 1, 2, "\t"):
        text = json.dumps(value, indent=indent).encode()
        assert constraint.accepts(text) and accepted(constraint, [text.decode()]) == [True]
    deep = json.dumps([[[[[[[[1]]]]]]]], indent=4)
    assert accepted(constraint, [deep, f"[{deep}\n    ]"]) == [True, True]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('start: TEXT "b"\nTEXT: /[^b]+/\n%ignore " "\n', "TEXT may begin with a blank"),
        ('start: "a" W "b"\nW: / +/\n%ignore W\n', "a rule names W"),
        ('start: "a" "b"\nW: / {2}/\n%ignore W\n', "' ' is not ignored by itself"),
    ],
)
def test_what_cannot_be_bounded_is_said_and_stays(source: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    report = compile_grammar(source, byte_vocabulary(), path, lexer="dynamic")
    (notice,) = [n for n in report.notices if n.code == "W_UNBOUNDED_WHITESPACE"]
    assert why in notice.message and report.max_whitespace is None


def test_grammars_without_blanks_say_nothing(tmp_path: Path) -> None:
    report = compile_grammar('start: "a"\n', byte_vocabulary(), tmp_path / "x.arrow")
    assert report.max_whitespace is None and not report.notices
    text = LIST + IGNORED["run"]
    report = compile_grammar(text, byte_vocabulary(), tmp_path / "y.arrow", max_whitespace=None)
    assert [notice.code for notice in report.notices] == ["W_UNBOUNDED_WHITESPACE"]


def test_the_bound_is_an_option_with_bounds() -> None:
    for wrong in (-1, 1001):
        with pytest.raises(UsageError, match="max_whitespace"):
            GrammarOptions(max_whitespace=wrong)
    options = GrammarOptions(max_whitespace=3)
    assert GrammarOptions.from_json(options.to_json()) == options
    assert GrammarOptions().max_whitespace == 8


def test_a_report_keeps_the_bound(tmp_path: Path) -> None:
    text = LIST + IGNORED["run"]
    report = compile_grammar(text, byte_vocabulary(), tmp_path / "x.arrow", max_whitespace=3)
    again = GrammarReport.from_message(json.loads(json.dumps(report.to_message())))
    assert (again.blanks, again.max_whitespace) == (report.blanks, 3) == ("\n ", 3)
